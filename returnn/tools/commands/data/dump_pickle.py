"""Prints the content of a pickle file."""

import argparse
import gzip
import pickle

from returnn.util.errors import UserError
from returnn.util.files.restricted_pickle import load_plain_pickle
from returnn.util.pprint import pprint
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("file", help="may be compressed by gzip")
    parser.add_argument("--trusted", action="store_true", help="also objects of any class; runs the code in the file")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    try:
        opener = gzip.open if args.file.endswith(".gz") else open
        with opener(args.file, "rb") as file:
            content = pickle.load(file) if args.trusted else load_plain_pickle(file.read(), where=args.file)
    except (OSError, pickle.UnpicklingError, EOFError, AttributeError, ImportError) as exc:
        raise UserError(f"file {args.file!r}: cannot be loaded: {exc}.") from exc
    pprint(content)
