"""
How RASR, in a process of its own, hands its data to `ExternSprintDataset`: pickled messages through a pipe.

The child sends `Init`, waits for `GO` from the other pipe, and sends `Data` for each sequence, then `End`. A child
which dies sends no `End`.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, TypeAlias

import numpy
import numpy.typing

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


def send(message: object, pipe: IO[bytes]) -> None:
    """
    :raises BrokenPipeError: if nobody reads any more
    """
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(struct.pack("<Q", len(content)) + content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> object:
    """:return: message; None at the end of the pipe, also in the middle of a message"""
    head = pipe.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("<Q", head)
    content = pipe.read(size)
    message: object = pickle.loads(content) if len(content) == size else None
    return message


def format_options(**options: object) -> str:
    """:return: for the command line: `key:value,key:value`"""
    return ",".join(f"{key}:{value}" for key, value in options.items() if value is not None)


def parse_options(text: str) -> dict[str, str]:
    """The reverse of `format_options`."""
    return dict(option.split(":", 1) for option in text.split(",") if option)
