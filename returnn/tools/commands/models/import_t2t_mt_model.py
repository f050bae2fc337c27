"""Converts the parameters of a translation model from Tensor2Tensor."""

import argparse

from returnn.tools.checkpoints.foreign import layers_of_t2t
from returnn.tools.checkpoints.formats import Checkpoint, read_checkpoint, write_any_checkpoint
from returnn.tools.checkpoints.names import rename
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("checkpoint", help="of Tensor2Tensor, name without suffix, such as model.ckpt-250000")
    parser.add_argument("output", help="the new checkpoint; its format is that of the suffix, see convert-checkpoint")
    parser.add_argument("--num_heads", type=int, required=True, help="of the attention")
    help = "regular expression in a name, and what to put there; can be repeated"
    parser.add_argument("--rename", nargs=2, action="append", default=[], metavar=("PATTERN", "NEW"), help=help)
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    checkpoint = read_checkpoint(args.checkpoint)
    values = rename(layers_of_t2t(checkpoint.values, num_heads=args.num_heads), args.rename)
    write_any_checkpoint(Checkpoint(values, checkpoint.info), args.output)
    print(f"wrote {args.output}: {counted(len(values), 'tensor')}")
