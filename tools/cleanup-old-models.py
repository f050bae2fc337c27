#!/usr/bin/env python3
"""Deletes checkpoints of a setup which are no longer wanted."""

import argparse
import os
import sys

import _setup_returnn_env  # noqa: F401

from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.tf.checkpoint import cleanup_policy, delete_superfluous_checkpoints, existing_checkpoints
from returnn.tf.checkpoint.cleanup import CleanupPolicy, superfluous_epochs
from returnn.tools.command_line import init_config, run_tool
from returnn.util.errors import UserError
from returnn.util.texts.human_readable import human_bytes_size


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", help="file of a config, with 'model', 'learning_rate_file', 'cleanup_old_models'")
    parser.add_argument("--cwd", help="folder to start in")
    parser.add_argument("--model", help="name of the checkpoints without epoch. Default: that of the config")
    parser.add_argument("--scores", help="learning rate file. Default: that of the config")
    parser.add_argument("--dry_run", action="store_true", help="only say what would be deleted")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if args.cwd:
        os.chdir(args.cwd)
    config = init_config(args.config, verbosity=2)
    model = args.model or config.options.model
    if not model:
        raise UserError("one of the options '--model' and '--config' is required, for the name of the checkpoints.")
    scores_file = args.scores or config.options.learning_rate_file
    policy = cleanup_policy(config.options.cleanup_old_models) or CleanupPolicy()
    scores = {}
    if scores_file:
        if not os.path.exists(scores_file):
            raise UserError(f"learning rate file {scores_file!r} does not exist, so it is not known what is good.")
        scores = {epoch: data.error for epoch, data in read_learning_rate_file(scores_file).items()}
    checkpoints = existing_checkpoints(model)
    unwanted = superfluous_epochs(checkpoints, policy, scores)
    kept = ", ".join(str(epoch) for epoch in sorted(checkpoints) if epoch not in unwanted)
    print(f"{model}: {len(checkpoints)} checkpoints; keep epochs {kept or 'none'}")
    if args.dry_run:
        print(f"would delete epochs {', '.join(map(str, unwanted)) or 'none'}")
        return
    freed = delete_superfluous_checkpoints(checkpoints, policy, scores)
    print(f"deleted epochs {', '.join(map(str, freed)) or 'none'}, {human_bytes_size(sum(freed.values()))}")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(run_tool(main, make_parser()))
