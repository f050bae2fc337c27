"""Counts the parameters in a PyTorch checkpoint."""

import argparse

from returnn.tools.command_line import add_file, required_file_of
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_file(parser, "checkpoint", "--file_name", help="file")
    parser.add_argument("--ignore-prefix", nargs="*", default=[], help="leave out names that begin with one of these")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    file = import_part("returnn.torch.checkpoint_file", needed_for="checkpoints of PyTorch")
    content = file.load_checkpoint_file(required_file_of(args, "--file_name", what="a checkpoint"), mmap=True)
    tensors = dict(file.iter_tensors(file.model_of(content)))
    sizes = {name: tensor.numel() for name, tensor in tensors.items() if not name.startswith(tuple(args.ignore_prefix))}
    for name, size in sizes.items():
        print(f"{name}: {size:,}")
    print(f"{counted(len(sizes), 'tensor')}, {counted(sum(sizes.values()), 'parameter', ',')}")
