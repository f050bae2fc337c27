"""Averages the parameters of several TF checkpoints."""

import argparse

from returnn.util.errors import UserError
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    help = "names without suffix, or epochs with --prefix; with commas or spaces"
    parser.add_argument("--checkpoints", nargs="+", default=[], help=help)
    parser.add_argument("--num_last_checkpoints", type=int, default=0, help="instead, so many of the newest ones")
    parser.add_argument("--prefix", default="", help="before each name, such as net-model/network.")
    parser.add_argument("--output_path", default="averaged", help="name of the new checkpoint, without suffix")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    names = _names(args)
    average = import_part("returnn.tf.checkpoint.average", needed_for="checkpoints of TensorFlow")
    average.write_checkpoint(average.average_checkpoints(names), args.output_path)
    print(f"wrote {args.output_path}: the mean of {', '.join(names)}")


def _names(args: argparse.Namespace) -> list[str]:
    if bool(args.checkpoints) == bool(args.num_last_checkpoints):
        raise UserError("one of the options '--checkpoints' and '--num_last_checkpoints' is required.")
    files = import_part("returnn.tf.checkpoint.files", needed_for="checkpoints of TensorFlow")
    existing = files.existing_checkpoints(args.prefix.removesuffix("."))
    if args.checkpoints:
        names = [name.strip() for text in args.checkpoints for name in text.split(",")]
        epochs = {name: existing.get(int(name)) for name in names if name.isdigit()}
        return [epochs.get(name) or files.get_checkpoint_filepattern(f"{args.prefix}{name}") for name in names]
    if len(existing) < args.num_last_checkpoints:
        raise UserError(
            f"option '--num_last_checkpoints': {args.num_last_checkpoints} are wanted, but {args.prefix!r} has "
            f"{len(existing)}.\n  '--prefix' is what their names begin with, such as 'net-model/network.'."
        )
    return [existing[epoch] for epoch in sorted(existing)[-args.num_last_checkpoints :]]
