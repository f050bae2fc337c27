#!/usr/bin/env python3
"""Averages the parameters of several TF checkpoints."""

import argparse
import os
import sys

import _setup_returnn_env  # noqa: F401

from returnn.tf.checkpoint.average import average_checkpoints, write_checkpoint
from returnn.tf.checkpoint.files import existing_checkpoints, get_checkpoint_filepattern
from returnn.tools.command_line import run_tool
from returnn.util.errors import UserError


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", default="", help="names without suffix, or epochs with --prefix; with commas")
    parser.add_argument("--num_last_checkpoints", type=int, default=0, help="instead, so many of the newest ones")
    parser.add_argument("--prefix", default="", help="before each name, such as net-model/network.")
    parser.add_argument("--output_path", default="averaged", help="name of the new checkpoint, without suffix")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    names = _names(args)
    values = average_checkpoints(names)
    write_checkpoint(values, args.output_path)
    print(f"wrote {args.output_path}: the mean of {', '.join(names)}")


def _names(args: argparse.Namespace) -> list[str]:
    if bool(args.checkpoints) == bool(args.num_last_checkpoints):
        raise UserError("one of the options '--checkpoints' and '--num_last_checkpoints' is required.")
    if args.checkpoints:
        names = [f"{args.prefix}{name.strip()}" for name in args.checkpoints.split(",")]
        return [get_checkpoint_filepattern(name) for name in names]
    existing = existing_checkpoints(args.prefix.removesuffix("."))
    if len(existing) < args.num_last_checkpoints:
        raise UserError(
            f"option '--num_last_checkpoints': {args.num_last_checkpoints} are wanted, but {args.prefix!r} has "
            f"{len(existing)}.\n  '--prefix' is what their names begin with, such as 'net-model/network.'."
        )
    return [existing[epoch] for epoch in sorted(existing)[-args.num_last_checkpoints :]]


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(run_tool(main, make_parser()))
