"""Writes a lexicon with the BPE splits of each word."""

import argparse
import gzip

from returnn.datasets.util.vocab_file import labels_by_index, read_vocab_file
from returnn.tools.bpe_lexicon import bpe_lexicon_xml
from returnn.util.files.atomic_file import write_atomic
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--bpe_vocab", required=True, help="file with the BPE labels; '@@' at the end: a word goes on")
    parser.add_argument("--word_vocab", required=True, help="file with the words")
    parser.add_argument("--unk", help="label for words that cannot be split")
    parser.add_argument("--skip_special", action="store_true", help="leave out words such as [NOISE] and <s>")
    parser.add_argument("--lower_case", action="store_true", help="split words in lower case")
    parser.add_argument("--output", help="Bliss lexicon; compressed if it ends with .gz. Default: print it")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    text = bpe_lexicon_xml(
        labels_by_index(read_vocab_file(args.word_vocab)), labels_by_index(read_vocab_file(args.bpe_vocab)),
        unknown_label=args.unk, skip_special=args.skip_special, lower_case=args.lower_case,
    )  # fmt: skip
    if args.output:
        is_compressed = args.output.endswith(".gz")
        write_atomic(args.output, gzip.compress(text.encode("utf8"), mtime=0) if is_compressed else text)
    else:
        print(text, end="")
