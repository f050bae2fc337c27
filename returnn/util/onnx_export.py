"""Whether a model is being exported to ONNX, which cannot represent all numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_LARGEST = 3.4028234663852886e38  # float32
_is_exporting = [False]


@contextmanager
def onnx_export() -> Iterator[None]:
    """In it, a model is being exported."""
    _is_exporting.append(True)
    try:
        yield
    finally:
        _is_exporting.pop()


def is_onnx_export_global() -> bool:
    """:return: whether a model is being exported"""
    return _is_exporting[-1]


def get_global_inf_value() -> float:
    """:return: infinity; during an export the largest float32, as runtimes make NaN of 0 times infinity"""
    return _LARGEST if is_onnx_export_global() else float("inf")
