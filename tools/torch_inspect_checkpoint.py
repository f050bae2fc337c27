#!/usr/bin/env python3
"""Shows the tensors of a PyTorch checkpoint."""

import argparse
import sys

import _setup_returnn_env  # noqa: F401
import numpy

from returnn.tools.command_line import run_tool
from returnn.tools.tensor_table import TensorInfo, parse_print_options, tensor_stats, tensor_table
from returnn.torch.checkpoint_file import iter_tensors, load_checkpoint_file
from returnn.util.errors import check_known


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="file")
    parser.add_argument("--key", type=str, default="", help="print the values of this tensor")
    parser.add_argument("--all_tensors", action="store_true", help="print the values of all")
    parser.add_argument("--stats", action="store_true", help="mean, standard deviation and the like of each tensor")
    parser.add_argument("--stats_only", action="store_true", help="the same, and no values")
    parser.add_argument("--printoptions", nargs="*", help="of numpy, such as precision=3 threshold=100")
    parser.add_argument("--device", default="cpu", help="where the tensors go")
    parser.add_argument("--mmap", action="store_true", help="leave them in the file until they are needed")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    content = load_checkpoint_file(args.checkpoint, device=args.device, mmap=args.mmap)
    tensors = dict(iter_tensors(content))
    if args.key:
        check_known("tensor", args.key, tensors, where=f"checkpoint {args.checkpoint!r}")
    with_values = args.all_tensors and not args.stats_only
    with numpy.printoptions(**parse_print_options(args.printoptions)):
        for name in [args.key] if args.key else tensors if with_values or args.stats or args.stats_only else []:
            value = tensors[name].detach().cpu().to_dense().float().numpy()
            print(f"{name}: {tensor_stats(value)}")
            if (args.key or with_values) and not args.stats_only:
                print(value)
    if not args.key:
        infos = [TensorInfo(n, tuple(t.shape), str(t.dtype).removeprefix("torch.")) for n, t in tensors.items()]
        print(tensor_table(infos))
        for name, value in content.items():
            if isinstance(value, (int, float, str)):
                print(f"{name}: {value}")


if __name__ == "__main__":
    sys.exit(run_tool(main, make_parser()))
