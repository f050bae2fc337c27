"""Builds native ops ahead of time, and reports the library files."""

import argparse

from returnn.native.library import Library, library_filename
from returnn.tools.command_line import add_config, file_of, init_config
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import UserError, check_known
from returnn.util.files.atomic_file import write_atomic
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, help="file of a config: its backend's library is built. Default: the one that needs no backend")
    parser.add_argument("--native_op", help="a kernel, such as lstm, that has to be in the library; all are built")
    parser.add_argument("--blas_lib", help="cannot be given: the kernels have their own products of matrices")
    blas = parser.add_mutually_exclusive_group()
    blas.add_argument("--search_for_numpy_blas", action="store_true", help="cannot be given, for the same reason")
    blas.add_argument("--no_search_for_numpy_blas", action="store_true", help="what is done anyway")
    parser.add_argument("--output_file", help="for the name of the library")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    for option in ("blas_lib", "search_for_numpy_blas"):
        if getattr(args, option):
            raise UserError(f"option '--{option}': the kernels need no BLAS library. Leave it out.")
    init_config(args, verbosity=args.verbosity)
    library = Library(_compiled(has_config=file_of(args, "--config") is not None))
    if args.native_op is not None:
        check_known("kernel", args.native_op, library.kernels, where="option '--native_op'")
    print(f"level of the CPU: {library.level}")
    print(f"kernels: {', '.join(sorted(library.kernels))}")
    print(f"library: {library.filename}")
    if args.output_file:
        write_atomic(args.output_file, f"{library.filename}\n")


def _compiled(*, has_config: bool) -> str:
    """
    :param has_config: whether a config says which backend there is
    :return: file of the library
    """
    if has_config:
        BackendEngine.select_engine()
        if BackendEngine.is_tensorflow_selected():
            kernels = import_part("returnn.tf.frontend_low_level.kernels.native", needed_for="kernels of TensorFlow")
            return kernels.compile_library()
    return library_filename()
