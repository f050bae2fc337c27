"""Averages the parameters of several PyTorch checkpoints."""

import argparse

from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--checkpoints", nargs="+", required=True, help="files, or parts of their names")
    parser.add_argument("--prefix", default="", help="before each name")
    parser.add_argument("--postfix", default="", help="behind each name, such as .pt")
    parser.add_argument("--separator", default=",", help="between names in one argument")
    parser.add_argument("--output_path", required=True, help="the new file")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    parts = [part for text in args.checkpoints for part in text.split(args.separator) if part]
    filenames = [f"{args.prefix}{part}{args.postfix}" for part in parts]
    checkpoint_file = import_part("returnn.torch.checkpoint_file", needed_for="checkpoints of PyTorch")
    checkpoint_file.write_checkpoint_file(checkpoint_file.average_checkpoint_files(filenames), args.output_path)
    print(f"wrote {args.output_path}: the mean of {', '.join(filenames)}")
