"""Pickled objects in pipes and files, each with its length before it."""

from __future__ import annotations

import pickle
import struct
from io import BytesIO
from typing import IO, Any

_LENGTH = struct.Struct("<i")


def serialize_object(obj: Any) -> bytes:
    """:return: the object, pickled"""
    return pickle.dumps(obj)


def deserialize_object(data: bytes) -> Any:
    """:return: the object which `serialize_object` got"""
    return pickle.loads(data)


def write_pickled_object(p: IO[bytes], obj: Any) -> None:
    """Writes an object that `read_pickled_object` can read at the other end."""
    data = serialize_object(obj)
    p.write(_LENGTH.pack(len(data)) + data)
    p.flush()


def read_pickled_object(p: IO[bytes]) -> Any:
    """
    :return: the next object
    :raises EOFError: if the other end stopped before it was complete
    """
    (length,) = _LENGTH.unpack(read_bytes_to_new_buffer(p, _LENGTH.size).getvalue())
    return deserialize_object(read_bytes_to_new_buffer(p, length).getvalue())


def read_bytes_to_new_buffer(p: IO[bytes], size: int) -> BytesIO:
    """
    :param p: a pipe or file
    :param size: how many bytes
    :return: all of them
    :raises EOFError: if there are less
    """
    buffer = BytesIO()
    while buffer.tell() < size:
        data = p.read(size - buffer.tell())
        if not data:
            raise EOFError(f"expected {size} bytes, got {buffer.tell()}")
        buffer.write(data)
    buffer.seek(0)
    return buffer
