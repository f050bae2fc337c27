"""
How RASR, in a process of its own, hands its data to `ExternSprintDataset`: pickled messages through a pipe.

The child sends `Init`, waits for `GO` from the other pipe, and sends `Data` for each sequence, then `End`. A child
which dies sends no `End`.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import IO, Any, TypeAlias

import numpy
import numpy.typing

from returnn.util.files.restricted_pickle import load_plain_pickle

GO = b"go"
Array: TypeAlias = numpy.typing.NDArray[Any]


@dataclass(frozen=True)
class Init:
    """The first message."""

    input_dim: int
    output_dim: int  # 0: there are no labels
    num_segments: int | None  # None: not known


@dataclass(frozen=True)
class Data:
    """A sequence."""

    segment_name: str
    features: Array  # (dim, frames)
    targets: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class End:
    """There are no more sequences."""


_MESSAGES: dict[str, type[Init | Data | End]] = {cls.__name__: cls for cls in (Init, Data, End)}


def send(message: Any, pipe: IO[bytes]) -> None:
    """
    :param message: one of the above; or plain values, as questions and answers are
    :param pipe: to the other process
    :raises BrokenPipeError: if nobody reads any more
    """
    name, values = None, message
    if isinstance(message, Init | Data | End):  # as plain values, so that no code is run to read them
        name = type(message).__name__
        values = {field.name: getattr(message, field.name) for field in fields(message)}
    content = pickle.dumps((name, values), protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(struct.pack("<Q", len(content)) + content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """:return: message; None at the end of the pipe, also in the middle of a message"""
    head = pipe.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("<Q", head)
    content = pipe.read(size)
    if len(content) < size:
        return None
    name, values = load_plain_pickle(content, where="message of RASR")
    return values if name is None else _MESSAGES[name](**values)


def format_options(**options: object) -> str:
    """:return: for the command line: `key:value,key:value`"""
    return ",".join(f"{key}:{value}" for key, value in options.items() if value is not None)


def parse_options(text: str) -> dict[str, str]:
    """The reverse of `format_options`."""
    return dict(option.split(":", 1) for option in text.split(",") if option)
