"""Rules of random values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.operands import fail, require_dims
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError, check_known

DISTRIBUTIONS = ("uniform", "normal", "truncated_normal", "bernoulli")
ALGORITHMS = ("philox", "threefry", "three-fry", "auto_select")
_OPTIONS_OF = {
    "uniform": ("bound", "minval", "maxval"),
    "normal": ("mean", "stddev"),
    "truncated_normal": ("mean", "stddev", "minval", "maxval"),
    "bernoulli": ("mean",),
}


class RandomRules:
    """Rules of random values. For their meaning see `returnn.frontend._interface.random`."""

    @staticmethod
    def random(
        *,
        dims: Sequence[Dim],
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        distribution: str,
        seed: Any = None,
        algorithm: str | None = None,
        explicit_state: Any = None,
        auto_update_state: bool | None = None,
        static: bool | None = None,
        out: Tensor | None = None,
        **parameters: Any,
    ) -> Tensor:
        """:return: template"""
        check_known("distribution", distribution, DISTRIBUTIONS, where="random")
        if dtype == "bool" and distribution != "bernoulli":
            raise DtypeError(f"random: there is no {distribution!r} distribution of bool. Use 'bernoulli'.")
        if algorithm is not None:
            check_known("algorithm", algorithm, ALGORITHMS, where="random")
        for name, value in parameters.items():
            if value is not None and name not in _OPTIONS_OF[distribution]:
                possible = ", ".join(_OPTIONS_OF[distribution])
                raise fail(f"random: the distribution {distribution!r} has no {name!r}.", f"Possible: {possible}.")
            if isinstance(value, Tensor):
                missing = [str(dim) for dim in value.dims if dim not in dims]
                if missing:
                    raise fail(f"random: {name} is {value}, but {', '.join(missing)} is not among the dims.")
        _check_source(seed, explicit_state, auto_update_state, static)
        if out is not None and (set(out.dims) != set(dims) or out.dtype != dtype):
            raise fail(f"random: out is {out}, but the values have the dims {list(map(str, dims))} and {dtype}.")
        return Tensor("random", dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)

    @classmethod
    def random_choice_with_replacement(cls, dims: Sequence[Dim], *, probs: Tensor, axis: Dim) -> Tensor:
        """:return: template"""
        require_dims("random_choice_with_replacement", probs, [axis])
        missing = [str(dim) for dim in probs.dims if dim not in dims and dim != axis]
        if missing or axis in dims:
            raise fail(
                f"random_choice_with_replacement: the result should have all dims of {probs} but {axis}.",
                f"Got: {', '.join(map(str, dims)) or 'none'}.",
            )
        return Tensor("random_choice", dims=dims, dtype="int32", sparse_dim=axis)


def range_of(options: dict[str, Any]) -> tuple[Any, Any]:
    """
    :param options: bound, minval, maxval
    :return: of a uniform distribution, the lowest value, and what is above all values
    """
    bound = options.get("bound")
    if bound is not None:
        return -bound, bound
    low, high = options.get("minval"), options.get("maxval")
    return 0 if low is None else low, 1 if high is None else high


def normal_of(options: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """
    :param options: mean, stddev, minval, maxval
    :return: mean and standard deviation; and the range to which the normal distribution is truncated, before it is
        scaled: (value - mean) / stddev
    """
    mean, stddev = options.get("mean"), options.get("stddev")
    mean, stddev = 0 if mean is None else mean, 1 if stddev is None else stddev
    low, high = options.get("minval"), options.get("maxval")
    return mean, stddev, -2.0 if low is None else (low - mean) / stddev, 2.0 if high is None else (high - mean) / stddev


def _check_source(seed: Any, explicit_state: Any, auto_update_state: bool | None, static: bool | None) -> None:
    if static and seed is None:
        raise fail("random: with `static`, a seed is needed.")
    if explicit_state is None:
        if auto_update_state is not None:
            raise fail("random: auto_update_state needs an explicit_state.")
        return
    if seed is not None or static:
        raise fail("random: with an explicit_state, there is no seed, and it cannot be static.")
    if auto_update_state is None:
        raise fail("random: with an explicit_state, auto_update_state has to say whether it moves on.")
    if len(explicit_state.dims) != 1 or explicit_state.dims[0].size not in (2, 3):
        raise fail(
            f"random: the explicit_state should have one dim of size 3 (or 2, for threefry), not {explicit_state}."
        )
    if explicit_state.dtype != "int64":
        raise DtypeError(f"random: the explicit_state should have the dtype int64, not {explicit_state.dtype}.")
