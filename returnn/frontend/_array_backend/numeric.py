"""Sums along an axis, complex numbers, tests for special values."""

from __future__ import annotations

from typing import Any

from returnn.frontend._array_backend.core import CoreArrayOps
from returnn.frontend._ops.layout import raw_for_broadcast, raw_in_order
from returnn.frontend._template_backend import TemplateBackend
from returnn.tensor import Dim, Tensor


class NumericArrayOps(CoreArrayOps):
    """For the meaning of the operations see `returnn.frontend._interface.numeric`."""

    @staticmethod
    def cumsum_raw(raw_tensor: Any, axis: int) -> Any:
        """:return: sums along the axis, in the same dtype"""
        raise NotImplementedError

    @staticmethod
    def test_raw(raw_tensor: Any, kind: str) -> Any:
        """:return: whether "finite", "infinite", "neg_infinite", elementwise"""
        raise NotImplementedError

    @staticmethod
    def make_complex_raw(real: Any, imag: Any) -> Any:
        """:return: complex numbers"""
        raise NotImplementedError

    @staticmethod
    def complex_as_real_raw(raw_tensor: Any) -> Any:
        """:return: real and imaginary part, along a new last axis"""
        raise NotImplementedError

    @staticmethod
    def real_as_complex_raw(raw_tensor: Any) -> Any:
        """:return: complex numbers from the last axis, of size 2"""
        raise NotImplementedError

    @staticmethod
    def of_all_processes_raw(raw_tensor: Any) -> Any:
        """:return: (P, ...), what each of P processes of a distributed training has; None if there is just one"""
        raise NotImplementedError

    @classmethod
    def reduce_distributed(cls, source: Tensor, *, mode: str) -> Tensor:
        """:return: reduction over all processes"""
        out = TemplateBackend.reduce_distributed(source, mode=mode)
        raw = cls.of_all_processes_raw(source._raw_tensor)
        out._raw_tensor = source._raw_tensor if raw is None else cls.reduce_raw(raw, mode, [0])
        return out

    @classmethod
    def cumsum(cls, source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """:return: sums"""
        out = TemplateBackend.cumsum(source, spatial_dim=spatial_dim)
        out._raw_tensor = cls.cumsum_raw(source._raw_tensor, source.get_axis_from_description(spatial_dim))
        return out

    @classmethod
    def is_finite(cls, x: Tensor) -> Tensor:
        """:return: test"""
        out = TemplateBackend.is_finite(x)
        out._raw_tensor = cls.test_raw(x._raw_tensor, "finite")
        return out

    @classmethod
    def is_infinite(cls, x: Tensor) -> Tensor:
        """:return: test"""
        out = TemplateBackend.is_infinite(x)
        out._raw_tensor = cls.test_raw(x._raw_tensor, "infinite")
        return out

    @classmethod
    def is_neg_infinite(cls, x: Tensor) -> Tensor:
        """:return: test"""
        out = TemplateBackend.is_neg_infinite(x)
        out._raw_tensor = cls.test_raw(x._raw_tensor, "neg_infinite")
        return out

    @classmethod
    def lerp(cls, start: Tensor, end: Tensor, weight: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """:return: interpolation"""
        start, end, weight = cls.as_tensor(start), cls.as_tensor(end), cls.as_tensor(weight, like=start)
        out = TemplateBackend.lerp(start, end, weight, allow_broadcast_all_sources=allow_broadcast_all_sources)
        a, b, w = (raw_for_broadcast(x, out.dims) for x in (start, end, weight))
        out._raw_tensor = cls.combine_raw(a, "add", cls.combine_raw(w, "mul", cls.combine_raw(b, "sub", a)))
        return out

    @classmethod
    def make_complex(cls, real: Tensor, imag: Tensor) -> Tensor:
        """:return: complex numbers"""
        real, imag = cls.as_tensor(real), cls.as_tensor(imag)
        out = TemplateBackend.make_complex(real, imag)
        parts = [x.copy_compatible_to_dims_raw(out.dims, unbroadcast=True) for x in (real, imag)]
        out._raw_tensor = cls.make_complex_raw(*parts)
        return out

    @classmethod
    def complex_as_real(cls, x: Tensor, *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
        """:return: both parts, out dim"""
        out, out_dim = TemplateBackend.complex_as_real(x, out_dim=out_dim)
        out._raw_tensor = cls.complex_as_real_raw(x._raw_tensor)
        return out, out_dim

    @classmethod
    def real_as_complex(cls, x: Tensor, *, pair_dim: Dim) -> Tensor:
        """:return: complex numbers"""
        out = TemplateBackend.real_as_complex(x, pair_dim=pair_dim)
        out._raw_tensor = cls.real_as_complex_raw(raw_in_order(x, [*out.dims, pair_dim]))
        return out
