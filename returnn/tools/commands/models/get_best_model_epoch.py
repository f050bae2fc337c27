"""Picks the best epoch(s) by the scores in a learning rate file."""

import argparse
import os

from returnn.config import Config
from returnn.engine.learning_rate_control import LearningRateControl
from returnn.engine.learning_rate_file import is_learning_rate_file
from returnn.tools.best_epochs import best_epochs
from returnn.tools.command_line import add_config, file_of, init_config
from returnn.util.errors import UserError
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--learning-rate-file", help="default: that of the config")
    add_config(parser, "config", help="file of a config, or a learning rate file")
    parser.add_argument(
        "--key",
        help="score to compare, such as dev_error, or dev_loss_ce. Default: that by which the training marks its best"
        " epoch, which is 'learning_rate_control_error_measure' of the config, or else the loss on 'dev'",
    )
    parser.add_argument("--n", type=int, default=5, help="number of epochs, the best first")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    given = file_of(args, "--config")
    is_config = given is not None and not is_learning_rate_file(given)
    config = init_config(args, verbosity=2) if is_config else Config()
    filename = args.learning_rate_file or (config.options.learning_rate_file if is_config else given)
    if not filename:
        raise UserError(
            f"config {given!r}: there is no option 'learning_rate_file'."
            if is_config
            else "a config or a learning rate file is required: as the first argument, or with '--config' or"
            " '--learning-rate-file'."
        )
    if not os.path.exists(filename):
        raise UserError(f"learning rate file {filename!r} does not exist.")
    measure = config.options.learning_rate_control_error_measure
    control = LearningRateControl(default_learning_rate=0.0, error_measure_key=measure, filename=str(filename))
    key, ranked = best_epochs(control, args.key)
    for epoch in ranked[: args.n]:
        print(f"epoch {epoch}: {key} {control.epoch_data[epoch].error[key]}")
