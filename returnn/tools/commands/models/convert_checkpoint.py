"""Converts checkpoints between formats, layouts of LSTMs and names of parameters; averages several of any format."""

import argparse
import re

from returnn.datasets.util.vocab_file import read_literal_file
from returnn.tools.checkpoints.average import average
from returnn.tools.checkpoints.convert_lstms import convert_lstms
from returnn.tools.checkpoints.formats import FORMATS, Checkpoint, read_checkpoint, write_any_checkpoint
from returnn.tools.checkpoints.names import layers_to_modules, modules_to_layers, rename
from returnn.util.errors import UserError
from returnn.util.numbers.lstm_layouts import LAYOUTS
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    formats = ".pt, .safetensors, .npz, .ckpt1 (the first format of TensorFlow), otherwise TensorFlow's"
    parser.add_argument("checkpoints", nargs="+", help="one, or several of the same model, whose mean is taken")
    parser.add_argument("output", help=f"the new one; by its suffix: {formats}")
    parser.add_argument("--format", help=f"in place of the suffix: {', '.join(FORMATS)}")
    layouts = ", ".join(LAYOUTS)
    parser.add_argument("--lstm", nargs=2, metavar=("FROM", "TO"), help=f"convert LSTMs between layouts: {layouts}")
    help = "of LSTMs of cuDNN with two parts of the same size: two layers (1), or one layer in both directions (2)"
    parser.add_argument("--directions", type=int, choices=(1, 2), help=help)
    help = "that units of standardlstm, basiclstm and fusedlstm add. 0: leave biases as they are"
    parser.add_argument("--forget_bias", type=float, default=1.0, help=help)
    help = "regular expression in a name, and what to put there; can be repeated"
    parser.add_argument("--rename", nargs=2, action="append", default=[], metavar=("PATTERN", "NEW"), help=help)
    parser.add_argument("--exclude", help="regular expression: leave out names which have it")
    mapping = parser.add_mutually_exclusive_group()
    help = "file with a dict from layers of a net dict to modules"
    mapping.add_argument("--layers_to_modules", metavar="FILE", help=help)
    mapping.add_argument("--modules_to_layers", metavar="FILE", help="the reverse")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work. Layers become modules after LSTMs are converted, and modules become layers before."""
    checkpoint = average([read_checkpoint(name) for name in args.checkpoints], args.checkpoints)
    values = dict(checkpoint.values)
    if args.exclude:
        try:
            values = {name: value for name, value in values.items() if not re.search(args.exclude, name)}
        except re.error as exc:
            raise UserError(f"option '--exclude': {args.exclude!r}: {exc}.") from exc
    values = rename(values, args.rename)
    notes: list[str] = []
    if args.modules_to_layers:
        values = modules_to_layers(values, _mapping(args.modules_to_layers))
    if args.lstm:
        converted = convert_lstms(values, *args.lstm, forget_bias=args.forget_bias, directions=args.directions)
        values, notes = converted.values, [*converted.notes]
    if args.layers_to_modules:
        values = layers_to_modules(values, _mapping(args.layers_to_modules))
    write_any_checkpoint(Checkpoint(values, checkpoint.info), args.output, kind=args.format)
    size = sum(value.size for value in values.values())
    mean = f", the mean of {len(args.checkpoints)}" if len(args.checkpoints) > 1 else ""
    print(f"wrote {args.output}: {counted(len(values), 'tensor')}, {counted(size, 'value', ',')}{mean}")
    for note in notes:
        print(f"  {note}")


def _mapping(filename: str) -> dict[str, str]:
    mapping = read_literal_file(filename)
    if not isinstance(mapping, dict) or not all(isinstance(x, str) for pair in mapping.items() for x in pair):
        raise UserError(f"file {filename!r}: expected a dict from names to names.")
    return mapping
