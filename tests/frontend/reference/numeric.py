"""Sums along an axis, complex numbers, tests for special values."""

from __future__ import annotations

from typing import Any

import numpy

from returnn.frontend._backends.template import TemplateBackend
from returnn.tensor import Dim, Tensor
from tests.frontend.reference.labeled import aligned, as_tensor


class NumericReferenceOps:
    """For the meaning of the operations see `returnn.frontend._ops`."""

    @staticmethod
    def cumsum(source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """:return: sums"""
        out = TemplateBackend.cumsum(source, spatial_dim=spatial_dim)
        axis = source.get_axis_from_description(spatial_dim)
        out.raw_tensor = numpy.cumsum(source.raw_tensor, axis=axis, dtype=out.dtype)
        return out

    @staticmethod
    def is_finite(x: Tensor) -> Tensor:
        """:return: test"""
        out = TemplateBackend.is_finite(x)
        out.raw_tensor = numpy.asarray(numpy.isfinite(x.raw_tensor))
        return out

    @staticmethod
    def is_infinite(x: Tensor) -> Tensor:
        """:return: test"""
        out = TemplateBackend.is_infinite(x)
        out.raw_tensor = numpy.asarray(numpy.isinf(x.raw_tensor))
        return out

    @staticmethod
    def is_neg_infinite(x: Tensor) -> Tensor:
        """:return: test"""
        out = TemplateBackend.is_neg_infinite(x)
        out.raw_tensor = numpy.asarray(numpy.isneginf(x.raw_tensor))
        return out

    @staticmethod
    def lerp(start: Tensor, end: Tensor, weight: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """:return: interpolation"""
        weight = as_tensor(weight, like=start)
        out = TemplateBackend.lerp(start, end, weight, allow_broadcast_all_sources=allow_broadcast_all_sources)
        a, b, w = (aligned(x, out.dims) for x in (start, end, weight))
        out.raw_tensor = numpy.asarray(a + w * (b - a), dtype=out.dtype)
        return out

    @staticmethod
    def make_complex(real: Tensor, imag: Tensor) -> Tensor:
        """:return: complex numbers"""
        out = TemplateBackend.make_complex(real, imag)
        out.raw_tensor = (aligned(real, out.dims) + 1j * aligned(imag, out.dims)).astype(out.dtype)
        return out

    @staticmethod
    def complex_as_real(x: Tensor, *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
        """:return: both parts, out dim"""
        out, out_dim = TemplateBackend.complex_as_real(x, out_dim=out_dim)
        out.raw_tensor = numpy.stack([x.raw_tensor.real, x.raw_tensor.imag], axis=-1)
        return out, out_dim

    @staticmethod
    def real_as_complex(x: Tensor, *, pair_dim: Dim) -> Tensor:
        """:return: complex numbers"""
        out = TemplateBackend.real_as_complex(x, pair_dim=pair_dim)
        array = aligned(x, [*out.dims, pair_dim])
        out.raw_tensor = (array[..., 0] + 1j * array[..., 1]).astype(out.dtype)
        return out
