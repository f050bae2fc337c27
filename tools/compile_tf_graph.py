#!/usr/bin/env python3
"""Exports the computation graph of a config, for training, forwarding, or search."""

import argparse
import os
import sys

import _setup_returnn_env  # noqa: F401

from returnn.tf.graph_export import GRAPH_FORMATS, GraphMode, build_graph, write_graph
from returnn.tools.command_line import init_config, run_tool
from returnn.util.files.atomic_file import write_atomic


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="file of a config")
    parser.add_argument("--epoch", type=int, default=None, help="whose network. Default: 1")
    parser.add_argument("--train", type=int, default=0, choices=(0, 1, -1), help="1: training; -1: a placeholder says")
    parser.add_argument("--eval", type=int, default=0, choices=(0, 1), help="1: with losses")
    parser.add_argument("--search", type=int, default=0, choices=(0, 1), help="1: with beam search")
    parser.add_argument("--device", default="cpu", help="cpu or gpu")
    formats = ", ".join(f"{suffix}: {what}" for suffix, what in GRAPH_FORMATS.items())
    parser.add_argument("--output_file", help=f"for the graph, by its suffix: {formats}")
    parser.add_argument("--output_file_model_params_list", help="for the names of the parameters of a checkpoint")
    parser.add_argument("--summaries_tensor_name", help="adds a tensor of this name with all summaries")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    config = init_config(args.config, verbosity=args.verbosity, task="search" if args.search else "forward")
    mode = GraphMode(None if args.train < 0 else bool(args.train), bool(args.eval), bool(args.search))
    exported = build_graph(
        config, mode, epoch=args.epoch or 1, device=args.device, summaries_name=args.summaries_tensor_name
    )
    print(exported)
    if args.output_file:
        write_graph(exported, args.output_file)
        print(f"wrote {args.output_file}")
    if args.output_file_model_params_list:
        write_atomic(args.output_file_model_params_list, "".join(f"{name}\n" for name in exported.params))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(run_tool(main, make_parser()))
