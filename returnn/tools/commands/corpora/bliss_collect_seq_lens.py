"""Collects segment durations from a Bliss corpus into a Python dict file."""

import argparse

from returnn.datasets.util.bliss import iter_bliss
from returnn.tools.bliss_segments import duration_of
from returnn.util.files.atomic_file import open_atomic
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("bliss_filename", nargs="+", help="Bliss corpus files, may be compressed")
    parser.add_argument("--output", default="/dev/stdout", help="file for the dict: name of the segment to seconds")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    lines = [
        f"{segment.name!r}: {duration_of(segment)!r},\n"
        for filename in args.bliss_filename
        for segment in iter_bliss(filename)
    ]
    with open_atomic(args.output) as file:
        file.writelines(["{\n", *lines, "}\n"])
