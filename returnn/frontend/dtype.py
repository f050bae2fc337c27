"""Default dtypes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_default_float_dtype = "float32"


def get_default_float_dtype() -> str:
    """:return: dtype of floats where none is given, "float32" at first"""
    return _default_float_dtype


def set_default_float_dtype(dtype: str) -> None:
    """Sets the dtype of floats where none is given."""
    global _default_float_dtype
    _default_float_dtype = dtype


@contextlib.contextmanager
def set_default_float_dtype_ctx(dtype: str) -> Iterator[None]:
    """Sets the dtype of floats where none is given, inside of the `with` block."""
    before = get_default_float_dtype()
    set_default_float_dtype(dtype)
    try:
        yield
    finally:
        set_default_float_dtype(before)


def get_default_int_dtype() -> str:
    """:return: dtype of integers where none is given"""
    return "int32"


def get_default_array_index_dtype() -> str:
    """:return: dtype of indices into dims, and of lengths"""
    return "int32"


def is_float_dtype(dtype: str) -> bool:
    """:return: whether it is a float, such as "float32" or "bfloat16" """
    return dtype.startswith(("float", "bfloat"))
