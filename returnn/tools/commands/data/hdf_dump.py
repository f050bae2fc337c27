"""Converts any dataset into a HDF file."""

import argparse

from returnn.datasets.hdf.hdf_writer import HDFDatasetWriter
from returnn.tools.command_line import add_config, add_dataset, init_config, open_dataset
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "config_file_or_dataset", help="file of a config, or the dict of a dataset")
    parser.add_argument("hdf_filename", type=str, help="of the new file")
    add_dataset(parser)
    parser.add_argument("--start_seq", "--startseq", type=int, default=0, help="first sequence")
    parser.add_argument("--end_seq", "--endseq", type=int, help="last sequence, exclusive. Default: all")
    parser.add_argument(
        "--epoch",
        type=int,
        help="which one, as in training. Default: all of the data, in the order of the first one. "
        "'dev' and the like of a config are sorted by length, as in tasks, unless their 'seq_ordering' says otherwise",
    )
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    config = init_config(args, is_required=args.dataset is None)
    dataset = open_dataset(config, args.dataset, whole=args.epoch is None)
    writer = HDFDatasetWriter(args.hdf_filename)
    try:
        end = float("inf") if args.end_seq is None else args.end_seq
        writer.dump_from_dataset(dataset, epoch=args.epoch or 1, start_seq=args.start_seq, end_seq=end)
    except BaseException:
        writer.discard()
        raise
    writer.close()
    print(f"wrote {args.hdf_filename}")
