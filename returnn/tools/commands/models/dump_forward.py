"""Prints layer outputs for sequences of a dataset."""

import argparse

import numpy

from returnn.tools.command_line import add_config, add_dataset, init_config, open_dataset
from returnn.tools.layer_outputs import SeqOutputs, layer_outputs, seq_range
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "returnn_config", help="file of a config; its option 'forward_output_layer' names the layer")
    add_dataset(parser)
    parser.add_argument("--epoch", type=int, default=1, help="of the dataset, and of the model")
    parser.add_argument("--startseq", type=int, default=0, help="first sequence")
    parser.add_argument("--endseq", type=int, default=10, help="last sequence, exclusive; below 0 for all")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    config = init_config(args, verbosity=1, is_required=True, task="forward", load_epoch=args.epoch)
    layer = config.options.forward_output_layer
    end = args.endseq if args.endseq >= 0 else None
    dataset = seq_range(open_dataset(config, args.dataset), epoch=args.epoch, start=args.startseq, end=end)

    def show(tag: str, outputs: SeqOutputs) -> None:
        value = outputs[layer]
        with numpy.printoptions(threshold=1000, linewidth=120, precision=5):
            print(f"{tag}: {layer} {value.dtype}{list(value.shape)}\n{value}")

    layer_outputs(config, dataset, [layer], show)
