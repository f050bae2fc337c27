"""Like torch_inspect_checkpoint.py, together with the optimizer state."""

import argparse
import os

from returnn.engine.epochs import epoch_of_network
from returnn.engine.model_names import model_of_task
from returnn.tools.command_line import add_config, init_config
from returnn.tools.torch_tensors import add_tensor_options, show_tensors
from returnn.util.errors import UserError
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    help = "file of a config, which makes the model and the optimizer; of its checkpoints the newest, or 'load_epoch'"
    add_config(parser, "returnn_config", help=help)
    parser.add_argument("--cwd", help="folder to start in")
    add_tensor_options(parser)
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if args.cwd:
        if not os.path.isdir(args.cwd):
            raise UserError(f"option '--cwd': there is no folder {args.cwd!r}.")
        os.chdir(args.cwd)
    config = init_config(args, verbosity=1, is_required=True, device=args.device, backend="torch")
    epoch, filename = model_of_task(config)
    if filename is None:
        raise UserError("option 'model': there is no checkpoint yet.")
    runners = import_part("returnn.torch.engine.runner", needed_for="the tool 'torch-inspect-checkpoint-and-opt'")
    runner = runners.TorchRunner(config)
    runner.build(epoch=epoch_of_network(config, epoch), filename=filename, is_training=True, is_own=True)
    try:
        tensors = {**runner.parameters, **runner.updater.state_tensors()}
        show_tensors(tensors, args, where=f"checkpoint {filename!r}")
        if not args.key:
            print(f"epoch: {epoch}\nstep: {runner.train_step}\noptimizer: {type(runner.updater.optimizer).__name__}")
    finally:
        runner.close()
