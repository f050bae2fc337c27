"""Exports a trained network, to be run without this toolkit: SavedModel, frozen graph, TensorFlow Lite."""

import argparse
import os

from returnn.engine.epochs import epoch_of_network
from returnn.engine.model_formats import MODEL_FORMATS
from returnn.engine.model_names import epoch_of_checkpoint, has_other_parameters, model_of_task, no_model_error
from returnn.tools.command_line import add_config, file_of, init_config, required_file_of
from returnn.util.errors import UserError
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser

_FORMAT_OF_SUFFIX = {"": "saved_model", ".pb": "frozen", ".tflite": "tflite"}
_FORMATS_OF_OTHERS = (".onnx", ".pt", ".pth", ".h5", ".keras")


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "config", help="file of a config")
    parser.add_argument("output", help="the new file or folder; by its suffix: .pb, .tflite, or none for a SavedModel")
    parser.add_argument("--checkpoint", help="with the parameters. Default: the newest one, or 'load_epoch'")
    parser.add_argument("--epoch", type=int, help="of the model, in place of a checkpoint")
    parser.add_argument("--format", help=f"in place of the suffix: {_formats()}")
    parser.add_argument("--search", type=int, default=0, choices=(0, 1), help="1: with beam search")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if file_of(args, "--config") is None and os.path.isfile(args.output):
        raise UserError(f"the new file or folder is missing: returnn tool export-model {args.output} NAME.")
    required_file_of(args, "--config", what="a config")
    kind = args.format or _format_of(args.output)
    if args.epoch is not None and args.checkpoint:
        raise UserError("give either the option '--epoch' or '--checkpoint'.")
    options = {} if args.epoch is None else {"load_epoch": args.epoch}
    config = init_config(args, verbosity=args.verbosity, task="search" if args.search else "forward", **options)
    if config.options.backend == "torch":
        raise UserError(
            "the model is one of PyTorch (option 'backend'), of which 'returnn tool torch-export-to-onnx' makes ONNX.\n"
            f"  Those of TensorFlow become {_formats()}."
        )
    if kind == "tflite" and config.options.tf_amp:
        raise UserError("TensorFlow Lite has no mixed precision (option 'tf_amp'): '++tf_amp None' exports float32.")
    epoch, checkpoint = model_of_task(config)
    if args.checkpoint:
        epoch, checkpoint = epoch_of_checkpoint(args.checkpoint), args.checkpoint
    if checkpoint is None and not has_other_parameters(config):
        raise UserError(f"option '--checkpoint' is required: {no_model_error(config)}")
    graph = import_part("returnn.tf.graph_export", needed_for="the tool 'export-model'")
    export = import_part("returnn.tf.model_export", needed_for="the tool 'export-model'")
    mode = graph.GraphMode(train_flag=False, search_flag=bool(args.search))
    model = export.freeze(config, checkpoint, mode, epoch=epoch_of_network(config, epoch))
    export.write_model(model, args.output, kind)
    print(f"{model}\nwrote {args.output}: {MODEL_FORMATS[kind]}")


def _formats() -> str:
    return ", ".join(f"{name} ({what})" for name, what in MODEL_FORMATS.items())


def _format_of(output: str) -> str:
    """:return: what the suffix of the new file says; of a folder, a SavedModel"""
    suffix = os.path.splitext(output)[1]
    if suffix in _FORMATS_OF_OTHERS:  # it would be a folder of that name
        known = ", ".join(filter(None, _FORMAT_OF_SUFFIX))
        raise UserError(
            f"{output!r}: a network cannot be exported as {suffix!r}. Possible: {known}, or a folder.\n"
            "  Models in PyTorch become ONNX by 'returnn tool torch-export-to-onnx'."
        )
    return _FORMAT_OF_SUFFIX.get(suffix, "saved_model")
