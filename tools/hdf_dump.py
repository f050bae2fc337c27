#!/usr/bin/env python3
"""Converts any dataset into a HDF file."""

import argparse
import sys

import _setup_returnn_env  # noqa: F401

from returnn.datasets.hdf.hdf_writer import HDFDatasetWriter
from returnn.tools.command_line import init_config, open_dataset, run_tool


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "config_file_or_dataset", type=str, help="file of a config, of which the data 'train' is taken; or a dataset"
    )
    parser.add_argument("hdf_filename", type=str, help="of the new file")
    parser.add_argument("--start_seq", type=int, default=0, help="first sequence")
    parser.add_argument("--end_seq", type=int, help="last sequence, exclusive. Default: all")
    parser.add_argument("--epoch", type=int, default=1, help="of the dataset, which sets the order")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    dataset = open_dataset(init_config(args.config_file_or_dataset))
    writer = HDFDatasetWriter(args.hdf_filename)
    try:
        end = float("inf") if args.end_seq is None else args.end_seq
        writer.dump_from_dataset(dataset, epoch=args.epoch, start_seq=args.start_seq, end_seq=end)
    except BaseException:
        writer.discard()
        raise
    writer.close()
    print(f"wrote {args.hdf_filename}")


if __name__ == "__main__":
    sys.exit(run_tool(main, make_parser()))
