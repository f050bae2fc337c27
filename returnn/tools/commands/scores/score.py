"""Scores hypotheses by references: word error rate (WER), character error rate (CER), BLEU; shows alignments."""

import argparse
import sys

from returnn.tools.command_line import add_config, add_dataset, init_config, is_config, is_dataset, open_dataset
from returnn.tools.seq_texts import key_of_texts, references_of
from returnn.tools.text_files import hint_of_other_data, hint_of_tags, read_pair
from returnn.util.errors import UserError
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.text_scores import METRICS, check_metrics, score_lines

_TABLES = (".tsv", ".csv", ".jsonl")  # of `make-ogg-zip`


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument(
        "hyps",
        help="file of a search, in any of its formats, or lines of text. Of an n-best list, the first entry counts",
    )
    parser.add_argument("refs", nargs="?", help="the same with references, or a dataset, or the config of one")
    add_config(parser, help="file of a config, for its datasets")
    add_dataset(parser, help="It has the references")
    parser.add_argument("--key", help="data key of the references in the dataset. Default: classes, or else raw")
    parser.add_argument("--tagged", action="store_true", help="lines of text are 'TAG TEXT'; those of hyps may be text")
    parser.add_argument("--metric", nargs="+", default=["wer"], help=f"some of: {', '.join(METRICS)}")
    parser.add_argument("--per_seq", action="store_true", help="also the scores of each sequence")
    parser.add_argument("--alignment", action="store_true", help="also the words of each sequence, below each other")
    parser.add_argument("--verbosity", type=int, default=2, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    check_metrics(args.metric, where="option '--metric'")
    _sort_out_references(args)
    references, end = None, None
    if args.dataset:
        config = init_config(args, verbosity=args.verbosity)
        dataset = open_dataset(config, args.dataset)
        references, end = references_of(config, dataset, key_of_texts(dataset, args.key))
    given = references if references is not None else args.refs
    hyps, refs = read_pair(args.hyps, given, end=end, tagged=args.tagged)
    if not args.tagged and (hint := hint_of_tags(hyps, refs)):
        print(f"WARNING: {hint}", file=sys.stderr)
    for line in score_lines(hyps, refs, args.metric, per_seq=args.per_seq, with_alignment=args.alignment):
        print(line)
    if hint := hint_of_other_data(hyps, refs):
        print(f"WARNING: {hint}", file=sys.stderr)


def _sort_out_references(args: argparse.Namespace) -> None:
    """What stands in place of the file with references can be a data set, or its config."""
    if is_config(args.hyps):
        raise UserError(
            f"{args.hyps!r} is a config, but hypotheses are required: a file that `++task search` has written."
        )
    for file in (args.hyps, args.refs or ""):
        if file.removesuffix(".gz").endswith(_TABLES):
            raise UserError(
                f"{file!r} is a table, but lines of text are required, or 'TAG TEXT' with '--tagged'.\n"
                "  References can also be a data set, such as the archive that 'make-ogg-zip' has made of it."
            )
    if args.refs and not args.dataset and is_dataset(args.refs):
        args.refs, args.dataset = None, args.refs
    elif args.refs and not args.config and is_config(args.refs):
        args.refs, args.config = None, args.refs
        if not args.dataset:
            raise UserError(f"{args.config!r} is a config. Say with '--dataset' which of its data has the references.")
    if bool(args.refs) == bool(args.dataset):
        raise UserError("a file with references is required, or the option '--dataset', and not both.")
