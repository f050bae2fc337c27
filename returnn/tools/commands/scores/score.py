"""Scores hypotheses by references: word error rate (WER), character error rate (CER), BLEU; shows alignments."""

import argparse

from returnn.tools.command_line import add_config, add_dataset, init_config, open_dataset
from returnn.tools.seq_texts import references_of
from returnn.tools.text_files import read_pair
from returnn.util.errors import UserError
from returnn.util.texts.text_scores import METRICS, check_metrics, score_lines


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hyps", help="file of a search, in any of its formats, or lines of text")
    parser.add_argument("refs", nargs="?", help="the same with references. Default: texts of the dataset")
    add_config(parser, help="file of a config, for its datasets")
    add_dataset(parser, help="It has the references")
    parser.add_argument("--key", default="classes", help="data key of the references in the dataset")
    parser.add_argument("--metric", nargs="+", default=["wer"], help=f"some of: {', '.join(METRICS)}")
    parser.add_argument("--per_seq", action="store_true", help="also the scores of each sequence")
    parser.add_argument("--alignment", action="store_true", help="also the words of each sequence, below each other")
    parser.add_argument("--verbosity", type=int, default=2, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    check_metrics(args.metric, where="option '--metric'")
    if bool(args.refs) == bool(args.dataset):
        raise UserError("a file with references is required, or the option '--dataset', and not both.")
    references, end = None, None
    if args.dataset:
        config = init_config(args, verbosity=args.verbosity)
        references, end = references_of(config, open_dataset(config, args.dataset), args.key)
    hyps, refs = read_pair(args.hyps, references if references is not None else args.refs, end=end)
    for line in score_lines(hyps, refs, args.metric, per_seq=args.per_seq, with_alignment=args.alignment):
        print(line)
