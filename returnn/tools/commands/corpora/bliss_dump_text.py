"""Prints the transcriptions of a Bliss corpus."""

import argparse

from returnn.datasets.util.bliss import iter_bliss
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("xml", help="Bliss corpus file, may be compressed")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    for segment in iter_bliss(args.xml):
        print(segment.orth)
