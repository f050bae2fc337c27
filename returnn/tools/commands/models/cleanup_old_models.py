"""Deletes checkpoints of a setup which are no longer wanted."""

import argparse
import os

from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.engine.run.cleanup import CleanupPolicy, cleanup_policy, superfluous_epochs
from returnn.tools.command_line import add_config, init_config
from returnn.util.errors import UserError
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted
from returnn.util.texts.human_readable import human_bytes_size


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    help = "file of a config, with 'model', 'learning_rate_file', 'cleanup_old_models'"
    add_config(parser, "config", help=help)
    parser.add_argument("--cwd", help="folder to start in")
    parser.add_argument("--model", help="name of the checkpoints without epoch. Default: that of the config")
    parser.add_argument("--scores", help="learning rate file. Default: that of the config")
    parser.add_argument("--dry_run", action="store_true", help="only say what would be deleted")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if args.cwd:
        os.chdir(args.cwd)
    config = init_config(args, verbosity=2)
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
    files = import_part("returnn.tf.checkpoint", needed_for="checkpoints of TensorFlow")
    checkpoints = files.existing_checkpoints(model)
    unwanted = superfluous_epochs(checkpoints, policy, scores)
    kept = ", ".join(str(epoch) for epoch in sorted(checkpoints) if epoch not in unwanted)
    print(f"{model}: {counted(len(checkpoints), 'checkpoint')}; keep epochs {kept or 'none'}")
    if args.dry_run:
        print(f"would delete epochs {', '.join(map(str, unwanted)) or 'none'}")
        return
    freed = {epoch: files.delete_checkpoint(checkpoints[epoch]) for epoch in unwanted}
    print(f"deleted epochs {', '.join(map(str, freed)) or 'none'}, {human_bytes_size(sum(freed.values()))}")
