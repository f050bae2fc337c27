"""Complex numbers, and their parts."""

from __future__ import annotations

from returnn.frontend._ops.layout import raw_in_order
from returnn.frontend._ops.operands import OperandOps, common_template, fail, require_dims
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

_DTYPE_OF_PARTS = {"complex64": "float32", "complex128": "float64"}
_COMPLEX = {part: dtype for dtype, part in _DTYPE_OF_PARTS.items()}


class ComplexOps(OperandOps):
    """Complex numbers, and their parts."""

    @classmethod
    def make_complex(cls, real: Tensor, imag: Tensor) -> Tensor:
        """:return: real + i * imag"""
        real, imag = cls.as_tensor(real), cls.as_tensor(imag)
        if real.dtype != imag.dtype or real.dtype not in _COMPLEX:
            raise DtypeError(f"make_complex: {real} and {imag} should both be float32, or both float64.")
        out = common_template("make_complex", [real, imag], if_meant="use rf.expand_dim first")
        out.dtype = _COMPLEX[real.dtype]
        if cls.computes:
            parts = [x.copy_compatible_to_dims_raw(out.dims, unbroadcast=True) for x in (real, imag)]
            out._raw_tensor = cls.make_complex_raw(*parts)
        return out

    @classmethod
    def complex_as_real(cls, x: Tensor, *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
        """:return: real and imaginary part along a new dim of size 2, behind all others; this dim"""
        if x.dtype not in _DTYPE_OF_PARTS:
            raise DtypeError(f"complex_as_real: {x} should be complex.")
        if out_dim is None:
            out_dim = Dim(2, name="real-imag", auto_generated=True)
        if out_dim.size != 2:
            raise fail(f"complex_as_real: the out dim {out_dim} should have the size 2.")
        out = x._insert_dim(out_dim, len(x.dims))
        out.dtype = _DTYPE_OF_PARTS[x.dtype]
        if cls.computes:
            out._raw_tensor = cls.complex_as_real_raw(x._raw_tensor)
        return out, out_dim

    @classmethod
    def real_as_complex(cls, x: Tensor, *, pair_dim: Dim) -> Tensor:
        """:return: complex numbers, whose real and imaginary parts were along `pair_dim`"""
        require_dims("real_as_complex", x, [pair_dim])
        if x.dtype not in _COMPLEX or pair_dim.size != 2:
            raise fail(f"real_as_complex: {x} should be float32 or float64, and {pair_dim} of size 2.")
        out = x.copy_template_excluding_axis(x.get_axis_from_description(pair_dim))
        out.dtype = _COMPLEX[x.dtype]
        if cls.computes:
            out._raw_tensor = cls.real_as_complex_raw(raw_in_order(x, [*out.dims, pair_dim]))
        return out
