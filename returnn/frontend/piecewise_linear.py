"""Piecewise linear functions, such as a schedule over steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from returnn.frontend._backend import get_global_backend
from returnn.frontend._ops.operands import fail
from returnn.frontend.array_ import cast, convert_to_tensor, stack
from returnn.frontend.dtype import get_default_float_dtype, is_float_dtype
from returnn.frontend.math_ import clip_by_value, combine_bc
from returnn.frontend.matmul import matmul
from returnn.frontend.module import Module
from returnn.tensor import Dim, Tensor

__all__ = ["PiecewiseLinear"]

Number = int | float
Points = Mapping[Number, Number | Tensor] | Sequence[tuple[Number, Number | Tensor]]


class PiecewiseLinear(Module):
    """Goes straight from point to point; before the first point and behind the last one, it is constant."""

    def __init__(self, points: Points) -> None:
        """
        :param points: x -> y; or pairs. Each y is a number or a tensor
        """
        super().__init__()
        pairs = sorted(points.items() if isinstance(points, Mapping) else points, key=lambda pair: pair[0])
        self._xs = [float(x) for x, _ in pairs]
        self._ys = [y for _, y in pairs]
        if not pairs or len(set(self._xs)) < len(pairs):
            raise fail(f"PiecewiseLinear: there should be points, each with an x of its own, not {self._xs}.")
        self.points_dim = Dim(len(pairs), name="points")

    def __call__(self, x: Tensor) -> Tensor:
        """
        :param x: {...}; integers become floats
        :return: {...}, and the dims of the points
        """
        x = x if is_float_dtype(x.dtype) else cast(x, get_default_float_dtype())
        first = self._ys[0] if isinstance(self._ys[0], Tensor) else float(self._ys[0])
        pieces = self.points_dim - 1
        if not pieces.size:
            return combine_bc(x * 0.0, "+", first)
        widths = [b - a for a, b in zip(self._xs, self._xs[1:], strict=False)]
        slopes = [(b - a) / w for a, b, w in zip(self._ys, self._ys[1:], widths, strict=False)]
        done = clip_by_value(
            combine_bc(x, "-", _constants(self._xs[:-1], pieces, x.dtype)),
            0.0,
            _constants(widths, pieces, x.dtype),
        )
        return combine_bc(matmul(done, _constants(slopes, pieces, x.dtype), reduce=pieces), "+", first)


def _constants(values: Sequence[float | Tensor], dim: Dim, dtype: str) -> Tensor:
    if not any(isinstance(value, Tensor) for value in values):
        return convert_to_tensor(values, dims=[dim], dtype=dtype, _backend=get_global_backend())
    return stack([convert_to_tensor(value, dims=(), dtype=dtype) for value in values], out_dim=dim)[0]
