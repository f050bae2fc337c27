"""Computes statistics of a layer output over a dataset."""

import argparse

import numpy

from returnn.tools.command_line import add_config, add_dataset, init_config, open_dataset
from returnn.tools.layer_outputs import SeqOutputs, layer_outputs, reset_seq_order
from returnn.util.errors import UserError
from returnn.util.numbers.stats import Stats
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "returnn_config", help="file of a config")
    add_dataset(parser)
    parser.add_argument("--layer", required=True, help="name, such as encoder, or output/s inside of a loop")
    parser.add_argument("--epoch", type=int, default=1, help="of the model, and of the dataset")
    parser.add_argument("--load", help="checkpoint, instead of the one of the epoch")
    parser.add_argument("--stats", action="store_true", help="print them")
    parser.add_argument("--dump_stats", help="write them to files with this prefix")
    parser.add_argument("--reset_partition_epoch", type=int, default=1, help="parts that the dataset is cut into")
    parser.add_argument("--reset_seq_ordering", default="sorted_reverse", help="order of the sequences")
    parser.add_argument("--reset_epoch_wise_filter", default=None, help="None: no filter; others are not possible")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if args.reset_epoch_wise_filter not in (None, "None"):
        raise UserError("option '--reset_epoch_wise_filter': only None is possible.")
    if not (args.stats or args.dump_stats):
        raise UserError("one of the options '--stats' and '--dump_stats' is required.")
    more = {"load": args.load} if args.load else {}
    config = init_config(args, verbosity=1, is_required=True, task="forward", load_epoch=args.epoch, **more)
    dataset = open_dataset(config, args.dataset)
    reset_seq_order(dataset, partition_epoch=args.reset_partition_epoch, seq_ordering=args.reset_seq_ordering)
    stats = Stats()

    def collect(_tag: str, outputs: SeqOutputs) -> None:
        value = outputs[args.layer]
        stats.collect(value if value.ndim else numpy.expand_dims(value, 0))

    layer_outputs(config, dataset, [args.layer], collect)
    stats.dump(output_file_prefix=args.dump_stats, stream_prefix=f"{args.layer}: ")
