"""Checkpoints in TensorFlow's format: written so that they are complete or absent, read with all checksums."""

from returnn.tf.checkpoint.assign import have_custom_post_init, run_custom_post_inits, set_custom_post_init
from returnn.tf.checkpoint.cleanup import (
    CleanupPolicy,
    cleanup_policy,
    delete_superfluous_checkpoints,
    superfluous_epochs,
)
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
)
from returnn.tf.checkpoint.load import CustomCheckpointLoader, CustomLoadParamFunc
from returnn.tf.checkpoint.preload import PreloadedFile, preloaded_files, set_preloaded_values
from returnn.tf.checkpoint.save import CheckpointWriter, finish_interrupted_saves
from returnn.tf.checkpoint.verify import Damage, NewestIntact, newest_intact_checkpoint, verify_checkpoint

__all__ = [
    "CheckpointError",
    "CheckpointWriter",
    "CleanupPolicy",
    "CustomCheckpointLoader",
    "CustomLoadParamFunc",
    "Damage",
    "NewestIntact",
    "PreloadedFile",
    "UnreadableError",
    "broken_filename",
    "checkpoint_exists",
    "checkpoint_files",
    "cleanup_policy",
    "delete_checkpoint",
    "delete_superfluous_checkpoints",
    "epoch_filename",
    "existing_checkpoints",
    "finish_interrupted_saves",
    "get_checkpoint_filepattern",
    "have_custom_post_init",
    "newest_intact_checkpoint",
    "preloaded_files",
    "run_custom_post_inits",
    "set_custom_post_init",
    "set_preloaded_values",
    "superfluous_epochs",
    "verify_checkpoint",
]
