"""Writes target texts of a dataset into a Python dict file."""

import argparse

from returnn.tools.command_line import add_config, add_dataset, init_config, open_dataset
from returnn.tools.dataset_dump import Selection
from returnn.tools.seq_texts import seq_texts
from returnn.tools.text_dict import write_text_dict
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "config", help="file of a config, or the dict of a dataset")
    add_dataset(parser)
    parser.add_argument("--startseq", type=int, default=0, help="first sequence")
    parser.add_argument("--endseq", type=int, default=-1, help="last sequence, exclusive; below 0 for all")
    parser.add_argument("--key", default="raw", help="data key: raw text, or labels with names")
    parser.add_argument("--out", required=True, help="file; compressed if it ends with .gz")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    dataset = open_dataset(init_config(args, verbosity=args.verbosity, is_required=args.dataset is None), args.dataset)
    selection = Selection(start=args.startseq, end=args.endseq if args.endseq >= 0 else None)
    num_seqs = write_text_dict(args.out, seq_texts(dataset, args.key, selection))
    print(f"wrote {counted(num_seqs, 'text')} to {args.out}")
