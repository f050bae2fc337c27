"""Random values of numpy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy

from returnn.frontend._backends.numpy.labeled import aligned, as_tensor
from returnn.frontend._backends.numpy.raw import check_device
from returnn.frontend._backends.template import TemplateBackend
from returnn.frontend._ops.random import normal_of, range_of
from returnn.frontend._ops.random_source import RandomSource
from returnn.tensor import Dim, Tensor

_generator = numpy.random.default_rng(42)


class RandomNumpyOps:
    """Random values. For their meaning see `returnn.frontend._ops`."""

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """Begins anew."""
        global _generator
        _generator = numpy.random.default_rng(seed)

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """:return: state of the generator"""
        return {"numpy": json.dumps(_generator.bit_generator.state).encode("ascii")}

    @staticmethod
    def set_random_state(state: dict[str, bytes]) -> None:
        """Sets what `get_random_state` returned."""
        _generator.bit_generator.state = json.loads(state["numpy"])

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
        explicit_state: Tensor | None = None,
        auto_update_state: bool | None = None,
        static: bool | None = None,
        out: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """:return: random values"""
        check_device(device)
        result = TemplateBackend.random(
            dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim, distribution=distribution,
            seed=seed, algorithm=algorithm, explicit_state=explicit_state, auto_update_state=auto_update_state,
            static=static, out=out, **options,
        )  # fmt: skip
        state = None if explicit_state is None else explicit_state.raw_tensor
        number = RandomSource(seed, bool(static), state).number(numpy.asarray)
        generator = _generator if number is None else numpy.random.default_rng(number)
        given = {name: _aligned(value, dims) for name, value in options.items() if value is not None}
        shape = [int(dim.get_dim_value()) for dim in dims]
        value = _draw(generator, distribution, shape, given, is_int=dtype.startswith(("int", "uint")))
        result.raw_tensor = numpy.asarray(value, dtype=dtype)
        return result


def _draw(
    generator: numpy.random.Generator, distribution: str, shape: Sequence[int], options: dict[str, Any], *, is_int: bool
) -> Any:
    if distribution == "uniform":
        low, high = range_of(options)
        return generator.integers(low, high, shape) if is_int else generator.uniform(low, high, shape)
    if distribution == "bernoulli":
        return generator.uniform(size=shape) < options["mean"]
    mean, stddev, low, high = normal_of(options)
    if distribution == "normal":
        return generator.normal(size=shape) * stddev + mean
    standard = NormalDist()
    cdf, inverse_cdf = numpy.vectorize(standard.cdf), numpy.vectorize(standard.inv_cdf, otypes=["float64"])
    value = inverse_cdf(generator.uniform(cdf(low), cdf(high), shape).clip(1e-300, 1 - 1e-16))
    return value.clip(low, high) * stddev + mean


def _aligned(value: Any, dims: Sequence[Dim]) -> Any:
    return aligned(as_tensor(value), dims) if isinstance(value, Tensor) else value
