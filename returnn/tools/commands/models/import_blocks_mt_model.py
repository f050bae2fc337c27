"""Converts the parameters of a translation model from the Blocks toolkit."""

import argparse

from returnn.tools.checkpoints.foreign import layers_of_blocks
from returnn.tools.checkpoints.formats import Checkpoint, read_checkpoint, write_any_checkpoint
from returnn.tools.checkpoints.names import rename
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("params", help="file of Blocks with all parameters, such as params.npz")
    parser.add_argument("output", help="the new checkpoint; its format is that of the suffix, see convert-checkpoint")
    help = "brick of an LSTM, brick of the linear map of its input, name of the layer; can be repeated"
    parser.add_argument("--lstm", nargs=3, action="append", default=[], metavar=("BRICK", "INPUT", "LAYER"), help=help)
    help = "regular expression in a name, and what to put there; can be repeated"
    parser.add_argument("--rename", nargs=2, action="append", default=[], metavar=("PATTERN", "NEW"), help=help)
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    checkpoint = read_checkpoint(args.params)
    values = rename(layers_of_blocks(checkpoint.values, args.lstm), args.rename)
    write_any_checkpoint(Checkpoint(values, checkpoint.info), args.output)
    print(f"wrote {args.output}: {counted(len(values), 'tensor')}")
