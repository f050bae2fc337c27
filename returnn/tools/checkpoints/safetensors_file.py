"""
Files of the format safetensors, without the package of that name.

8 bytes with the length of the header (little endian), the header as JSON: name -> `dtype`, `shape`, `data_offsets`, and
`__metadata__`, a dict of texts; then the arrays, one behind the other, row by row, little endian.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

from returnn.util.errors import UserError
from returnn.util.python.optional_import import import_optional

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
_NAMES = {name: code for code, name in _DTYPES.items()}
_ALIGNMENT = 8


def safetensors_bytes(values: Mapping[str, numpy.ndarray], metadata: Mapping[str, str]) -> bytes:
    """
    :param values: by name
    :param metadata: texts
    :return: content of a file
    :raises UserError: if the format has no such arrays
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts, position = [], 0
    # Large types first, so that all are aligned.
    for name, value in sorted(values.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        if value.dtype.name not in _NAMES:
            raise UserError(f"{name!r} is of {value.dtype}, which the format safetensors does not have.")
        data = numpy.ascontiguousarray(_little_endian(value)).tobytes()
        header[name] = {
            "dtype": _NAMES[value.dtype.name],
            "shape": list(value.shape),
            "data_offsets": [position, position + len(data)],
        }
        parts.append(data)
        position += len(data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf8")
    text += b" " * (-len(text) % _ALIGNMENT)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_safetensors(filename: str) -> tuple[dict[str, numpy.ndarray], dict[str, str]]:
    """
    :return: arrays by name; metadata
    :raises UserError: if it is no such file, or damaged
    """
    content = Path(filename).read_bytes()
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        metadata = header.pop("__metadata__", {})
        values = {name: _array(content, start, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise UserError(f"checkpoint {filename!r}: the file is damaged: {exc}") from exc
    return values, metadata


def _array(content: bytes, start: int, entry: Mapping[str, Any]) -> numpy.ndarray:
    begin, end = entry["data_offsets"]
    data = content[start + begin : start + end]
    if len(data) != end - begin:
        raise ValueError("it is truncated")
    name = _DTYPES[entry["dtype"]]
    if name == "bfloat16":
        dtype = numpy.dtype(import_optional("ml_dtypes", needed_for="arrays of bfloat16").bfloat16)
    else:
        dtype = numpy.dtype(name).newbyteorder("<")
    array = numpy.frombuffer(data, dtype).reshape(entry["shape"])
    return array if name == "bfloat16" else array.astype(name)


def _little_endian(value: numpy.ndarray) -> numpy.ndarray:
    if value.dtype.name == "bfloat16":
        return value
    is_big = value.dtype.byteorder == ">" or (value.dtype.byteorder == "=" and sys.byteorder == "big")
    return value.astype(value.dtype.newbyteorder("<")) if is_big else value
