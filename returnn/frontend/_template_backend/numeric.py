"""Rules of sums along an axis, complex numbers, tests for special values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.operands import as_operand, common_template, fail, require_dims, require_numbers
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

_DISTRIBUTED_MODES = ("sum", "max", "min", "logsumexp", "any", "all")
_PARTS = {"complex64": "float32", "complex128": "float64"}
_COMPLEX = {part: dtype for dtype, part in _PARTS.items()}


class NumericRules:
    """Rules. For the meaning of the operations see `returnn.frontend._interface.numeric`."""

    @staticmethod
    def cumsum(source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """:return: template"""
        require_dims("cumsum", source, [spatial_dim])
        require_numbers("cumsum", source)
        out = source.copy_template()
        out.sparse_dim = None
        return out

    @staticmethod
    def is_finite(x: Tensor) -> Tensor:
        """:return: template"""
        return _test(x)

    @staticmethod
    def is_infinite(x: Tensor) -> Tensor:
        """:return: template"""
        return _test(x)

    @staticmethod
    def is_neg_infinite(x: Tensor) -> Tensor:
        """:return: template"""
        return _test(x)

    @staticmethod
    def lerp(start: Tensor, end: Tensor, weight: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """:return: template"""
        operands = [start, end, as_operand(weight, like=start)]
        for operand in operands[1:]:
            if operand.dtype != start.dtype:
                raise DtypeError(f"lerp: the dtypes of {start} and {operand} differ.\n  Use rf.cast on one of them.")
        return common_template("lerp", operands, allow_broadcast_all_sources=allow_broadcast_all_sources)

    @staticmethod
    def make_complex(real: Tensor, imag: Tensor) -> Tensor:
        """:return: template"""
        if real.dtype != imag.dtype or real.dtype not in _COMPLEX:
            raise DtypeError(f"make_complex: {real} and {imag} should both be float32, or both float64.")
        out = common_template("make_complex", [real, imag])
        out.dtype = _COMPLEX[real.dtype]
        return out

    @staticmethod
    def complex_as_real(x: Tensor, *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
        """:return: template, out dim"""
        if x.dtype not in _PARTS:
            raise DtypeError(f"complex_as_real: {x} should be complex.")
        if out_dim is None:
            out_dim = Dim(2, name="real-imag", auto_generated=True)
        if out_dim.size != 2:
            raise fail(f"complex_as_real: the out dim {out_dim} should have the size 2.")
        out = x._insert_dim(out_dim, len(x.dims))
        out.dtype = _PARTS[x.dtype]
        return out, out_dim

    @staticmethod
    def real_as_complex(x: Tensor, *, pair_dim: Dim) -> Tensor:
        """:return: template"""
        require_dims("real_as_complex", x, [pair_dim])
        if x.dtype not in _COMPLEX or pair_dim.size != 2:
            raise fail(f"real_as_complex: {x} should be float32 or float64, and {pair_dim} of size 2.")
        out = x.copy_template_excluding_axis(x.get_axis_from_description(pair_dim))
        out.dtype = _COMPLEX[x.dtype]
        return out

    @staticmethod
    def reduce_distributed(source: Tensor, *, mode: str) -> Tensor:
        """:return: template"""
        if mode not in _DISTRIBUTED_MODES:
            raise fail(
                f"reduce over all processes: there is no mode {mode!r}.",
                f"Possible: {', '.join(_DISTRIBUTED_MODES)}. For a mean, divide the sum by the number of frames.",
            )
        return source.copy_template()

    @staticmethod
    def get_tensor_dependencies(x: Tensor) -> Sequence[Tensor]:
        """:return: nothing: templates have no operations"""
        return []

    @staticmethod
    def get_tensor_consumers(x: Tensor) -> Sequence[Tensor]:
        """:return: nothing: templates have no operations"""
        return []


def _test(x: Tensor) -> Tensor:
    out = x.copy_template(dtype="bool")
    out.sparse_dim = None
    return out
