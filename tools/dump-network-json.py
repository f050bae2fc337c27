#!/usr/bin/env python3
"""Writes the network description of a config as JSON."""

import argparse
import json
import os
import sys

import _setup_returnn_env  # noqa: F401

from returnn.tf.engine.engine import Engine
from returnn.tools.command_line import init_config, run_tool


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("returnn_config_file", help="file of a config")
    parser.add_argument("--epoch", type=int, default=1, help="whose network")
    parser.add_argument("--out", default="/dev/stdout", help="file for the JSON")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    engine = Engine(init_config(args.returnn_config_file, verbosity=2))
    net_dict = engine.get_net_dict_for_epoch(epoch=args.epoch)
    with open(args.out, "w", encoding="utf8") as file:
        json.dump(net_dict, file, indent=2, default=repr)  # dims and functions have no form in JSON
        file.write("\n")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(run_tool(main, make_parser()))
