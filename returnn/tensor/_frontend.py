"""
The way from tensors up to the operations on them.

`Tensor` and `Dim` offer operators, masks and layout changes, which are operations of `returnn.frontend`, a floor above.
So the frontend registers itself here when it is imported, and nothing in this package imports it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

_frontend: ModuleType | None = None


def register_frontend(module: ModuleType) -> None:
    """Called once by `returnn.frontend`, with itself."""
    global _frontend
    _frontend = module


def frontend() -> Any:
    """
    :return: the module `returnn.frontend`
    :raises RuntimeError: if it was not imported yet
    """
    if _frontend is None:
        raise RuntimeError("Operations on tensors need the frontend: `import returnn.frontend` first.")
    return _frontend


def backend_of_raw(raw_tensor: Any) -> Any:
    """:return: the `Backend` class for this raw tensor"""
    return frontend().get_backend_by_raw_tensor_type(type(raw_tensor))
