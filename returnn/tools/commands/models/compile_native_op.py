"""Builds native ops ahead of time, and reports the library files."""

import argparse

from returnn.native.library import Library, library_filename
from returnn.tools.command_line import add_config, file_of, init_config
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import check_known
from returnn.util.files.atomic_file import write_atomic
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser

# Operations of the original, each of which is a library there; and the kernel that computes the same here.
_KERNEL_OF_OP = {
    "NativeLstm2": "lstm",
    "LstmGenericBase": "lstm",
    "LstmLowMem": "lstm",
    "TwoDLSTM": "twod_lstm",
    "FastBaumWelchOp": "automaton_posteriors",
    "FastViterbiOp": "automaton_best_paths",
    "GetCtcFsaFastBwOp": "automaton_posteriors",  # its automata are made by operations of TensorFlow
    "EditDistanceOp": "edit_distance",
    "OptimalCompletionEditDistanceOp": "edit_distance",
    "OptimalCompletionEditDistancePerSuccessorOp": "edit_distance_of_successors",
    "NextEditDistanceRowOp": "edit_distance_table",
    "NextEditDistanceReduceOp": "edit_distance_of_successors",
}


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, help="file of a config: its backend's library is built. Default: the one that needs no backend")
    help = (
        "a kernel, such as lstm, that has to be in the library; all are built. "
        "An operation of the original, such as NativeLstm2: without a config, the library is that for TensorFlow"
    )
    parser.add_argument("--native_op", help=help)
    parser.add_argument("--blas_lib", help="changes nothing: the kernels have their own products of matrices")
    blas = parser.add_mutually_exclusive_group()
    for option in ("--search_for_numpy_blas", "--no_search_for_numpy_blas"):
        blas.add_argument(option, action="store_true", help="changes nothing, for the same reason")
    parser.add_argument("--output_file", help="for the name of the library, in its first line")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    init_config(args, verbosity=args.verbosity)
    for option in ("blas_lib", "search_for_numpy_blas", "no_search_for_numpy_blas"):
        if getattr(args, option):
            print(f"option '--{option}': changes nothing, the kernels need no BLAS library")
    has_config = file_of(args, "--config") is not None
    library = Library(_compiled(has_config=has_config, is_for_tensorflow=args.native_op in _KERNEL_OF_OP))
    if args.native_op is not None:
        kernel = _KERNEL_OF_OP.get(args.native_op, args.native_op)
        check_known("kernel", kernel, {*library.kernels, *_KERNEL_OF_OP}, where="option '--native_op'")
    print(f"level of the CPU: {library.level}")
    print(f"kernels: {', '.join(sorted(library.kernels))}")
    print(f"library: {library.filename}")
    if args.output_file:
        write_atomic(args.output_file, f"{library.filename}\n")


def _compiled(*, has_config: bool, is_for_tensorflow: bool) -> str:
    """
    :param has_config: whether a config says which backend there is
    :param is_for_tensorflow: what is wanted where there is none
    :return: file of the library
    """
    if has_config:
        BackendEngine.select_engine()
        is_for_tensorflow = BackendEngine.is_tensorflow_selected()
    if not is_for_tensorflow:
        return library_filename()
    kernels = import_part("returnn.tf.frontend_low_level.kernels.native", needed_for="kernels of TensorFlow")
    return str(kernels.compile_library())
