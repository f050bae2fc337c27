"""Random values, and the state that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._ops.random_source import RandomSource
from returnn.frontend._ops.reduce import ReduceOps
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError, DtypeError, check_known

DISTRIBUTIONS = ("uniform", "normal", "truncated_normal", "bernoulli")
ALGORITHMS = ("philox", "threefry", "three-fry", "auto_select")
_PARAMETERS_OF = {
    "uniform": ("bound", "minval", "maxval"),
    "normal": ("mean", "stddev"),
    "truncated_normal": ("mean", "stddev", "minval", "maxval"),
    "bernoulli": ("mean",),
}


class RandomOps(ReduceOps):
    """Random values."""

    @classmethod
    def random(
        cls,
        *,
        dims: Sequence[Dim],
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        distribution: str,
        mean: int | float | Tensor | None = None,
        stddev: int | float | Tensor | None = None,
        bound: int | float | Tensor | None = None,
        minval: int | float | Tensor | None = None,
        maxval: int | float | Tensor | None = None,
        seed: int | Sequence[int] | Any = None,
        algorithm: str | None = None,
        explicit_state: Tensor | None = None,
        auto_update_state: bool | None = None,
        static: bool | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """See `returnn.frontend.random`."""
        parameters = {"mean": mean, "stddev": stddev, "bound": bound, "minval": minval, "maxval": maxval}
        _check_distribution(distribution, dims, dtype, parameters)
        if algorithm is not None:
            check_known("algorithm", algorithm, ALGORITHMS, where="random")
        _check_source(seed, explicit_state, auto_update_state, static)
        if out is not None and (set(out.dims) != set(dims) or out.dtype != dtype):
            raise fail(f"random: out is {out}, but the values have the dims {list(map(str, dims))} and {dtype}.")
        result = Tensor("random", dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)
        if cls.computes:
            state = None if explicit_state is None else explicit_state._raw_tensor
            source = RandomSource(seed, bool(static), state, algorithm)
            cls._draw(result, distribution, parameters, source, device)
        return result

    @classmethod
    def _draw(
        cls, result: Tensor, distribution: str, parameters: dict[str, Any], source: RandomSource, device: str | None
    ) -> None:
        """Draws the value of `result`, which has dims and dtype."""
        shape = [dim.get_dim_value() for dim in result.dims]
        if distribution == "uniform":
            cls._set_uniform(result, shape, *range_of(parameters), source, device)
        elif distribution == "bernoulli":
            uniform = Tensor("uniform", dims=result.dims, dtype="float32")
            uniform._raw_tensor = cls.random_uniform_raw(shape, "float32", source, device)
            is_below = cls.compare(uniform, "less", parameters["mean"])
            result._raw_tensor = cls.cast_raw(is_below._raw_tensor, result.dtype)
        else:
            mean, stddev, low, high = normal_of(parameters)
            if distribution == "normal":
                result._raw_tensor = cls.random_normal_raw(shape, result.dtype, source, device)
            else:
                low, high = _scalars("the range of a truncated normal distribution", low, high)
                result._raw_tensor = cls.random_truncated_raw(shape, result.dtype, low, high, source, device)
            result._raw_tensor = cls._scaled(result, stddev, mean)

    @classmethod
    def _set_uniform(
        cls, result: Tensor, shape: Sequence[Any], low: Any, high: Any, source: RandomSource, device: str | None
    ) -> None:
        if result.dtype.startswith(("int", "uint")):
            low, high = _scalars("the range of random integers", low, high)
            result._raw_tensor = cls.random_ints_raw(shape, result.dtype, low, high, source, device)
            return
        result._raw_tensor = cls.random_uniform_raw(shape, result.dtype, source, device)
        result._raw_tensor = cls._scaled(result, high - low, low)

    @classmethod
    def _scaled(cls, x: Tensor, factor: Any, offset: Any) -> Any:
        """:return: raw x * factor + offset, each a number or tensor"""
        if isinstance(factor, Tensor) or factor != 1:
            x = cls.combine(x, "mul", factor)
        if isinstance(offset, Tensor) or offset != 0:
            x = cls.combine(x, "add", offset)
        return x._raw_tensor

    @classmethod
    def random_choice_with_replacement(cls, dims: Sequence[Dim], *, probs: Tensor, axis: Dim) -> Tensor:
        """
        See `returnn.frontend.random_choice_with_replacement`. The maximum of the log probabilities with Gumbel noise is
        distributed like the probabilities (Gumbel 1954, "Statistical Theory of Extreme Values").
        """
        require_dims("random_choice_with_replacement", probs, [axis])
        missing = [str(dim) for dim in probs.dims if dim not in dims and dim != axis]
        if missing or axis in dims:
            raise fail(
                f"random_choice_with_replacement: the result should have all dims of {probs} but {axis}.",
                f"Got: {', '.join(map(str, dims)) or 'none'}.",
            )
        if not cls.computes:
            return Tensor("random_choice", dims=dims, dtype="int32", sparse_dim=axis)
        noise = cls.random(dims=[*dims, axis], dtype=probs.dtype, distribution="uniform", minval=1e-20, maxval=1.0)
        for func in ("log", "neg", "log", "neg"):
            noise = cls.activation(noise, func)
        scores = cls.combine(noise, "add", cls.activation(probs, "log"))
        return cls.reduce(scores, mode="argmax", axis=axis)


def _check_distribution(distribution: str, dims: Sequence[Dim], dtype: str, parameters: dict[str, Any]) -> None:
    check_known("distribution", distribution, DISTRIBUTIONS, where="random")
    if dtype == "bool" and distribution != "bernoulli":
        raise DtypeError(f"random: there is no {distribution!r} distribution of bool. Use 'bernoulli'.")
    limits = [name for name in ("minval", "maxval") if parameters[name] is not None]
    if parameters["bound"] is not None and limits and distribution == "uniform":
        raise fail(f"random: 'bound' and {limits[0]!r} exclude each other.")
    for name, value in parameters.items():
        if value is not None and name not in _PARAMETERS_OF[distribution]:
            possible = ", ".join(_PARAMETERS_OF[distribution])
            raise fail(f"random: the distribution {distribution!r} has no {name!r}.", f"Possible: {possible}.")
        if isinstance(value, Tensor):
            missing = [str(dim) for dim in value.dims if dim not in dims]
            if missing:
                raise fail(f"random: {name} is {value}, but {', '.join(missing)} is not among the dims.")


def _scalars(what: str, *values: Any) -> list[Any]:
    """:return: numbers, or raw scalars"""
    for x in values:
        if isinstance(x, Tensor) and x.dims:
            raise DimError(f"random: {what} should be numbers or scalars, not {x}.")
    return [x._raw_tensor if isinstance(x, Tensor) else x for x in values]


def range_of(parameters: dict[str, Any]) -> tuple[Any, Any]:
    """
    :param parameters: bound, minval, maxval
    :return: of a uniform distribution, the lowest value, and what is above all values
    """
    bound = parameters.get("bound")
    if bound is not None:
        return -bound, bound
    low, high = parameters.get("minval"), parameters.get("maxval")
    return 0 if low is None else low, 1 if high is None else high


def normal_of(parameters: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """
    :param parameters: mean, stddev, minval, maxval
    :return: mean and standard deviation; and the range to which the normal distribution is truncated, before it is
        scaled: (value - mean) / stddev
    """
    mean, stddev = parameters.get("mean"), parameters.get("stddev")
    mean, stddev = 0 if mean is None else mean, 1 if stddev is None else stddev
    low, high = parameters.get("minval"), parameters.get("maxval")
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
