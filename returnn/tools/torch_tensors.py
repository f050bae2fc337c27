"""Tensors of PyTorch on the screen: what the tools that show checkpoints have in common."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy

from returnn.tools.tensor_table import TensorInfo, parse_print_options, tensor_stats, tensor_table
from returnn.util.errors import check_known


def add_tensor_options(parser: argparse.ArgumentParser) -> None:
    """Adds what `show_tensors` reads."""
    parser.add_argument("--key", "--tensor_name", type=str, default="", help="print the values of this tensor")
    parser.add_argument("--all_tensors", action="store_true", help="print the values of all")
    parser.add_argument("--stats", action="store_true", help="mean, standard deviation and the like of each tensor")
    parser.add_argument("--stats_only", action="store_true", help="the same, and no values")
    parser.add_argument(
        "--interesting_exclude", help="texts, with commas: leave out tensors whose name has one of them"
    )
    parser.add_argument("--printoptions", nargs="*", help="of numpy, such as precision=3 threshold=100")
    parser.add_argument("--device", default="cpu", help="where the tensors go")


def show_tensors(tensors: Mapping[str, Any], args: argparse.Namespace, *, where: str) -> None:
    """
    Prints a table, or values, or statistics of them.

    :param tensors: of PyTorch, by name
    :param args: with the options of `add_tensor_options`
    :param where: how messages begin
    :raises UserError: if there is no such tensor
    """
    excluded = [text for text in (args.interesting_exclude or "").split(",") if text]
    tensors = {name: x for name, x in tensors.items() if not any(text in name for text in excluded)}
    if args.key:
        check_known("tensor", args.key, tensors, where=where)
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
