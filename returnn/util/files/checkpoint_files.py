"""
Checkpoints of a training, in whatever format: their names, what can be wrong with them, and which is the newest.

A checkpoint has a name without suffix, such as "net-model/network.012", and one or several files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from returnn.util.errors import UserError
from returnn.util.texts.counted import counted

_BLOCK_BYTES = 1 << 24
_MOST_NAMES = 5  # in messages
_HINT_FOR_NAMES = "\n  For a net dict, parameters of a model in Python need other names, too: --rename '\\.' '/'"
_FORMATS = {".index": "TensorFlow", ".pt": "PyTorch", ".safetensors": "safetensors", ".npz": "numpy"}


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


def missing_checkpoint_error(
    checkpoint: str, have: Collection[str], *, backend: str, suffixes: Sequence[str]
) -> CheckpointError:
    """
    :param checkpoint: name that has no file of the backend
    :param have: checkpoints of its folder that the backend can load
    :param backend: that would load it, for people
    :param suffixes: of its files
    :return: what there is in place of it: the same in another format, or others
    """
    others = [suffix for suffix in _FORMATS if suffix not in suffixes]
    for filename in (checkpoint, *(f"{checkpoint}{suffix}" for suffix in others)):
        kind = _FORMATS.get(os.path.splitext(filename)[1])
        if filename.endswith(tuple(others)) and os.path.isfile(filename):
            source = filename.removesuffix(".index")
            return CheckpointError(
                f"checkpoint {checkpoint!r}: {filename!r} has the format of {kind}, which {backend} does not load.\n"
                f"  To convert it: returnn tool convert-checkpoint {source} NAME{suffixes[0].removesuffix('.index')}"
                f"{_HINT_FOR_NAMES if '.index' in suffixes else ''}"
            )
    folder = os.path.dirname(checkpoint) or "."
    where = some_checkpoints(have) if os.path.isdir(folder) else "does not exist"
    return CheckpointError(f"checkpoint {checkpoint!r} does not exist.\n  The folder {folder!r} {where}.")


def some_checkpoints(names: Collection[str]) -> str:
    """:return: that a folder has these, of which the last ones are named: "has net.001, net.002" """
    if not names:
        return "has no checkpoint"
    num_others = max(len(names) - _MOST_NAMES, 0)
    others = f" and {counted(num_others, 'other')}" if num_others else ""
    return f"has {', '.join(sorted(names)[-_MOST_NAMES:])}{others}"


def epoch_filename(model: str, epoch: int, *, is_pretrain: bool = False) -> str:
    """
    :param model: option `model`, e.g. "net-model/network"
    :return: name of the checkpoint without suffix, e.g. "net-model/network.pretrain.012"
    """
    return f"{model}.pretrain.{epoch:03d}" if is_pretrain else f"{model}.{epoch:03d}"


def broken_filename(checkpoint: str) -> str:
    """:return: for the parameters after an epoch whose loss is not finite, e.g. "network.012.broken" """
    return f"{checkpoint}.broken"


def existing_checkpoints_with_suffix(
    model: str, suffix: str, *, is_pretrain_epoch: Callable[[int], bool] = lambda epoch: False
) -> dict[int, str]:
    """
    :param model: option `model`
    :param suffix: of the file by which a checkpoint exists
    :param is_pretrain_epoch: if an epoch has both kinds of checkpoint, this says which one counts
    :return: epoch -> name without suffix, in the order of the epochs
    """
    folder, name = os.path.split(model)
    pattern = re.compile(re.escape(name) + r"\.(pretrain\.)?(\d{3,})" + re.escape(suffix))
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


def unfinished_filename(checkpoint: str) -> str:
    """:return: for what was saved inside of an epoch, e.g. "network.012.unfinished" """
    return f"{checkpoint}.unfinished"


def unfinished_checkpoints_with_suffix(model: str, suffix: str) -> dict[int, str]:
    """
    :param model: option `model`
    :param suffix: of the file by which a checkpoint exists
    :return: epoch -> name without suffix, of what was saved inside of epochs
    """
    folder, name = os.path.split(model)
    pattern = re.compile(re.escape(name) + r"\.((pretrain\.)?(\d{3,})\.unfinished)" + re.escape(suffix))
    found = [match for entry in entries_of_folder(folder) if (match := pattern.fullmatch(entry))]
    return {int(match[3]): f"{model}.{match[1]}" for match in sorted(found, key=lambda match: int(match[3]))}


def unfinished_part_filename(checkpoint: str, step: int, rank: int) -> str:
    """:return: for what another process adds, e.g. "network.012.unfinished.step400.worker3" """
    return f"{checkpoint}.step{step}.worker{rank}"


def unfinished_parts_with_suffix(model: str, suffix: str) -> dict[str, int]:
    """
    :param model: option `model`
    :param suffix: of the file by which a part exists
    :return: name without suffix -> epoch, of what other processes have added
    """
    folder, name = os.path.split(model)
    number = re.escape(name) + r"\.((pretrain\.)?(\d{3,})\.unfinished\.step\d+\.worker\d+)"
    found = [re.fullmatch(number + re.escape(suffix), entry) for entry in entries_of_folder(folder)]
    return {f"{model}.{match[1]}": int(match[3]) for match in found if match}


def delete_files(checkpoint: str, files: Sequence[str]) -> int:
    """
    :param checkpoint: name without suffix
    :param files: all of its files, in the order in which they are deleted
    :return: bytes that are free now
    :raises CheckpointError: if there are none, or if one cannot be deleted
    """
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


def check_files_readable(checkpoint: str, files: Sequence[str]) -> None:
    """
    Reads all of the files, whatever is in them.

    :raises UnreadableError: if that is not possible
    """
    for filename in files:
        try:
            with open(filename, "rb") as file:
                while file.read(_BLOCK_BYTES):
                    pass
        except OSError as exc:
            if isinstance(exc, FileNotFoundError) and not os.path.islink(filename):
                continue  # deleted meanwhile; but a link can lead to a disk that is not mounted
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


@dataclass(frozen=True)
class Damage:
    """A checkpoint that cannot be used, and why, as a sentence that names both."""

    checkpoint: str
    reason: str


@dataclass(frozen=True)
class NewestIntact:
    """:param epoch: None if no checkpoint is intact"""

    epoch: int | None
    checkpoint: str | None
    skipped: tuple[Damage, ...]  # newer ones, the newest first


def newest_intact(checkpoints: Mapping[int, str], verify: Callable[[str], None]) -> NewestIntact:
    """
    :param checkpoints: epoch -> name without suffix
    :param verify: reads all of a checkpoint, and raises a CheckpointError if it is damaged
    :raises UnreadableError: if it is not known whether a newer one is intact
    """
    skipped: list[Damage] = []
    for epoch in sorted(checkpoints, reverse=True):
        damage = _damage_of(checkpoints[epoch], verify)
        if damage is None:
            return NewestIntact(epoch, checkpoints[epoch], tuple(skipped))
        skipped.append(damage)
    return NewestIntact(None, None, tuple(skipped))


def _damage_of(checkpoint: str, verify: Callable[[str], None]) -> Damage | None:
    """:return: None if it is intact. What was read wrongly once, as from a network, is read again"""
    for is_last_try in (False, True):
        try:
            verify(checkpoint)
        except UnreadableError:
            raise
        except CheckpointError as exc:
            if is_last_try:
                return Damage(checkpoint, str(exc))
        else:
            break
    return None
