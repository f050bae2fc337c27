"""Shows the tensors of a PyTorch checkpoint."""

import argparse

from returnn.tools.command_line import add_file, required_file_of
from returnn.tools.torch_tensors import add_tensor_options, show_tensors
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_file(parser, "checkpoint", "--file_name", help="file")
    add_tensor_options(parser)
    parser.add_argument("--mmap", action="store_true", help="leave them in the file until they are needed")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    checkpoint = required_file_of(args, "--file_name", what="a checkpoint")
    checkpoint_file = import_part("returnn.torch.checkpoint_file", needed_for="checkpoints of PyTorch")
    content = checkpoint_file.load_checkpoint_file(checkpoint, device=args.device, mmap=args.mmap)
    show_tensors(dict(checkpoint_file.iter_tensors(content)), args, where=f"checkpoint {checkpoint!r}")
    if not args.key:
        for name, value in content.items():
            if isinstance(value, (int, float, str)):
                print(f"{name}: {value}")
