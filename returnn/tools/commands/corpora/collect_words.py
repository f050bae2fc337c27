"""Counts the words of a corpus, optionally against a lexicon."""

import argparse
from collections import Counter

from returnn.datasets.util.bliss import is_bliss_file, iter_bliss
from returnn.datasets.util.lexicon import Lexicon
from returnn.util.files.text_file import iter_lines
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("input", help="Bliss corpus, or text with a sentence per line; may be compressed")
    parser.add_argument("--dump_orth", action="store_true", help="print all texts, too")
    parser.add_argument("--lexicon", help="Bliss lexicon; words which are not in there are marked and counted")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    known = set(Lexicon(args.lexicon).lemmas) if args.lexicon else None
    counts: Counter[str] = Counter()
    is_bliss = is_bliss_file(args.input)
    for text in (segment.orth for segment in iter_bliss(args.input)) if is_bliss else iter_lines(args.input):
        if args.dump_orth:
            print(text.strip())
        counts.update(text.split())
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"{count}\t{word}" + ("" if known is None or word in known else "\tnot in the lexicon"))
    print(f"{counted(counts.total(), 'word')}, {len(counts)} different ones")
    if known is not None:
        unknown = {word: count for word, count in counts.items() if word not in known}
        share = sum(unknown.values()) / max(counts.total(), 1)
        print(f"not in the lexicon: {counted(len(unknown), 'different word')}, {share:.2%} of all")
