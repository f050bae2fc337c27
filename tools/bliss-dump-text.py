#!/usr/bin/env python3
"""Prints the transcriptions of a Bliss corpus."""

import argparse
import sys

import _setup_returnn_env  # noqa: F401

from returnn.datasets.util.bliss import iter_bliss
from returnn.tools.command_line import run_tool


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("xml", help="Bliss corpus file, may be compressed")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    for segment in iter_bliss(args.xml):
        print(segment.orth)


if __name__ == "__main__":
    sys.exit(run_tool(main, make_parser()))
