"""Plots what debug-dump-search-scores.py recorded."""

import argparse
import os
from urllib.parse import quote

from returnn.datasets.util.vocab_file import labels_by_index, read_vocab_file
from returnn.tools.recorded_search import Positions, describe_seq, draw_seq, recorded_seqs
from returnn.util.errors import UserError
from returnn.util.files.text_file import iter_lines
from returnn.util.system.command_parser import CommandParser
from returnn.util.system.picture import save_figure


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("hdf", help="file that debug-dump-search-scores wrote")
    parser.add_argument("--plot", action="store_true", help="also a picture per sequence, beside the file")
    parser.add_argument("--lexicon", help="vocabulary, for names of labels")
    parser.add_argument("--apply_bpe_merge", action="store_true", help="put together subwords that end in @@")
    parser.add_argument("--remove_sentence_end", help="label to leave out at the end")
    parser.add_argument("--rec_layer_name", default="output", help="the loop; a prefix of --pos_choice")
    parser.add_argument("--pos_choice", help="name of the choice that picks the frame of each label")
    parser.add_argument("--pos_time_reduction_factor", type=int, default=1, help="frames for one of --pos_choice")
    parser.add_argument("--add_extra_time_frames", type=int, default=0, help="added to those")
    help = "files with lines 'FIRST_FRAME FRAME_BEHIND PHONE', {tag} stands for the sequence"
    parser.add_argument("--phone_alignment_file_pattern", help=help)
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if not os.path.exists(args.hdf):
        raise UserError(f"HDF file {args.hdf!r} does not exist.")
    positions = None
    if args.pos_choice:
        choice = args.pos_choice.removeprefix(f"{args.rec_layer_name}/")
        positions = Positions(choice, args.pos_time_reduction_factor, args.add_extra_time_frames)
    elif args.add_extra_time_frames or args.pos_time_reduction_factor != 1:
        raise UserError("options '--add_extra_time_frames' and '--pos_time_reduction_factor' need '--pos_choice'.")
    names = labels_by_index(read_vocab_file(args.lexicon)) if args.lexicon else None
    for seq in recorded_seqs(args.hdf, label_names=names, positions=positions):
        if args.remove_sentence_end:
            seq = seq.map(lambda hyp: hyp.without(args.remove_sentence_end))
        if args.apply_bpe_merge:
            seq = seq.map(lambda hyp: hyp.merged())
        print("\n".join(describe_seq(seq)))
        if args.plot:
            filename = f"{args.hdf}.{quote(seq.tag, safe=' ')}.png"
            save_figure(draw_seq(seq, _alignment(args.phone_alignment_file_pattern, seq.tag)), filename)
            print(f"  wrote {filename}")


def _alignment(pattern: str | None, tag: str) -> list[tuple[int, int, str]]:
    if pattern is None:
        return []
    filename = pattern.replace("{tag}", quote(tag, safe=" "))
    entries = []
    for line_nr, line in enumerate(iter_lines(filename), start=1):
        parts = line.split()
        if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
            raise UserError(f"file {filename!r}, line {line_nr}: expected FIRST_FRAME FRAME_BEHIND PHONE.")
        entries.append((int(parts[0]), int(parts[1]), parts[2]))
    return entries
