"""Checkpoints in TensorFlow's format: written so that they are complete or absent, read with all checksums."""

from returnn.tf.checkpoint.assign import have_custom_post_init, run_custom_post_inits, set_custom_post_init
from returnn.tf.checkpoint.files import (
    CheckpointError,
    UnreadableError,
    broken_filename,
    checkpoint_exists,
    checkpoint_files,
    delete_checkpoint,
    epoch_filename,
    existing_checkpoints,
    get_checkpoint_filepattern,
    unfinished_checkpoints,
    unfinished_filename,
)
from returnn.tf.checkpoint.finite_values import check_finite
from returnn.tf.checkpoint.load import CustomCheckpointLoader, CustomLoadParamFunc
from returnn.tf.checkpoint.preload import set_preloaded_values
from returnn.tf.checkpoint.save import CheckpointWriter, ValuesWriter, finish_interrupted_saves
from returnn.tf.checkpoint.verify import newest_intact_checkpoint, read_values, verify_checkpoint

__all__ = [
    "CheckpointError",
    "CheckpointWriter",
    "CustomCheckpointLoader",
    "CustomLoadParamFunc",
    "UnreadableError",
    "ValuesWriter",
    "broken_filename",
    "check_finite",
    "checkpoint_exists",
    "checkpoint_files",
    "delete_checkpoint",
    "epoch_filename",
    "existing_checkpoints",
    "finish_interrupted_saves",
    "get_checkpoint_filepattern",
    "have_custom_post_init",
    "newest_intact_checkpoint",
    "read_values",
    "run_custom_post_inits",
    "set_custom_post_init",
    "set_preloaded_values",
    "unfinished_checkpoints",
    "unfinished_filename",
    "verify_checkpoint",
]
