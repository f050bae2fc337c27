"""
Backends: who computes.

An operation of the frontend decides nothing about a backend; it asks the one that its tensors belong to. There are:

- `template`: no values. Operations end with their rule for dims.
- `numpy`: simple and complete; the reference that the others are tested against.
- `tf`: raw TensorFlow tensors in a graph. `torch`: PyTorch, eager.
- `returnn_layers_tf`: layers of a net dict. Operations are recorded.

An operation is written once, in `_ops`: its rule for dims, then how it is computed. Backends differ in the operations
on raw tensors, and override what they do better.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from returnn.frontend._ops.complex_numbers import ComplexOps
from returnn.frontend._ops.control_flow.assertion import AssertionOps
from returnn.frontend._ops.control_flow.tensor_array import TensorArrayOps
from returnn.frontend._ops.cum_concat import CumConcatOps
from returnn.frontend._ops.gradient import GradientOps
from returnn.frontend._ops.masked import MaskedOps
from returnn.frontend._ops.nn.attention import AttentionOps
from returnn.frontend._ops.nn.conv import ConvOps
from returnn.frontend._ops.nn.ctc import CtcOps
from returnn.frontend._ops.nn.normalization import NormalizationOps
from returnn.frontend._ops.nn.rec import RecOps
from returnn.frontend._ops.nn.signal import SignalOps
from returnn.frontend._ops.order import OrderOps
from returnn.frontend._ops.parameter import ParameterOps
from returnn.frontend._ops.random import RandomOps
from returnn.frontend._ops.scatter import ScatterOps
from returnn.tensor import Tensor
from returnn.util.errors import ConfigError, check_known

T = TypeVar("T")
T2 = TypeVar("T2")

__all__ = [
    "Backend",
    "backend_ctx",
    "get_backend_by_name",
    "get_backend_by_raw_tensor_type",
    "get_backend_by_tensor",
    "get_backend_of",
    "get_global_backend",
    "get_selected_backend",
    "global_backend",
    "is_executing_eagerly",
    "register_backend",
    "register_backend_by_tensor_type",
    "select_backend",
    "select_backend_jax",
    "select_backend_numpy",
    "select_backend_returnn_layers_tf",
    "select_backend_tf",
    "select_backend_torch",
]


class Backend(
    AttentionOps,
    NormalizationOps,
    SignalOps,
    ConvOps,
    CtcOps,
    RecOps,
    OrderOps,
    ScatterOps,
    CumConcatOps,
    MaskedOps,
    ComplexOps,
    RandomOps,
    GradientOps,
    ParameterOps,
    TensorArrayOps,
    AssertionOps,
    Generic[T],
):
    """
    All operations on raw tensors of type T. It has no state; all functions are static or class methods.

    The operations are in `returnn.frontend._ops`, by concept. What they need of a backend is declared in
    `returnn.frontend._backends.required`; a backend can override what it does better.
    """


_MODULES = {  # a backend registers itself when its module is imported
    "template": "returnn.frontend._backends.template",
    "numpy": "returnn.frontend._backends.numpy",
    "tf": "returnn.tf.frontend_low_level",
    "torch": "returnn.torch.frontend",
    "returnn_layers_tf": "returnn.tf.frontend_layers._backend",
}
_BACKEND_OF_PACKAGE = {"numpy": "numpy", "tensorflow": "tf", "torch": "torch"}

_backends_by_name: dict[str, type[Backend[Any]]] = {}
_backends_by_tensor_type: dict[type, type[Backend[Any]]] = {}
_selected: list[str] = []  # the last one counts


def select_backend(name: str) -> None:
    """
    Sets the backend for operations that make values from nothing, such as constants and parameters.

    :param name: "torch", "tf", "numpy", "returnn_layers_tf"
    :raises ConfigError: if there is no such backend
    """
    get_backend_by_name(name)
    _selected[:] = [name]


def select_backend_numpy() -> None:
    """Selects numpy."""
    select_backend("numpy")


def select_backend_tf() -> None:
    """Selects raw TensorFlow tensors in a graph."""
    select_backend("tf")


def select_backend_torch() -> None:
    """Selects PyTorch."""
    select_backend("torch")


def select_backend_returnn_layers_tf() -> None:
    """Selects layers of a net dict, which operations are recorded as."""
    select_backend("returnn_layers_tf")


def select_backend_jax() -> None:
    """:raises ConfigError: always: there is no backend for JAX"""
    raise ConfigError(
        "select_backend_jax: there is no backend for JAX.\n  Possible: select_backend_torch, select_backend_tf,"
        " select_backend_numpy."
    )


@contextlib.contextmanager
def backend_ctx(name: str) -> Iterator[None]:
    """Selects a backend inside of the `with` block. With "template", nothing in there makes values."""
    get_backend_by_name(name)
    _selected.append(name)
    try:
        yield
    finally:
        _selected.pop()


def get_selected_backend() -> str | None:
    """:return: name of the selected backend, None if there is none yet"""
    return _selected[-1] if _selected else None


def get_global_backend() -> type[Backend[Any]]:
    """:return: the selected backend; numpy if none was selected"""
    return get_backend_by_name(_selected[-1] if _selected else "numpy")


class _GlobalBackend:
    """Stands for the selected backend, whichever that is when one of its methods is called."""

    def __getattr__(self, name: str) -> Any:
        return getattr(get_global_backend(), name)

    def __repr__(self) -> str:
        return f"<global backend: {get_global_backend().name}>"


global_backend = _GlobalBackend()


def is_executing_eagerly() -> bool:
    """:return: whether the selected backend computes at once, rather than making a graph"""
    return get_global_backend().executing_eagerly()


def register_backend(backend: type[Backend[Any]]) -> None:
    """Makes a backend known under its name. Called by its module."""
    assert backend.name
    _backends_by_name[backend.name] = backend


def register_backend_by_tensor_type(tensor_type: type[T], backend: type[Backend[T]]) -> None:
    """Makes a backend responsible for raw tensors of this type, and of derived types."""
    _backends_by_tensor_type[tensor_type] = backend


def get_backend_by_raw_tensor_type(tensor_type: type[T]) -> type[Backend[T]]:
    """
    :return: the backend for raw tensors of this type
    :raises TypeError: if there is none
    """
    known = _backends_by_tensor_type.get(tensor_type)
    if known is not None:
        return known
    for base in tensor_type.__mro__:
        package = base.__module__.split(".")[0]
        if base not in _backends_by_tensor_type and package in _BACKEND_OF_PACKAGE:
            get_backend_by_name(_BACKEND_OF_PACKAGE[package])
        if base in _backends_by_tensor_type:
            _backends_by_tensor_type[tensor_type] = _backends_by_tensor_type[base]
            return _backends_by_tensor_type[base]
    raise TypeError(f"no backend knows raw tensors of type {tensor_type.__module__}.{tensor_type.__qualname__}")


def get_backend_by_tensor(tensor: Tensor, *, fallback: Any = None) -> Any:
    """
    :param tensor: if it is a template, the template backend is responsible
    :param fallback: to return for a template instead
    """
    if tensor._raw_tensor is None:
        return get_backend_by_name("template") if fallback is None else fallback
    return get_backend_by_raw_tensor_type(type(tensor._raw_tensor))


def get_backend_of(*values: Any) -> type[Backend[Any]]:
    """
    :param values: operands: tensors, or anything else, which does not count
    :return: the backend that computes with them: the template backend if one of the tensors has no value, otherwise
        the one with the highest priority; without tensors, the selected one
    """
    backend: type[Backend[Any]] | None = None
    for value in values:
        if isinstance(value, Tensor):
            raw = value._raw_tensor
            if raw is None:
                return get_backend_by_name("template")
            other = _backends_by_tensor_type.get(type(raw)) or get_backend_by_raw_tensor_type(type(raw))
            if other is not backend and (backend is None or other.dispatch_priority > backend.dispatch_priority):
                backend = other
    return get_global_backend() if backend is None else backend


def get_backend_by_name(name: str) -> type[Backend[Any]]:
    """
    :param name: as for `select_backend`, or "template"
    :return: the backend, which need not be selected
    :raises ConfigError: if there is no such backend
    """
    if name not in _backends_by_name:
        check_known("backend", name, _MODULES, where="select_backend")
        importlib.import_module(_MODULES[name])
    return _backends_by_name[name]
