"""
Names of the files of a checkpoint: which there are, which belong together, and how to delete them.

The checkpoint `model.012` of epoch 12 is `model.012.index` with the names, `model.012.data-00000-of-00001` with the
values, and, from other programs, `model.012.meta`. It exists if its index does: that is written last and deleted first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from returnn.util.errors import UserError

_BLOCK_BYTES = 1 << 24
_SUFFIX = r"\.(index|meta|data-\d{5}-of-\d{5})"


class CheckpointError(UserError):
    """A checkpoint that is missing, damaged, does not fit, or cannot be written."""


class UnreadableError(CheckpointError):
    """A file or folder that is there, or may be, but cannot be read now: no right to, a broken disk, a lost mount."""

    def __init__(self, what: str, exc: OSError) -> None:
        """
        :param what: checkpoint or folder, for people
        :param exc: of the operating system
        """
        super().__init__(
            f"{what} cannot be read: {exc.strerror}: {exc.filename!r}.\n"
            "  It may be intact, so nothing goes on without it. Make it readable, or move it away."
        )


def epoch_filename(model: str, epoch: int, *, is_pretrain: bool = False) -> str:
    """
    :param model: option `model`, e.g. "net-model/network"
    :return: name of the checkpoint without suffix, e.g. "net-model/network.pretrain.012"
    """
    return f"{model}.pretrain.{epoch:03d}" if is_pretrain else f"{model}.{epoch:03d}"


def broken_filename(checkpoint: str) -> str:
    """:return: for the parameters after an epoch whose loss is not finite, e.g. "network.012.broken" """
    return f"{checkpoint}.broken"


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
    files = checkpoint_files(checkpoint)
    if not files:
        raise CheckpointError(f"checkpoint {checkpoint!r} does not exist, and cannot be deleted.")
    num_bytes = 0
    try:
        for file in files:
            num_bytes += os.path.getsize(file)
            os.remove(file)
    except OSError as exc:
        raise CheckpointError(
            f"checkpoint {checkpoint!r} cannot be deleted: {exc.strerror}: {exc.filename!r}."
        ) from exc
    return num_bytes


def existing_checkpoints(
    model: str, *, is_pretrain_epoch: Callable[[int], bool] = lambda epoch: False
) -> dict[int, str]:
    """
    :param model: option `model`
    :param is_pretrain_epoch: if an epoch has both kinds of checkpoint, this says which one counts
    :return: epoch -> name without suffix, in the order of the epochs
    """
    folder, name = os.path.split(model)
    pattern = re.compile(re.escape(name) + r"\.(pretrain\.)?(\d{3,})\.index")
    found: dict[int, set[bool]] = {}
    for entry in entries_of_folder(folder):
        if (match := pattern.fullmatch(entry)) and match[2] == f"{int(match[2]):03d}":
            found.setdefault(int(match[2]), set()).add(bool(match[1]))
    return {
        epoch: epoch_filename(
            model, epoch, is_pretrain=is_pretrain_epoch(epoch) if len(kinds) == 2 else kinds == {True}
        )
        for epoch, kinds in sorted(found.items())
    }


def check_readable(checkpoint: str) -> None:
    """
    Reads all of its files, whatever is in them.

    :raises UnreadableError: if that is not possible
    """
    for filename in checkpoint_files(checkpoint):
        try:
            with open(filename, "rb") as file:
                while file.read(_BLOCK_BYTES):
                    pass
        except FileNotFoundError:
            continue  # deleted meanwhile
        except OSError as exc:
            exc.filename = exc.filename or filename  # a read that fails has none
            raise UnreadableError(f"checkpoint {checkpoint!r}", exc) from exc


def entries_of_folder(folder: str) -> list[str]:
    """
    :return: names; none if there is no such folder
    :raises UnreadableError: if it cannot be read, which does not mean that it is empty
    """
    try:
        return os.listdir(folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise UnreadableError(f"folder {folder!r}", exc) from exc


def sync(path: str | Path) -> None:
    """Waits until the content of a file, or the names of the files in a folder, are on the disk."""
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
