"""
Names of the files of a checkpoint: which there are, which belong together, and how to delete them.

The checkpoint `model.012` of epoch 12 is `model.012.index` with the names, `model.012.data-00000-of-00001` with the
values, and, from other programs, `model.012.meta`. It exists if its index does: that is written last and deleted first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from returnn.util.files.checkpoint_files import (
    CheckpointError,
    UnreadableError,
    broken_filename,
    check_files_readable,
    delete_files,
    entries_of_folder,
    epoch_filename,
    existing_checkpoints_with_suffix,
    sync,
    unfinished_checkpoints_with_suffix,
    unfinished_filename,
)

__all__ = [
    "CheckpointError",
    "UnreadableError",
    "broken_filename",
    "check_readable",
    "checkpoint_exists",
    "checkpoint_files",
    "delete_checkpoint",
    "entries_of_folder",
    "epoch_filename",
    "existing_checkpoints",
    "get_checkpoint_filepattern",
    "sync",
    "unfinished_checkpoints",
    "unfinished_filename",
]
_SUFFIX = r"\.(index|meta|data-\d{5}-of-\d{5})"


def unfinished_checkpoints(model: str) -> dict[int, str]:
    """See `unfinished_checkpoints_with_suffix`."""
    return unfinished_checkpoints_with_suffix(model, ".index")


def get_checkpoint_filepattern(filepath: str) -> str:
    """:return: name of the checkpoint that the file belongs to, e.g. "network.012" for "network.012.index" """
    return re.sub(f"{_SUFFIX}$", "", filepath)


def checkpoint_exists(checkpoint: str) -> bool:
    """
    :param checkpoint: name without suffix
    :raises UnreadableError: if that is not known
    """
    try:
        os.stat(f"{checkpoint}.index")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as exc:
        raise UnreadableError(f"checkpoint {checkpoint!r}", exc) from exc
    return True


def checkpoint_files(checkpoint: str) -> list[str]:
    """:return: all files of this checkpoint, and of no other; the index comes first"""
    folder, name = os.path.split(checkpoint)
    pattern = re.compile(re.escape(name) + _SUFFIX)
    found = [entry for entry in entries_of_folder(folder) if pattern.fullmatch(entry)]
    found.sort(key=lambda entry: (not entry.endswith(".index"), entry))
    return [os.path.join(folder, entry) for entry in found]


def delete_checkpoint(checkpoint: str) -> int:
    """
    :param checkpoint: name without suffix
    :return: bytes that are free now
    :raises CheckpointError: if there is none, or if it cannot be deleted
    """
    return delete_files(checkpoint, checkpoint_files(checkpoint))


def existing_checkpoints(
    model: str, *, is_pretrain_epoch: Callable[[int], bool] = lambda epoch: False
) -> dict[int, str]:
    """
    :param model: option `model`
    :param is_pretrain_epoch: if an epoch has both kinds of checkpoint, this says which one counts
    :return: epoch -> name without suffix, in the order of the epochs
    """
    return existing_checkpoints_with_suffix(model, ".index", is_pretrain_epoch=is_pretrain_epoch)


def check_readable(checkpoint: str) -> None:
    """
    Reads all of its files, whatever is in them.

    :raises UnreadableError: if that is not possible
    """
    check_files_readable(checkpoint, checkpoint_files(checkpoint))
