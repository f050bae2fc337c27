"""
The reference that all backends are compared with: each operation in the simplest way, for one tensor in memory.

It shares nothing with the backends but the rules about dims, random values and functions of single numbers. Where those
reshape and transpose to do a product as one matrix product, this one writes `einsum`; where those compute with masks,
this one masks first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy

from returnn.frontend import _backend
from returnn.frontend._backend import register_backend, register_backend_by_tensor_type
from returnn.frontend._backends.numpy import NumpyBackend
from tests.frontend.reference.conv import ConvReferenceOps
from tests.frontend.reference.core import CoreReferenceOps
from tests.frontend.reference.ctc import CtcReferenceOps
from tests.frontend.reference.numeric import NumericReferenceOps
from tests.frontend.reference.rec import RecReferenceOps
from tests.frontend.reference.select import SelectReferenceOps
from tests.frontend.reference.shape import ShapeReferenceOps
from tests.frontend.reference.softmax import SoftmaxReferenceOps


class ReferenceBackend(
    CoreReferenceOps,
    SoftmaxReferenceOps,
    RecReferenceOps,
    CtcReferenceOps,
    ConvReferenceOps,
    ShapeReferenceOps,
    SelectReferenceOps,
    NumericReferenceOps,
    NumpyBackend,
):
    """See the head of this module."""


@contextlib.contextmanager
def compute_by_reference() -> Iterator[None]:
    """Computes with arrays by the reference, in place of the numpy backend."""
    types = [t for t, backend in _backend._backends_by_tensor_type.items() if backend is NumpyBackend]
    try:
        _register(ReferenceBackend, types)
        yield
    finally:
        _register(NumpyBackend, types)


def _register(backend: type[NumpyBackend], types: list[type]) -> None:
    register_backend(backend)
    for tensor_type in (numpy.ndarray, numpy.generic, *types):
        register_backend_by_tensor_type(tensor_type, backend)
