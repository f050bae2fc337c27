"""Exports a PyTorch-based model to ONNX."""

import argparse

from returnn.tools.command_line import add_config, init_config, required_file_of
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "config", help="file of a config with 'get_model' and 'forward_step'")
    parser.add_argument("checkpoint", help="with the parameters")
    parser.add_argument("out_onnx_filename", help="the new file")
    parser.add_argument("--input_names", help="data keys, with commas. Default: the input, and what the step asks for")
    parser.add_argument("--output_names", help="outputs that the step marks, with commas. Default: all")
    parser.add_argument("--forward_step", default="forward_step", help="function of the config, such as a decoder step")
    parser.add_argument("--extern_data", default="extern_data", help="option of the config with the inputs of it")
    parser.add_argument("--device", default="cpu", help="where the model is run once")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    required_file_of(args, "--config", what="a config")
    config = init_config(args, verbosity=args.verbosity, backend="torch", device=args.device, task="forward")
    exported = import_part("returnn.torch.onnx_export", needed_for="the tool 'torch-export-to-onnx'").export_to_onnx(
        config,
        args.checkpoint,
        args.out_onnx_filename,
        input_names=args.input_names.split(",") if args.input_names else (),
        output_names=args.output_names.split(",") if args.output_names else (),
        forward_step=args.forward_step,
        extern_data=args.extern_data,
    )
    if config.options.torch_amp:
        print("it is float32; the tasks, and returnn.load, compute in mixed precision, as 'torch_amp' says")
    print(f"{exported}\nwrote {args.out_onnx_filename}: {counted(exported.num_bytes, 'byte', ',')}")
