"""Elementwise mathematics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from returnn.frontend import _watch
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import fail
from returnn.frontend._out_dims import out_dim_for
from returnn.tensor import Dim, Tensor
from returnn.tensor.plans import plans
from returnn.util.errors import check_known

Operand = Tensor | int | float | complex | bool | numpy.ndarray

_COMPARE_SYMBOLS = {
    "==": "equal",
    "!=": "not_equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_COMBINE_SYMBOLS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "max": "maximum",
    "min": "minimum",
    "and": "logical_and",
    "or": "logical_or",
}
_COMPARE_KINDS = ("equal", "less", "less_equal", "greater", "greater_equal", "not_equal")
_COMBINE_KINDS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "maximum",
    "minimum",
    "logical_and",
    "logical_or",
    "squared_difference",
    "logaddexp",
)
_COMPARE_KIND_OF = {**{kind: kind for kind in _COMPARE_KINDS}, **_COMPARE_SYMBOLS}
_COMBINE_KIND_OF = {**{kind: kind for kind in _COMBINE_KINDS}, **_COMBINE_SYMBOLS}


def compare(
    a: Operand,
    kind: str,
    b: Operand,
    *,
    allow_broadcast_all_sources: bool | None = None,
    dim_order: Sequence[Dim] | None = None,
) -> Tensor:
    """
    Elementwise comparison.

    :param a: tensor or number
    :param kind: "==", "!=", "<", "<=", ">", ">=", or their names ("equal", "not_equal", "less", ...)
    :param b: tensor or number
    :param allow_broadcast_all_sources: whether it is fine that neither a nor b has all dims
    :param dim_order: order of the dims of the result, as far as they occur in there; implies that broadcasting is fine
    :return: bool, the dims of a and b
    """
    if kind not in _COMPARE_KIND_OF:
        check_known("kind", kind, _COMPARE_KIND_OF, where="compare")
    kind = _COMPARE_KIND_OF[kind]
    if allow_broadcast_all_sources is None and dim_order is None and (out := plans.run(kind, a, b)) is not None:
        return out  # type: ignore[no-any-return]
    return get_backend_of(a, b).compare(
        a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
    )


def compare_bc(a: Operand, kind: str, b: Operand, *, dim_order: Sequence[Dim] | None = None) -> Tensor:
    """:return: like `compare`, where neither a nor b has to have all dims"""
    return compare(a, kind, b, allow_broadcast_all_sources=True, dim_order=dim_order)


def combine(
    a: Operand,
    kind: str,
    b: Operand,
    *,
    allow_broadcast_all_sources: bool | None = None,
    dim_order: Sequence[Dim] | None = None,
) -> Tensor:
    """
    Elementwise combination.

    :param a: tensor or number
    :param kind: "+", "-", "*", "/", "//", "%", "**", "max", "min", "and", "or", or their names ("add", "sub", ...),
        "squared_difference", "logaddexp"
    :param b: tensor or number
    :param allow_broadcast_all_sources: whether it is fine that neither a nor b has all dims
    :param dim_order: order of the dims of the result, as far as they occur in there; implies that broadcasting is fine
    :return: the dims of a and b
    :raises DimError: if neither a nor b has all dims, and that was not allowed: most often, two dims were meant to be
        one
    :raises DtypeError: if the dtypes differ
    """
    if kind not in _COMBINE_KIND_OF:
        check_known("kind", kind, _COMBINE_KIND_OF, where="combine")
    kind = _COMBINE_KIND_OF[kind]
    if allow_broadcast_all_sources is None and dim_order is None and (out := plans.run(kind, a, b)) is not None:
        return out  # type: ignore[no-any-return]
    return get_backend_of(a, b).combine(
        a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
    )


def combine_bc(a: Operand, kind: str, b: Operand, *, dim_order: Sequence[Dim] | None = None) -> Tensor:
    """:return: like `combine`, where neither a nor b has to have all dims"""
    return combine(a, kind, b, allow_broadcast_all_sources=True, dim_order=dim_order)


def equal(a: Operand, b: Operand) -> Tensor:
    """:return: a == b"""
    return compare(a, "equal", b)


def not_equal(a: Operand, b: Operand) -> Tensor:
    """:return: a != b"""
    return compare(a, "not_equal", b)


def less(a: Operand, b: Operand) -> Tensor:
    """:return: a < b"""
    return compare(a, "less", b)


def less_equal(a: Operand, b: Operand) -> Tensor:
    """:return: a <= b"""
    return compare(a, "less_equal", b)


def greater(a: Operand, b: Operand) -> Tensor:
    """:return: a > b"""
    return compare(a, "greater", b)


def greater_equal(a: Operand, b: Operand) -> Tensor:
    """:return: a >= b"""
    return compare(a, "greater_equal", b)


def add(a: Operand, b: Operand) -> Tensor:
    """:return: a + b"""
    return combine(a, "add", b)


def sub(a: Operand, b: Operand) -> Tensor:
    """:return: a - b"""
    return combine(a, "sub", b)


def mul(a: Operand, b: Operand) -> Tensor:
    """:return: a * b"""
    return combine(a, "mul", b)


def true_divide(a: Operand, b: Operand) -> Tensor:
    """:return: a / b; for integers a float"""
    return combine(a, "truediv", b)


def floor_divide(a: Operand, b: Operand) -> Tensor:
    """:return: a / b, rounded down"""
    return combine(a, "floordiv", b)


def ceil_divide(a: Operand, b: Operand) -> Tensor:
    """:return: a / b, rounded up"""
    return -floor_divide(-a, b)


def mod(a: Operand, b: Operand) -> Tensor:
    """:return: what is left of a / b; its sign is that of b"""
    return combine(a, "mod", b)


def pow(a: Operand, b: Operand) -> Tensor:
    """:return: a ** b"""
    return combine(a, "pow", b)


def squared_difference(a: Operand, b: Operand) -> Tensor:
    """:return: (a - b) ** 2"""
    return combine(a, "squared_difference", b)


def logical_and(a: Operand, b: Operand) -> Tensor:
    """:return: a and b, which are bool"""
    return combine(a, "logical_and", b)


def logical_or(a: Operand, b: Operand) -> Tensor:
    """:return: a or b, which are bool"""
    return combine(a, "logical_or", b)


def logical_not(a: Tensor) -> Tensor:
    """:return: not a, which is bool"""
    return _activation(a, "logical_not")


def opt_logical_and(a: Tensor | bool, b: Tensor | bool) -> Tensor | bool:
    """:return: a and b, without an operation if one of them is True or False"""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return logical_and(a, b)


def opt_logical_or(a: Tensor | bool, b: Tensor | bool) -> Tensor | bool:
    """:return: a or b, without an operation if one of them is True or False"""
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return logical_or(a, b)


def maximum(a: Operand, b: Operand, *other_tensors: Operand) -> Tensor:
    """:return: the largest of all"""
    result = combine(a, "maximum", b)
    for other in other_tensors:
        result = combine(result, "maximum", other)
    return result


def minimum(a: Operand, b: Operand, *other_tensors: Operand) -> Tensor:
    """:return: the smallest of all"""
    result = combine(a, "minimum", b)
    for other in other_tensors:
        result = combine(result, "minimum", other)
    return result


def log_add_exp(a: Operand, b: Operand) -> Tensor:
    """:return: log(exp(a) + exp(b)), without overflow"""
    return combine(a, "logaddexp", b)


def abs(a: Tensor) -> Tensor:
    """:return: absolute value"""
    return _activation(a, "abs")


def ceil(a: Tensor) -> Tensor:
    """:return: rounded up, as float"""
    return _activation(a, "ceil")


def cos(a: Tensor) -> Tensor:
    """:return: cosine, of radians"""
    return _activation(a, "cos")


def elu(a: Tensor) -> Tensor:
    """:return: a if a > 0 else exp(a) - 1 (Clevert et al. 2016)"""
    return _activation(a, "elu")


def exp(a: Tensor) -> Tensor:
    """:return: e ** a"""
    return _activation(a, "exp")


def expm1(a: Tensor) -> Tensor:
    """:return: exp(a) - 1, exact for small a"""
    return _activation(a, "expm1")


def floor(a: Tensor) -> Tensor:
    """:return: rounded down, as float"""
    return _activation(a, "floor")


def gelu(a: Tensor) -> Tensor:
    """:return: a * Phi(a), with the normal distribution function Phi (Hendrycks and Gimpel 2016)"""
    return _activation(a, "gelu")


def log(a: Tensor) -> Tensor:
    """:return: natural logarithm"""
    return _activation(a, "log")


def log1p(a: Tensor) -> Tensor:
    """:return: log(1 + a), exact for small a"""
    return _activation(a, "log1p")


def log_sigmoid(a: Tensor) -> Tensor:
    """:return: log(sigmoid(a)), without overflow"""
    return _activation(a, "log_sigmoid")


def neg(a: Tensor) -> Tensor:
    """:return: -a"""
    return _activation(a, "neg")


def reciprocal(a: Tensor) -> Tensor:
    """:return: 1 / a"""
    return _activation(a, "reciprocal")


def relu(a: Tensor) -> Tensor:
    """:return: max(a, 0)"""
    return _activation(a, "relu")


def round(a: Tensor) -> Tensor:
    """:return: rounded to the nearest integer, half to even, as float"""
    return _activation(a, "round")


def rsqrt(a: Tensor) -> Tensor:
    """:return: 1 / sqrt(a)"""
    return _activation(a, "rsqrt")


def selu(a: Tensor) -> Tensor:
    """:return: self-normalizing unit (Klambauer et al. 2017)"""
    return _activation(a, "selu")


def sigmoid(a: Tensor) -> Tensor:
    """:return: 1 / (1 + exp(-a))"""
    return _activation(a, "sigmoid")


def silu(a: Tensor) -> Tensor:
    """:return: a * sigmoid(a)"""
    return _activation(a, "silu")


def sin(a: Tensor) -> Tensor:
    """:return: sine, of radians"""
    return _activation(a, "sin")


def sqrt(a: Tensor) -> Tensor:
    """:return: square root"""
    return _activation(a, "sqrt")


def square(a: Tensor) -> Tensor:
    """:return: a * a"""
    return _activation(a, "square")


def tanh(a: Tensor) -> Tensor:
    """:return: hyperbolic tangent"""
    return _activation(a, "tanh")


def swish(a: Tensor) -> Tensor:
    """:return: a * sigmoid(a), another name for `silu`"""
    return silu(a)


def relu_square(x: Tensor) -> Tensor:
    """:return: max(x, 0) ** 2 (So et al. 2021, Primer)"""
    return square(relu(x))


def identity(x: Tensor) -> Tensor:
    """:return: x"""
    return x


def is_finite(a: Tensor) -> Tensor:
    """:return: bool: whether it is neither infinite nor NaN"""
    _watch.IS_FINITE.note(a)
    return get_backend_of(a).is_finite(a)


def is_infinite(a: Tensor) -> Tensor:
    """:return: bool: whether it is positive or negative infinity"""
    return get_backend_of(a).is_infinite(a)


def is_neg_infinite(a: Tensor) -> Tensor:
    """:return: bool: whether it is negative infinity"""
    return get_backend_of(a).is_neg_infinite(a)


def clip_by_value(
    x: Tensor,
    clip_value_min: Tensor | float | None = None,
    clip_value_max: Tensor | float | None = None,
    *,
    allow_broadcast_all_sources: bool = False,
) -> Tensor:
    """
    :param x: tensor
    :param clip_value_min: lower bound; None: there is none
    :param clip_value_max: upper bound; None: there is none
    :param allow_broadcast_all_sources: whether it is fine that none of the three has all dims
    :return: x, brought between the bounds
    """
    allow = allow_broadcast_all_sources or None
    if clip_value_min is not None and clip_value_max is not None:
        return get_backend_of(x, clip_value_min, clip_value_max).clip_by_value(
            x, clip_value_min, clip_value_max, allow_broadcast_all_sources=allow_broadcast_all_sources
        )
    if clip_value_min is not None:
        return combine(x, "max", clip_value_min, allow_broadcast_all_sources=allow)
    return x if clip_value_max is None else combine(x, "min", clip_value_max, allow_broadcast_all_sources=allow)


def lerp(start: Tensor, end: Tensor, weight: float | Tensor, *, allow_broadcast_all_sources: bool = False) -> Tensor:
    """:return: start + weight * (end - start)"""
    return get_backend_of(start, end, weight).lerp(
        start, end, weight, allow_broadcast_all_sources=allow_broadcast_all_sources
    )


def cumsum(source: Tensor, *, spatial_dim: Dim) -> Tensor:
    """:return: [..., spatial_dim]: for each frame, the sum over all frames up to it"""
    return get_backend_of(source).cumsum(source, spatial_dim=spatial_dim)


def gating(
    x: Tensor,
    *,
    axis: Dim | None = None,
    gate_func: Callable[[Tensor], Tensor] = sigmoid,
    act_func: Callable[[Tensor], Tensor] = identity,
    out_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """
    Gated linear unit (Dauphin et al. 2017) and its variants: `act_func(a) * gate_func(b)`, with the halves a, b of x.

    :param x: {..., axis}
    :param axis: to split into halves; default: the feature dim
    :param gate_func: on the second half
    :param act_func: on the first half
    :param out_dim: the dim of a half; default: axis / 2
    :return: {..., out_dim}; out_dim
    """
    axis = x.feature_dim if axis is None else axis
    if axis is None:
        raise fail(f"gating: {x} has no feature dim.", "Give the axis.")
    if axis.size is not None and axis.size % 2:
        raise fail(f"gating: {x}: {axis} cannot be divided into halves.")
    out_dim = out_dim_for("gating", out_dim, axis.div_right(2))
    a, b = get_backend_of(x).split(x, axis=axis, out_dims=[out_dim, out_dim])
    return act_func(a) * gate_func(b), out_dim


def _activation(a: Any, func: str) -> Tensor:
    out: Tensor | None = plans.run(func, a)
    return get_backend_of(a).activation(a, func) if out is None else out


def softmax(a: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
    """
    :param a: {..., axis}
    :param axis: the dim that the result sums up to 1 over
    :param use_mask: frames beyond the end of their sequence get exactly 0
    :return: exp(a) / sum_axis exp(a)
    """
    out: Tensor | None = plans.run("softmax", a, axis)
    return get_backend_of(a).softmax(a, axis=axis, use_mask=use_mask) if out is None else out


def log_softmax(a: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
    """:return: log(softmax(a)), without overflow; minus infinity beyond the end of a sequence"""
    out: Tensor | None = plans.run("log_softmax", a, axis)
    return get_backend_of(a).log_softmax(a, axis=axis, use_mask=use_mask) if out is None else out


def safe_log(a: Tensor, *, eps: float | None = None) -> Tensor:
    """
    :param a: not negative
    :param eps: smallest value that is told from 0; default: 6e-8 for float16, otherwise 1e-20
    :return: log(max(a, eps)); of a softmax, its `log_softmax`
    """
    if eps is None:
        eps = 6e-8 if a.dtype == "float16" else 1e-20
    return get_backend_of(a).safe_log(a, eps=eps)
