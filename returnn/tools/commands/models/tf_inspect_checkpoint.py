"""Shows the tensors of a TF checkpoint."""

import argparse

import numpy

from returnn.tools.command_line import add_file, required_file_of
from returnn.tools.tensor_table import TensorInfo, parse_print_options, tensor_stats, tensor_table
from returnn.util.errors import check_known
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.bool_text import to_bool


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_file(parser, "checkpoint", "--file_name", help="with or without suffix")
    parser.add_argument("--tensor_name", "--key", type=str, default="", help="print the values of this one")
    parser.add_argument(
        "--all_tensors", nargs="?", const=True, default=False, type=to_bool, help="print the values of all"
    )
    parser.add_argument("--printoptions", nargs="*", help="of numpy, such as precision=3 threshold=100")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    given = required_file_of(args, "--file_name", what="a checkpoint")
    files, verify = (
        import_part(f"returnn.tf.checkpoint.{name}", needed_for="checkpoints of TensorFlow")
        for name in ("files", "verify")
    )
    checkpoint = files.get_checkpoint_filepattern(given)
    reader = verify.open_checkpoint(checkpoint)
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
            value = verify.read_tensor(reader, name, checkpoint=checkpoint)
            print(f"{name}: {tensor_stats(value)}\n{value}")
    if not args.tensor_name:
        print(tensor_table(tensors))
