"""Random values of numpy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, ClassVar

import numpy
from numpy import ndarray

from returnn.frontend._backends.numpy.raw import check_device
from returnn.frontend._ops.random_source import RandomSource

_NORMAL = NormalDist()
_CDF = numpy.vectorize(_NORMAL.cdf, otypes=["float64"])
_INVERSE_CDF = numpy.vectorize(_NORMAL.inv_cdf, otypes=["float64"])


class RandomNumpyOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    generator: ClassVar[numpy.random.Generator] = numpy.random.default_rng(42)

    @classmethod
    def set_random_seed(cls, seed: int) -> None:
        """Begins anew."""
        cls.generator = numpy.random.default_rng(seed)

    @classmethod
    def get_random_state(cls) -> dict[str, bytes]:
        """:return: state of the generator"""
        return {"numpy": json.dumps(cls.generator.bit_generator.state).encode("ascii")}

    @classmethod
    def set_random_state(cls, state: dict[str, bytes]) -> None:
        """Sets what `get_random_state` returned."""
        cls.generator.bit_generator.state = json.loads(state["numpy"])

    @classmethod
    def random_uniform_raw(cls, shape: Sequence[Any], dtype: str, source: RandomSource, device: str | None) -> ndarray:
        """:return: floats in [0, 1)"""
        return cls._generator_for(source, device).random(_sizes(shape), dtype=numpy.dtype(dtype).type)

    @classmethod
    def random_ints_raw(
        cls, shape: Sequence[Any], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> ndarray:
        """:return: integers in [low, high)"""
        return cls._generator_for(source, device).integers(low, high, _sizes(shape)).astype(dtype)

    @classmethod
    def random_normal_raw(cls, shape: Sequence[Any], dtype: str, source: RandomSource, device: str | None) -> ndarray:
        """:return: normal values"""
        return cls._generator_for(source, device).standard_normal(_sizes(shape)).astype(dtype)

    @classmethod
    def random_truncated_raw(
        cls, shape: Sequence[Any], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> ndarray:
        """:return: truncated normal values, by the inverse of the distribution function"""
        uniform = cls._generator_for(source, device).uniform(_CDF(low), _CDF(high), _sizes(shape))
        value: ndarray = _INVERSE_CDF(uniform.clip(1e-300, 1 - 1e-16)).clip(low, high).astype(dtype)
        return value

    @classmethod
    def _generator_for(cls, source: RandomSource, device: str | None) -> numpy.random.Generator:
        check_device(device)
        number = source.number(numpy.asarray)
        return cls.generator if number is None else numpy.random.default_rng(number)


def _sizes(shape: Sequence[Any]) -> list[int]:
    return [int(size) for size in shape]
