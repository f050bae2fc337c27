"""Records scores of a beam search into a HDF file."""

import argparse

from returnn.engine.epochs import epoch_of_network
from returnn.engine.model_names import model_of_task
from returnn.engine.net_dicts import NetDicts
from returnn.engine.pretrain import pretrain_from_config
from returnn.tools.command_line import add_config, init_config, open_dataset
from returnn.tools.search_scores import LoopOfSearch, record_search
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "config", help="file of a config")
    parser.add_argument("--dataset", default="config:train", help="name of a dataset of the config, or a dict")
    parser.add_argument("--epoch", type=int, default=-1, help="of the model; -1 for the newest")
    parser.add_argument("--output_file", required=True, help="the new HDF file")
    parser.add_argument("--rec_layer_name", default="output", help="the loop with the choices")
    parser.add_argument("--cheating", action="store_true", help="also what the model says about the reference")
    parser.add_argument("--att_weights", action="store_true", help="also weights of the attention")
    parser.add_argument("--seq_list", nargs="+", help="tags that are wanted; default: all")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    config = init_config(args, verbosity=args.verbosity, is_required=True)
    dataset = open_dataset(config, args.dataset.removeprefix("config:"))
    if args.seq_list:
        dataset.seq_tags_filter = set(args.seq_list)
    epoch = args.epoch if args.epoch >= 0 else model_of_task(config)[0]
    net_dict = NetDicts(config, pretrain_from_config(config)).of_epoch(epoch_of_network(config, epoch))
    num_seqs = record_search(
        config,
        dataset,
        LoopOfSearch.of_net(net_dict, args.rec_layer_name),
        args.output_file,
        epoch=args.epoch if args.epoch >= 0 else None,
        with_reference=args.cheating,
        with_attention=args.att_weights,
    )
    print(f"wrote {args.output_file}: {counted(num_seqs, 'sequence')}")
