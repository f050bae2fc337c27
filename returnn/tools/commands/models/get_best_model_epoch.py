"""Picks the best epoch(s) by the scores in a learning rate file."""

import argparse
import os

from returnn.engine.learning_rate_file import is_learning_rate_file, read_learning_rate_file
from returnn.tools.best_epochs import best_epochs
from returnn.tools.command_line import add_config, file_of, init_config
from returnn.util.errors import UserError
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--learning-rate-file", help="default: that of the config")
    add_config(parser, "config", help="file of a config, or a learning rate file")
    parser.add_argument("--key", help="score to compare, such as dev_error. Default: dev_error, or dev_score, ...")
    parser.add_argument("--n", type=int, default=5, help="number of epochs, the best first")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    filename = args.learning_rate_file or _file_of_config(args)
    if not os.path.exists(filename):
        raise UserError(f"learning rate file {filename!r} does not exist.")
    scores = {epoch: data.error for epoch, data in read_learning_rate_file(filename).items()}
    key, ranked = best_epochs(scores, args.key)
    for epoch in ranked[: args.n]:
        print(f"epoch {epoch}: {key} {scores[epoch][key]}")


def _file_of_config(args: argparse.Namespace) -> str:
    given = file_of(args, "--config")
    if given is None:
        raise UserError(
            "a config or a learning rate file is required: as the first argument, or with '--config' or"
            " '--learning-rate-file'."
        )
    if is_learning_rate_file(given):
        return given
    filename = init_config(args, verbosity=2).options.learning_rate_file
    if not filename:
        raise UserError(f"config {given!r}: there is no option 'learning_rate_file'.")
    return str(filename)
