#!/usr/bin/env python3
"""Prints values from a TensorBoard event file."""

import argparse
import os
import sys

import _setup_returnn_env  # noqa: F401

from returnn.tf.event_file import read_scalars
from returnn.tools.command_line import run_tool
from returnn.util.errors import check_known


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="event file")
    parser.add_argument("--tag", default="objective/loss", help="name of the values")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    scalars = read_scalars(args.file)
    check_known("tag", args.tag, scalars, where=f"event file {args.file!r}")
    for step, value in scalars[args.tag]:
        print(f"step {step}: {value:.8g}")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(run_tool(main, make_parser()))
