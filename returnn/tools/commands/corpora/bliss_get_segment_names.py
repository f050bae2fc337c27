"""Lists the segments of a Bliss corpus; can join neighbours up to some duration."""

import argparse

from returnn.datasets.util.bliss import iter_bliss
from returnn.tools.bliss_segments import joined_neighbours, sorted_by_time
from returnn.util.errors import check_known
from returnn.util.files.text_file import iter_lines
from returnn.util.system.command_parser import CommandParser

_SEPARATOR = ";"  # as in the lists of ConcatSeqsDataset
_OUTPUT_TYPES = ("", "py")


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("bliss_filename", help="Bliss corpus file, may be compressed")
    parser.add_argument("--subset_segment_file", help="only those in this file, which has a name per line")
    parser.add_argument("--sort_by_time", action="store_true", help="in each recording")
    parser.add_argument("--merge_segs_up_to_time", type=float, help="join neighbours up to so many seconds")
    parser.add_argument("--merge_swb_ab", action="store_true", help="take the channels A and B as one recording")
    parser.add_argument("--output_type", default="", help="'': a line each; 'py': a Python list")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    check_known("type", args.output_type, _OUTPUT_TYPES, where="option '--output_type'")
    wanted = None
    if args.subset_segment_file:
        wanted = {line.strip() for line in iter_lines(args.subset_segment_file)}
    segments = [segment for segment in iter_bliss(args.bliss_filename) if wanted is None or segment.name in wanted]
    if args.sort_by_time or args.merge_swb_ab:
        segments = sorted_by_time(segments, join_channels=args.merge_swb_ab)
    names = [segment.name for segment in segments]
    if args.merge_segs_up_to_time is not None:
        groups = joined_neighbours(segments, max_seconds=args.merge_segs_up_to_time, join_channels=args.merge_swb_ab)
        names = [_SEPARATOR.join(segment.name for segment in group) for group in groups]
    if args.output_type == "py":
        print("[")
        print("".join(f"{name!r},\n" for name in names), end="]\n")
    else:
        print("".join(f"{name}\n" for name in names), end="")
