"""Random values, as TensorFlow and PyTorch make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._array_backend.core import CoreArrayOps
from returnn.frontend._template_backend import TemplateBackend
from returnn.tensor import Dim, Tensor


class RandomArrayOps(CoreArrayOps):
    """Random values, on the two raw operations below."""

    @staticmethod
    def random_uniform_raw(
        shape: Sequence[Any], dtype: str, low: Any, high: Any, seed: Any, static: bool, device: str | None
    ) -> Any:
        """:return: in [low, high), for floats and integers"""
        raise NotImplementedError

    @staticmethod
    def random_normal_raw(
        shape: Sequence[Any], dtype: str, seed: Any, static: bool, device: str | None, *, truncated: bool
    ) -> Any:
        """:return: with mean 0 and standard deviation 1; truncated: none beyond 2"""
        raise NotImplementedError

    @classmethod
    def random(
        cls,
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
        shape = [dim.get_dim_value() for dim in dims]
        common = {"seed": seed, "static": bool(static), "device": device}
        if distribution == "uniform":
            low, high = (
                (-bound, bound)
                if bound is not None
                else (0 if minval is None else minval, 1 if maxval is None else maxval)
            )
            low, high = (x.raw_tensor if isinstance(x, Tensor) else x for x in (low, high))
            raw = cls.random_uniform_raw(shape, dtype, low, high, **common)
        elif distribution == "bernoulli":
            probability = mean.raw_tensor if isinstance(mean, Tensor) else mean
            uniform = cls.random_uniform_raw(shape, "float32", 0.0, 1.0, **common)
            raw = cls.cast_raw(uniform < probability, dtype)
        else:
            raw = cls.random_normal_raw(shape, dtype, **common, truncated=distribution == "truncated_normal")
            if stddev is not None:
                raw = raw * (stddev.raw_tensor if isinstance(stddev, Tensor) else stddev)
            if mean is not None:
                raw = raw + (mean.raw_tensor if isinstance(mean, Tensor) else mean)
        result._raw_tensor = raw
        if out is not None:
            out.raw_tensor = result.copy_compatible_to_dims_raw(out.dims)
            return out
        return result
