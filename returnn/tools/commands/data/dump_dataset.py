"""Walks through a dataset; shows or plots its data, or computes statistics."""

import argparse
import time

from returnn.tools.command_line import add_config, add_dataset, init_config, open_dataset
from returnn.tools.dataset_dump import DUMP_TYPES, Dump, Selection, default_prefix, in_words, parse_lengths, parse_tags
from returnn.tools.dataset_pictures import DataPictures
from returnn.util.numbers.stats import Stats
from returnn.util.python.optional_import import check_installed
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "returnn_config", help="file of a config, or the dict of a dataset")
    add_dataset(parser)
    parser.add_argument(
        "--epoch", type=int, help="which one, as in training. Default: all of the data, in the order of the first one"
    )
    parser.add_argument("--startseq", type=int, default=0, help="first sequence")
    parser.add_argument("--endseq", type=int, help="last sequence, exclusive; below 0 for all")
    parser.add_argument("--seqtags", type=str, help="only these: a file with a tag per line, or tags with commas")
    parser.add_argument("--min_seq_length", help="shorter ones are left out: a number, or a dict by data key")
    parser.add_argument("--max_seq_length", help="longer ones are left out: a number, or a dict by data key")
    parser.add_argument("--get_num_seqs", action="store_true", help="only say how many sequences there are")
    types = "; ".join(f"{name}: {purpose}" for name, purpose in DUMP_TYPES.items())
    parser.add_argument("--type", help=f"{types}. Default: stdout; with --plot, null")
    parser.add_argument("--key", help="data key for lengths and statistics. Default: data, or the first one")
    parser.add_argument(
        "--plot",
        metavar="PATH",
        help="draws audio with its spectrogram, features, labels, and a histogram of lengths, for all data keys or "
        "that of --key: all in one file, such as x.png, or in a folder, with a file for each sequence",
    )
    parser.add_argument("--plot_seqs", type=int, default=4, help="how many sequences --plot draws; lengths are of all")
    parser.add_argument("--stdout_limit", type=float, help="number of values above which an array is shortened")
    parser.add_argument("--stdout_as_bytes", action="store_true", help="prints uint8 as bytes")
    parser.add_argument("--dump_prefix", default=default_prefix("dump-dataset"), help="of files")
    parser.add_argument("--dump_postfix", default=".txt.gz", help="of text files")
    parser.add_argument("--stats", action="store_true", help="mean and standard deviation over all frames")
    parser.add_argument("--dump_stats", help="the same, into files with this prefix")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    start = time.monotonic()
    config = init_config(args, verbosity=args.verbosity, is_required=args.dataset is None)
    dataset = open_dataset(config, args.dataset, whole=args.epoch is None)
    selection = Selection(
        epoch=args.epoch or 1, start=args.startseq, end=None if (args.endseq or 0) < 0 else args.endseq,
        tags=parse_tags(args.seqtags), min_length=parse_lengths(args.min_seq_length),
        max_length=parse_lengths(args.max_seq_length),
    )  # fmt: skip
    if args.get_num_seqs:
        print(sum(1 for _ in selection.seqs_of(dataset)))
        return
    stats = Stats() if args.stats or args.dump_stats else None
    keys = dataset.get_data_keys()
    key = args.key or ("data" if "data" in keys else keys[0])
    pictures = DataPictures(args.plot, [args.key] if args.key else keys, args.plot_seqs) if args.plot else None
    if pictures is not None:
        check_installed("matplotlib", needed_for="--plot")
    kind = args.type or ("stdout" if pictures is None else "null")
    dump = Dump(kind, key, args.dump_prefix, args.dump_postfix, args.stdout_limit, args.stdout_as_bytes)
    num_seqs = dump.run(dataset, selection, stats, pictures)
    for filename in pictures.write() if pictures is not None else ():
        print(f"wrote {filename}")
    if stats is not None:
        stats.dump(output_file_prefix=args.dump_stats, stream_prefix=f"data {key!r} ")
    print(in_words(num_seqs, time.monotonic() - start))
