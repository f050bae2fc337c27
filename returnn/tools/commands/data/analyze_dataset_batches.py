"""Forms training batches from a dataset, and reports their sizes and padding, and what limits them."""

import argparse
from collections.abc import Iterator

from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_generator import BatchLimits, BatchSetGenerator
from returnn.engine.batch_options import batch_limits
from returnn.engine.pretrain import pretrain_from_config
from returnn.tools.batch_statistics import BatchStatistics
from returnn.tools.command_line import add_config, add_dataset, init_config, open_dataset
from returnn.util.errors import UserError, check_known
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "returnn_config", help="file of a config, with the limits of batches")
    add_dataset(parser)
    parser.add_argument("--epoch", type=int, default=1, help="of the dataset")
    parser.add_argument("--endseq", type=int, default=-1, help="last sequence, exclusive; below 0 for all")
    parser.add_argument(
        "--key",
        default="data",
        help="data key whose frames and padding are reported. Default: data. batch_size is a limit for each key",
    )
    parser.add_argument("--load", action="store_true", help="loads the data of the batches, to see how fast that is")
    parser.add_argument("--use_pretrain", action="store_true", help="with the options of the network of the epoch")
    parser.add_argument("--verbosity", type=int, default=5, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    config = init_config(args, verbosity=args.verbosity, is_required=True)
    dataset = open_dataset(config, args.dataset, whole=False)
    check_known("data key", args.key, dataset.get_data_keys(), where="option '--key'")
    if args.use_pretrain:
        pretrain = pretrain_from_config(config)
        if pretrain is None:
            raise UserError("option '--use_pretrain': the config has no 'pretrain'.")
        config.update(pretrain.get_network_json_for_epoch(args.epoch).get("#config", {}))
    dataset.init_seq_order(args.epoch)
    options = batch_limits(config, train=True, filters=True, epoch=args.epoch)
    batches = dataset.generate_batches(**options)
    end = args.endseq if args.endseq >= 0 else None
    limits = BatchLimits.of(**options)
    print(BatchStatistics.collect(dataset, _all(batches), key=args.key, end=end, limits=limits, load=args.load))


def _all(batches: BatchSetGenerator) -> Iterator[Batch]:
    while batches.has_more():
        batch, *_ = batches.peek_next_n(1)
        yield batch
        batches.advance(1)
