"""Counts the symbols occurring in the transcriptions of a corpus."""

import argparse
import math
import string
from collections import Counter
from collections.abc import Iterator

from returnn.datasets.util.bliss import is_bliss_file, iter_bliss
from returnn.tools.bliss_segments import duration_of
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.files.text_file import iter_lines
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted
from returnn.util.texts.human_readable import hms


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("input", help="Bliss corpus, or text with a sentence per line; may be compressed")
    parser.add_argument("--output", help="file for the symbols, one per line")
    parser.add_argument("--dump_orth_syms", action="store_true", help="print all texts, too, with their symbols apart")
    parser.add_argument("--filter_orth_sym", help="print the texts with one of these symbols")
    parser.add_argument("--filter_orth_syms_seq", help="print the texts with these symbols in a row")
    parser.add_argument("--max_seq_frame_len", type=float, default=math.inf, help="leave out segments of more frames")
    parser.add_argument("--max_seq_orth_len", type=float, default=math.inf, help="leave out texts of more symbols")
    parser.add_argument("--frame_time", type=int, default=10, help="of a frame, in milliseconds")
    parser.add_argument("--collect_time", type=int, default=1, choices=(0, 1), help="1: tell the time of all segments")
    parser.add_argument("--add_numbers", type=int, default=1, choices=(0, 1), help="1: output has all of 0-9")
    parser.add_argument("--add_lower_alphabet", type=int, default=1, choices=(0, 1), help="1: output has all of a-z")
    parser.add_argument("--add_upper_alphabet", type=int, default=1, choices=(0, 1), help="1: output has all of A-Z")
    parser.add_argument("--remove_symbols", default="(){}$", help="these are not in the output")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    is_bliss = is_bliss_file(args.input)
    needs_time = is_bliss and (bool(args.collect_time) or math.isfinite(args.max_seq_frame_len))
    if math.isfinite(args.max_seq_frame_len) and not is_bliss:
        raise UserError(f"option '--max_seq_frame_len': {args.input!r} is text, and says nothing about time.")
    if args.frame_time < 1:
        raise UserError(f"option '--frame_time': {args.frame_time} is no time; expected 1 or more milliseconds.")
    counts: Counter[str] = Counter()
    num_seqs, num_left_out, seconds = 0, 0, 0.0
    for text, duration in _iter_texts(args.input, is_bliss=is_bliss, needs_time=needs_time):
        num_frames = round(duration * 1000 / args.frame_time)
        if num_frames > args.max_seq_frame_len or len(text) > args.max_seq_orth_len:
            num_left_out += 1
            continue
        num_seqs += 1
        seconds += duration
        counts.update(text)
        _show(args, text)
    for symbol, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"{count}\t{symbol}")
    print(
        f"{counted(num_seqs, 'text')}, {num_left_out} left out; {counted(counts.total(), 'symbol')}, {len(counts)} "
        "different ones"
    )
    if needs_time and args.collect_time:
        print(f"time: {hms(seconds)}")
    if args.output:
        write_atomic(args.output, "".join(f"{symbol}\n" for symbol in _output_symbols(args, set(counts))))


def _iter_texts(filename: str, *, is_bliss: bool, needs_time: bool) -> Iterator[tuple[str, float]]:
    """:return: text, and seconds; 0 if that is not needed"""
    if not is_bliss:
        yield from ((line.strip(), 0.0) for line in iter_lines(filename))
        return
    for segment in iter_bliss(filename):
        yield segment.orth, duration_of(segment) if needs_time else 0.0


def _show(args: argparse.Namespace, text: str) -> None:
    if args.dump_orth_syms:
        print(" ".join(text))
    if args.filter_orth_sym and set(args.filter_orth_sym) & set(text):
        print(f"found symbol: {text}")
    if args.filter_orth_syms_seq and args.filter_orth_syms_seq in text:
        print(f"found sequence: {text}")


def _output_symbols(args: argparse.Namespace, symbols: set[str]) -> list[str]:
    added = {
        string.digits: args.add_numbers,
        string.ascii_lowercase: args.add_lower_alphabet,
        string.ascii_uppercase: args.add_upper_alphabet,
    }
    wanted = symbols.union(*(set(letters) for letters, is_added in added.items() if is_added))
    return sorted(wanted - set(args.remove_symbols))
