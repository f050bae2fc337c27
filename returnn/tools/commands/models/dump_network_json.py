"""Writes the network description of a config as JSON."""

import argparse
import json

from returnn.tools.command_line import add_config, init_config
from returnn.util.files.atomic_file import open_atomic
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "returnn_config_file", help="file of a config")
    parser.add_argument("--epoch", type=int, default=1, help="whose network")
    parser.add_argument("--out", default="/dev/stdout", help="file for the JSON")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    engines = import_part("returnn.tf.engine", needed_for="the tool 'dump-network-json'")
    engine = engines.Engine(init_config(args, verbosity=2, is_required=True))
    net_dict = engine.get_net_dict_for_epoch(epoch=args.epoch)
    with open_atomic(args.out) as file:
        json.dump(net_dict, file, indent=2, default=repr)  # dims and functions have no form in JSON
        file.write("\n")
