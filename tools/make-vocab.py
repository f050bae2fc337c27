#!/usr/bin/env python3
"""Makes a vocabulary from text or a dataset: words, characters, byte pair encoding, or SentencePiece."""

import argparse
import sys
from collections.abc import Iterator

import _setup_returnn_env  # noqa: F401

from returnn.tools.command_line import init_config, open_dataset, run_tool
from returnn.tools.dataset_dump import Selection
from returnn.tools.seq_texts import seq_texts
from returnn.tools.vocab_training import KINDS
from returnn.util.errors import UserError
from returnn.util.files.text_file import iter_lines


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS, help="of the labels")
    parser.add_argument("output", help="beginning of the names of the files")
    parser.add_argument("--text", nargs="+", help="files with a sentence per line; may be compressed")
    parser.add_argument("--config", help="file of a config, for its datasets")
    parser.add_argument("--dataset", help="name of a dataset of the config, or a dict, instead of text")
    parser.add_argument(
        "--key", default="raw", help="data key of the texts in the dataset: raw text, or labels with names"
    )
    parser.add_argument("--size", type=int, help="number of labels, with those of the end and of what is unknown")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if bool(args.text) == bool(args.dataset):
        raise UserError("one of the options '--text' and '--dataset' is required, for the texts.")
    options = KINDS[args.kind](_texts(args), args.output, args.size)
    print(f'"vocab": {options}')


def _texts(args: argparse.Namespace) -> Iterator[str]:
    for file in args.text or ():
        yield from iter_lines(file)
    if args.dataset:
        dataset = open_dataset(init_config(args.config, verbosity=1), args.dataset)
        yield from (text for _, text in seq_texts(dataset, args.key, Selection()))


if __name__ == "__main__":
    sys.exit(run_tool(main, make_parser()))
