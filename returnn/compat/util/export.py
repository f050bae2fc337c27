"""Whether a model is being exported to ONNX, which cannot represent all numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_LARGEST = 3.4028234663852886e38  # float32
_is_exporting = False


@contextmanager
def onnx_export() -> Iterator[None]:
    """In it, a model is being exported."""
    global _is_exporting
    before, _is_exporting = _is_exporting, True
    try:
        yield
    finally:
        _is_exporting = before


def is_onnx_export_global() -> bool:
    """:return: whether a model is being exported"""
    return _is_exporting


def get_global_inf_value() -> float:
    """:return: infinity; during an export the largest float32, as runtimes make NaN of 0 times infinity"""
    return _LARGEST if _is_exporting else float("inf")
