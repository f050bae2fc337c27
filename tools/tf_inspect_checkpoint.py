#!/usr/bin/env python3
"""Shows the tensors of a TF checkpoint."""

import argparse
import os
import sys

import _setup_returnn_env  # noqa: F401
import numpy

from returnn.tf.checkpoint.files import get_checkpoint_filepattern
from returnn.tf.checkpoint.verify import open_checkpoint, read_tensor
from returnn.tools.command_line import run_tool
from returnn.tools.tensor_table import TensorInfo, parse_print_options, tensor_stats, tensor_table
from returnn.util.errors import UserError, check_known
from returnn.util.texts.bool_text import to_bool


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file_name", type=str, default="", help="checkpoint, with or without suffix")
    parser.add_argument("--tensor_name", type=str, default="", help="print the values of this one")
    parser.add_argument(
        "--all_tensors", nargs="?", const=True, default=False, type=to_bool, help="print the values of all"
    )
    parser.add_argument("--printoptions", nargs="*", help="of numpy, such as precision=3 threshold=100")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if not args.file_name:
        raise UserError("option '--file_name' is required: the checkpoint.")
    checkpoint = get_checkpoint_filepattern(args.file_name)
    reader = open_checkpoint(checkpoint)
    dtypes = reader.get_variable_to_dtype_map()
    tensors = [
        TensorInfo(name, tuple(shape), dtypes[name].name)
        for name, shape in sorted(reader.get_variable_to_shape_map().items())
    ]
    names = [tensor.name for tensor in tensors]
    if args.tensor_name:
        check_known("tensor", args.tensor_name, names, where=f"checkpoint {checkpoint!r}")
    with numpy.printoptions(**parse_print_options(args.printoptions)):
        for name in [args.tensor_name] if args.tensor_name else names if args.all_tensors else []:
            value = read_tensor(reader, name, checkpoint=checkpoint)
            print(f"{name}: {tensor_stats(value)}\n{value}")
    if not args.tensor_name:
        print(tensor_table(tensors))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(run_tool(main, make_parser()))
