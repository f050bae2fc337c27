"""
The learning rate file: a Python expression, a dict from epoch to `EpochData(learningRate=..., error={...})`.

Scores and errors of an epoch are under keys such as "dev_score", "dev_error", "train_loss_ce", see
`returnn.engine.score_names`. Facts about the epoch that are no scores (duration, device, ...) are stored among them,
under keys with the prefix ":meta:".
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Mapping
from typing import Any

from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.files.literal import literal_eval
from returnn.util.texts.better_repr import better_repr

_META_PREFIX = ":meta:"
_AS_ERROR_KEY = "as_error"  # of `EpochData.meta`


class EpochData:
    """What is known about one epoch."""

    def __init__(
        self,
        *,
        learning_rate: float | None = None,
        learningRate: float | None = None,
        error: Mapping[str, Any] | float | None = None,
        meta: Mapping[str, Any] | None = None,
    ):
        """
        :param learning_rate: None if it is not decided yet
        :param learningRate: the same, as it is named in the file
        :param error: scores and errors; very old files have a single number
        :param meta: other facts
        """
        self.learning_rate = learningRate if learning_rate is None else learning_rate
        if isinstance(error, (int, float)):
            error = {"old_format_score": error}
        self.error: dict[str, Any] = {}
        self.meta: dict[str, Any] = dict(meta or {})
        for key, value in (error or {}).items():
            if key.startswith(_META_PREFIX):
                self.meta[key.removeprefix(_META_PREFIX)] = value
            else:
                self.error[key] = value

    @property
    def as_error(self) -> list[str]:
        """Names of losses that are only errors, as far as it is known."""
        return list(self.meta.get(_AS_ERROR_KEY, ()))

    def note_errors(self, names: Collection[str]) -> None:
        """:param names: of losses that are only errors"""
        if names:
            self.meta[_AS_ERROR_KEY] = sorted({*self.as_error, *names})

    def __repr__(self) -> str:
        entries = {**{_META_PREFIX + key: value for key, value in self.meta.items()}, **self.error}
        return f"EpochData(learningRate={better_repr(self.learning_rate)}, error={better_repr(entries)})"


def is_learning_rate_file(filename: str | os.PathLike[str]) -> bool:
    """:return: whether it looks like one, and not like a config"""
    try:
        with open(filename, encoding="utf8") as file:
            return re.match(r"\s*\{\s*(\d+\s*:\s*EpochData\(|\}\s*$)", file.read(1000)) is not None
    except (OSError, UnicodeDecodeError):
        return False


def read_learning_rate_file(filename: str | os.PathLike[str]) -> dict[int, EpochData]:
    """
    :param filename: of the file
    :return: by epoch
    :raises UserError: if it is not such a file
    """
    try:
        with open(filename, encoding="utf8") as file:
            content = file.read()
        epochs = literal_eval(content, {"EpochData": EpochData})
        if not isinstance(epochs, dict) or not all(isinstance(data, EpochData) for data in epochs.values()):
            raise ValueError("there is no dict of EpochData")
        for epoch, data in epochs.items():
            _check_numbers(epoch, data)
    except OSError as exc:
        raise UserError(f"learning rate file {os.fspath(filename)!r} cannot be read: {exc.strerror}.") from exc
    except (ValueError, TypeError) as exc:
        raise UserError(
            f"learning rate file {os.fspath(filename)!r} cannot be read: {exc}.\n"
            "  Repair it, or delete it to forget the learning rates and scores of the epochs so far."
        ) from exc
    return {int(epoch): data for epoch, data in sorted(epochs.items())}


def check_writable(filename: str | os.PathLike[str]) -> None:
    """:raises UserError: if the learning rate file cannot be written, now and not after an epoch"""
    folder = os.path.dirname(os.path.realpath(filename))
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as exc:
        raise UserError(
            f"option 'learning_rate_file': {os.fspath(filename)!r} cannot be written: {exc.strerror}: {folder!r}."
        ) from exc


def _check_numbers(epoch: object, data: EpochData) -> None:
    if not isinstance(epoch, int):
        raise ValueError(f"{epoch!r} is no epoch")
    if data.learning_rate is not None and not isinstance(data.learning_rate, (int, float)):
        raise ValueError(f"the learning rate of epoch {epoch} is {data.learning_rate!r}, expected a number")


def write_learning_rate_file(filename: str | os.PathLike[str], epochs: Mapping[int, EpochData]) -> None:
    """
    Replaces the file as a whole.

    :param filename: of the file
    :param epochs: by epoch
    :raises UserError: if it cannot be written
    """
    write_atomic(filename, better_repr(dict(epochs)) + "\n")
