"""Random values, as TensorFlow and PyTorch make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._array_backend.core import CoreArrayOps
from returnn.frontend._ops.random_source import RandomSource
from returnn.frontend._template_backend import TemplateBackend
from returnn.frontend._template_backend.random import normal_of, range_of
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError


class RandomArrayOps(CoreArrayOps):
    """Random values, on the raw operations below."""

    @staticmethod
    def random_uniform_raw(shape: Sequence[Any], dtype: str, source: RandomSource, device: str | None) -> Any:
        """:return: floats in [0, 1)"""
        raise NotImplementedError

    @staticmethod
    def random_ints_raw(
        shape: Sequence[Any], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> Any:
        """:return: integers in [low, high), which are numbers or raw scalars"""
        raise NotImplementedError

    @staticmethod
    def random_normal_raw(shape: Sequence[Any], dtype: str, source: RandomSource, device: str | None) -> Any:
        """:return: with mean 0 and standard deviation 1"""
        raise NotImplementedError

    @staticmethod
    def random_truncated_raw(
        shape: Sequence[Any], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> Any:
        """:return: normal distribution without what is not in [low, high], which are numbers or raw scalars"""
        raise NotImplementedError

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
        seed: Any = None,
        algorithm: str | None = None,
        explicit_state: Tensor | None = None,
        auto_update_state: bool | None = None,
        static: bool | None = None,
        out: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """:return: random values"""
        result = TemplateBackend.random(
            dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim, distribution=distribution,
            seed=seed, algorithm=algorithm, explicit_state=explicit_state, auto_update_state=auto_update_state,
            static=static, out=out, **options,
        )  # fmt: skip
        state = None if explicit_state is None else explicit_state._raw_tensor
        source = RandomSource(seed, bool(static), state, algorithm)
        shape = [dim.get_dim_value() for dim in dims]
        if distribution == "uniform":
            cls._set_uniform(result, shape, *range_of(options), source, device)
        elif distribution == "bernoulli":
            uniform = Tensor("uniform", dims=dims, dtype="float32")
            uniform._raw_tensor = cls.random_uniform_raw(shape, "float32", source, device)
            result._raw_tensor = cls.cast_raw(cls.compare(uniform, "less", options["mean"])._raw_tensor, dtype)
        else:
            mean, stddev, low, high = normal_of(options)
            if distribution == "normal":
                result._raw_tensor = cls.random_normal_raw(shape, dtype, source, device)
            else:
                low, high = _scalars("the range of a truncated normal distribution", low, high)
                result._raw_tensor = cls.random_truncated_raw(shape, dtype, low, high, source, device)
            result._raw_tensor = cls._scaled(result, stddev, mean)
        return result

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


def _scalars(what: str, *values: Any) -> list[Any]:
    """:return: numbers, or raw scalars"""
    for x in values:
        if isinstance(x, Tensor) and x.dims:
            raise DimError(f"random: {what} should be numbers or scalars, not {x}.")
    return [x._raw_tensor if isinstance(x, Tensor) else x for x in values]
