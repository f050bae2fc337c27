"""Random values of numpy."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend._template_backend import TemplateBackend
from returnn.tensor import Dim, Tensor

_generator = numpy.random.default_rng(42)


class RandomNumpyOps:
    """Random values. For their meaning see `returnn.frontend._interface.random`."""

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """Begins anew."""
        global _generator
        _generator = numpy.random.default_rng(seed)

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """:return: state of the generator"""
        return {"numpy": pickle.dumps(_generator.bit_generator.state)}

    @staticmethod
    def set_random_state(state: dict[str, bytes]) -> None:
        """Sets what `get_random_state` returned."""
        _generator.bit_generator.state = pickle.loads(state["numpy"])

    @staticmethod
    def random(
        *,
        dims: Sequence[Dim],
        dtype: str,
        distribution: str,
        device: str | None = None,
        mean: Any = None,
        stddev: Any = None,
        bound: Any = None,
        minval: Any = None,
        maxval: Any = None,
        seed: Any = None,
        static: bool | None = None,
        out: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """:return: random values"""
        result = TemplateBackend.random(dims=dims, dtype=dtype, distribution=distribution, out=out, **options)
        mean, stddev, bound, minval, maxval = (
            float(x.raw_tensor) if isinstance(x, Tensor) else x for x in (mean, stddev, bound, minval, maxval)
        )
        generator = _generator if seed is None else numpy.random.default_rng(seed)
        shape = [int(dim.get_dim_value()) for dim in dims]
        if distribution == "uniform":
            low, high = (-bound, bound) if bound is not None else (minval or 0, 1 if maxval is None else maxval)
            is_int = dtype.startswith(("int", "uint"))
            value: Any = generator.integers(low, high, shape) if is_int else generator.uniform(low, high, shape)
        elif distribution == "bernoulli":
            value = generator.uniform(size=shape) < mean
        else:
            value = generator.normal(size=shape)
            if distribution == "truncated_normal":
                while (numpy.abs(value) > 2).any():
                    value = numpy.where(numpy.abs(value) > 2, generator.normal(size=shape), value)
            value = value * (1.0 if stddev is None else stddev) + (mean or 0.0)
        result.raw_tensor = numpy.asarray(value, dtype=dtype)
        if out is not None:
            out.raw_tensor = result.copy_compatible_to_dims_raw(out.dims)
            return out
        return result
