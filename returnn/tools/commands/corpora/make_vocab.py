"""Makes a vocabulary from text or a dataset: words, characters, byte pair encoding, or SentencePiece."""

import argparse
import sys
from collections.abc import Iterator

from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.hypothesis_files import words_of
from returnn.tools.command_line import add_config, add_dataset, init_config, is_dataset, open_dataset
from returnn.tools.dataset_dump import Selection
from returnn.tools.seq_texts import seq_texts
from returnn.tools.vocab_training import END, KINDS
from returnn.util.errors import UserError
from returnn.util.files.text_file import iter_lines
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(
        description=__doc__,
        epilog="It prints the options of the vocabulary, for `extern_data` and the data set. Among them, 'seq_postfix'"
        " (for sentencepiece: 'add_eos') puts the label of the end after each text, as language models and decoders"
        " need it; leave it out for CTC.",
    )
    parser.add_argument("kind", choices=KINDS, help="of the labels")
    parser.add_argument("output", help="beginning of the names of the files")
    parser.add_argument("--text", nargs="+", help="files with a sentence per line; may be compressed")
    add_config(parser, help="file of a config, for its datasets")
    add_dataset(parser, help="Instead of text")
    parser.add_argument(
        "--key", default="raw", help="data key of the texts in the dataset: raw text, or labels with names"
    )
    parser.add_argument(
        "--size",
        type=int,
        help="number of labels, at most, with those of the end and of what is unknown. Of words: without it, each one"
        " of the texts has a label, so a language model that is trained with them does not learn how probable unknown"
        " words are",
    )
    parser.add_argument(
        "--character_coverage",
        type=float,
        help="for sentencepiece: the part of all characters that get labels. Default: 1. Where there are thousands of"
        " characters, as in Japanese, 0.9995 leaves out rare ones",
    )
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if bool(args.text) == bool(args.dataset):
        raise UserError("one of the options '--text' and '--dataset' is required, for the texts.")
    data = next((file for file in args.text or () if is_dataset(file)), None)
    if data is not None:
        raise UserError(f"option '--text': {data!r} is a data set, which is given with '--dataset'.")
    more = {}
    if args.character_coverage is not None:
        if args.kind != "sentencepiece":
            raise UserError(f"option '--character_coverage' is only for the kind 'sentencepiece', not {args.kind!r}.")
        if not 0.98 <= args.character_coverage <= 1:  # others, the package refuses
            raise UserError(f"option '--character_coverage': {args.character_coverage} is not between 0.98 and 1.")
        more["character_coverage"] = args.character_coverage
    options = KINDS[args.kind](_texts(args), args.output, args.size, **more)
    vocab = Vocabulary.create_vocab(**options)
    num_labels = vocab.num_labels
    if args.size is not None and num_labels < args.size:
        print(
            f"WARNING: option '--size': the texts are spelled by {counted(num_labels, 'label', ',')}, "
            f"not {args.size:,}.",
            file=sys.stderr,
        )
    end = f"{vocab.end_label!r}, which ends each text, is {vocab.eos_label_id}"
    print(f'"vocab": {options}  # {counted(num_labels, "label", ",")}; {end}')


def _texts(args: argparse.Namespace) -> Iterator[str]:
    for file in args.text or ():
        yield from iter_lines(file)
    if args.dataset:
        dataset = open_dataset(init_config(args, verbosity=1), args.dataset)
        for _, text in seq_texts(dataset, args.key, Selection()):
            yield words_of(text).removesuffix(END).rstrip()
