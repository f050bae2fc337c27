"""Converts checkpoints between formats, layouts of LSTMs and names of parameters; averages several of any format."""

import argparse
import re

from returnn.datasets.util.vocab_file import read_literal_file
from returnn.tools.checkpoints.average import average
from returnn.tools.checkpoints.convert_lstms import convert_lstms
from returnn.tools.checkpoints.formats import FORMATS, Checkpoint, read_checkpoint, write_any_checkpoint
from returnn.tools.checkpoints.layer_modules import Place, layers_to_modules, modules_to_layers, places_of
from returnn.tools.checkpoints.names import rename
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
    help = "file with a dict from layers of a net dict to modules: layers become modules, LSTMs those of the frontend"
    mapping.add_argument("--layers_to_modules", metavar="FILE", help=help)
    mapping.add_argument("--modules_to_layers", metavar="FILE", help="the reverse, by the same file")
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
        mapped = modules_to_layers(values, _places(args.modules_to_layers), forget_bias=args.forget_bias)
        values, notes = mapped.values, [*notes, *mapped.notes]
    if args.lstm:
        converted = convert_lstms(values, *args.lstm, forget_bias=args.forget_bias, directions=args.directions)
        values, notes = converted.values, [*notes, *converted.notes]
    if args.layers_to_modules:
        mapped = layers_to_modules(values, _places(args.layers_to_modules), forget_bias=args.forget_bias)
        values, notes = mapped.values, [*notes, *mapped.notes]
    write_any_checkpoint(Checkpoint(values, checkpoint.info), args.output, kind=args.format)
    size = sum(value.size for value in values.values())
    mean = f", the mean of {len(args.checkpoints)}" if len(args.checkpoints) > 1 else ""
    print(f"wrote {args.output}: {counted(len(values), 'tensor')}, {counted(size, 'value', ',')}{mean}")
    for note in notes:
        print(f"  {note}")


def _places(filename: str) -> list[Place]:
    return places_of(read_literal_file(filename))
