"""
Curves of event files, as TensorBoard shows them, read without TensorBoard and without TensorFlow.

Such a file is a sequence of records: length (8 bytes, little endian), checksum (4), content, checksum (4). The content
is a protobuf message `Event`, with the fields 1 wall time, 2 step, 5 summary, 7 session log. Field 1 of a summary is a
list of values, with the fields 1 tag, 2 number, 8 tensor. A file that is being written ends within a record.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_RECORD_BYTES = 64 * 1024**2
_DTYPES = {1: "f", 2: "d", 3: "i", 9: "q"}  # of `TensorProto`, as `struct` names them
_FIELDS_OF_DTYPES = {1: 5, 2: 6}  # where a tensor has its numbers, if not in `tensor_content`
_START = 1  # of `SessionLog.status`


@dataclass
class EventFile:
    """One file, read so far."""

    filename: str
    scalars: dict[str, dict[int, float]] = field(default_factory=dict)  # by tag, by step
    problem: str = ""
    first_restart: int | None = None  # step from which on files before this one do not count
    _position: int = 0

    def update(self) -> None:
        """
        Reads what has come since.

        :raises OSError: if it cannot be read
        """
        if self.problem:
            return
        if os.path.getsize(self.filename) < self._position:  # another file of the same name
            self.scalars, self._position = {}, 0
        with open(self.filename, "rb") as file:
            file.seek(self._position)
            while (record := self._next_record(file.read(12), file.read)) is not None:
                try:
                    self._add(record)
                except (ValueError, IndexError, struct.error) as exc:
                    self.problem = f"{self.filename}: no events from byte {self._position} on: {exc}"
                    return
                self._position = file.tell()

    def _next_record(self, head: bytes, read: object) -> bytes | None:
        """:return: None if it is not all there yet"""
        if len(head) < 12:
            return None
        (length,) = struct.unpack("<Q", head[:8])
        if length > _MAX_RECORD_BYTES:
            self.problem = f"{self.filename}: this is no event file, from byte {self._position} on"
            return None
        content: bytes = read(length + 4)  # type: ignore[operator]
        return content[:length] if len(content) == length + 4 else None

    def _add(self, record: bytes) -> None:
        step, summaries, has_restarted = 0, [], False
        for number, value in _fields(record):
            if number == 2 and isinstance(value, int):
                step = value
            elif number == 5 and isinstance(value, bytes):
                summaries.append(value)
            elif number == 7 and isinstance(value, bytes):
                has_restarted = (1, _START) in _fields(value)
        if has_restarted:
            self.first_restart = step if self.first_restart is None else min(step, self.first_restart)
            for points in self.scalars.values():
                for later in [other for other in points if other >= step]:
                    del points[later]
        for summary in summaries:
            for number, value in _fields(summary):
                if number == 1 and isinstance(value, bytes):
                    self._add_value(step, value)

    def _add_value(self, step: int, value: bytes) -> None:
        tag, scalar = "", None
        for number, content in _fields(value):
            if number == 1 and isinstance(content, bytes):
                tag = content.decode("utf8", errors="replace")
            elif number == 2 and isinstance(content, bytes):
                (scalar,) = struct.unpack("<f", content)
            elif number == 8 and isinstance(content, bytes):
                scalar = _scalar_of_tensor(content)
        if scalar is not None:
            self.scalars.setdefault(tag, {})[step] = scalar


def joined_scalars(files: list[EventFile]) -> dict[str, dict[int, float]]:
    """
    :param files: of one folder, in the order in which they were written
    :return: by tag, by step. Steps that a later file had again are those of that
    """
    joined: dict[str, dict[int, float]] = {}
    for file in files:
        for points in joined.values() if file.first_restart is not None else ():
            for step in [step for step in points if step >= (file.first_restart or 0)]:
                del points[step]
        for tag, points in file.scalars.items():
            joined.setdefault(tag, {}).update(points)
    return joined


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """:raises ValueError: if it is no message of protobuf"""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if kind == _BYTES:
            length, position = _varint(message, position)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"there is no kind {kind} of fields")
        if position + length > len(message):
            raise ValueError("a field is longer than the record")
        yield number, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """:return: value, position behind it"""
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if not byte & 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def _scalar_of_tensor(message: bytes) -> float | None:
    """:return: None if it is no number"""
    fields = dict(_fields(message))
    dtype = fields.get(1)
    code = _DTYPES.get(dtype) if isinstance(dtype, int) else None
    if code is None:
        return None
    content = fields.get(4) or fields.get(_FIELDS_OF_DTYPES.get(dtype, 0))  # type: ignore[arg-type]
    if not isinstance(content, bytes) or len(content) != struct.calcsize(code):
        return None
    return float(struct.unpack(f"<{code}", content)[0])
