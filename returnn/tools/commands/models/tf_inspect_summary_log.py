"""Prints values from a TensorBoard event file."""

import argparse

from returnn.util.errors import check_known
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("file", help="event file")
    parser.add_argument("--tag", default="objective/loss", help="name of the values")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    event_file = import_part("returnn.tf.event_file", needed_for="the tool 'tf-inspect-summary-log'")
    scalars = event_file.read_scalars(args.file)
    check_known("tag", args.tag, scalars, where=f"event file {args.file!r}")
    for step, value in scalars[args.tag]:
        print(f"step {step}: {value:.8g}")
