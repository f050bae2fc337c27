#!/usr/bin/env python3
"""Counts the parameters in a PyTorch checkpoint."""

import argparse
import sys

import _setup_returnn_env  # noqa: F401

from returnn.tools.command_line import run_tool
from returnn.torch.checkpoint_file import iter_tensors, load_checkpoint_file, model_of


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="file")
    parser.add_argument("--ignore-prefix", nargs="*", default=[], help="leave out names that begin with one of these")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    tensors = dict(iter_tensors(model_of(load_checkpoint_file(args.checkpoint, mmap=True))))
    counted = {
        name: tensor.numel() for name, tensor in tensors.items() if not name.startswith(tuple(args.ignore_prefix))
    }
    for name, size in counted.items():
        print(f"{name}: {size:,}")
    print(f"{len(counted)} tensors, {sum(counted.values()):,} parameters")


if __name__ == "__main__":
    sys.exit(run_tool(main, make_parser()))
