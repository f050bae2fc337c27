"""Scores hypotheses against references with the word error rate."""

import argparse

from returnn.tools.command_line import (
    add_config,
    add_dataset,
    add_file,
    file_of,
    init_config,
    open_dataset,
    required_file_of,
)
from returnn.tools.dataset_dump import Selection
from returnn.tools.seq_texts import seq_texts
from returnn.tools.text_dict import read_text_dict
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.word_errors import total_word_errors


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_file(parser, "hyps", "--hyps", help="Python dict file from tag to text, or to an n-best list of (score, text)")
    add_file(parser, "refs", "--refs", help="Python dict file from tag to text. Default: texts of the dataset")
    add_config(parser, help="file of a config, for its datasets")
    add_dataset(parser, help="It has the references")
    parser.add_argument("--key", default="raw", help="data key of the references: raw text, or labels with names")
    parser.add_argument("--startseq", type=int, default=0, help="first sequence of the dataset")
    parser.add_argument("--endseq", type=int, default=-1, help="last sequence, exclusive; below 0 for all")
    parser.add_argument("--expect_full", action="store_true", help="each reference must have a hypothesis")
    parser.add_argument("--out", help="file for the rate alone, as a number of percent")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    hyps = required_file_of(args, "--hyps", what="the file with the hypotheses")
    refs = file_of(args, "--refs")
    if bool(refs) == bool(args.dataset):
        raise UserError("one of the options '--refs' and '--dataset' is required, for the references.")
    config = init_config(args, verbosity=args.verbosity)
    if refs:
        references = read_text_dict(refs)
    else:
        selection = Selection(start=args.startseq, end=args.endseq if args.endseq >= 0 else None)
        references = dict(seq_texts(open_dataset(config, args.dataset), args.key, selection))
    errors = total_word_errors(read_text_dict(hyps), references, expect_full=args.expect_full)
    print(errors)
    if args.out:
        write_atomic(args.out, f"{100 * errors.rate}\n")
