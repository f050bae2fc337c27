"""
Initial values of parameters.

Variance scaling draws values such that the variance of activations (fan in) or gradients (fan out) stays the same from
layer to layer: Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks";
He et al. 2015, "Delving Deep into Rectifiers".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend.rand import random
from returnn.tensor import Dim, Tensor
from returnn.util.errors import check_known

_MODES = ("fan_in", "fan_out", "fan_avg")
_DISTRIBUTIONS = ("truncated_normal", "untruncated_normal", "normal", "uniform")
_STDDEV_OF_TRUNCATED = 0.87962566103423978  # of a normal distribution without what is beyond 2 standard deviations


class ParamInit:
    """Draws the initial value of a parameter."""

    def __call__(
        self,
        dims: Sequence[Dim],
        dtype: str,
        *,
        sparse_dim: Dim | None = None,
        device: str | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """
        :param dims: of the parameter
        :param dtype: of the parameter
        :param sparse_dim: of the parameter
        :param device: such as "cpu"
        :param out: tensor that the values are written into
        """
        raise NotImplementedError


ParamInitType = Tensor | int | float | complex | numpy.number | numpy.ndarray | bool | str | ParamInit


class Normal(ParamInit):
    """Normal distribution with mean 0."""

    def __init__(self, stddev: float, *, truncated: bool = True, dtype: str | None = None) -> None:
        """
        :param stddev: standard deviation, before truncation
        :param truncated: leave out what is beyond 2 standard deviations
        :param dtype: to draw in; default: that of the parameter
        """
        self.stddev = stddev
        self.truncated = truncated
        self.dtype = dtype

    def __call__(
        self,
        dims: Sequence[Dim],
        dtype: str,
        *,
        sparse_dim: Dim | None = None,
        device: str | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """:return: values"""
        return random(
            dims,
            distribution="truncated_normal" if self.truncated else "normal",
            mean=0.0,
            stddev=self.stddev,
            dtype=self.dtype or dtype,
            sparse_dim=sparse_dim,
            device=device,
            out=out,
        )


class VarianceScaling(ParamInit):
    """Values with the variance scale / n, where n is the number of inputs, of outputs, or the mean of both."""

    scale = 1.0
    mode = "fan_in"
    distribution = "truncated_normal"
    dtype: str | None = None

    def __init__(
        self,
        scale: float | None = None,
        mode: str | None = None,
        distribution: str | None = None,
        dtype: str | None = None,
    ) -> None:
        """
        :param scale: > 0
        :param mode: "fan_in", "fan_out", "fan_avg"
        :param distribution: "truncated_normal" (also "normal"), "untruncated_normal", "uniform"
        :param dtype: to draw in; default: that of the parameter
        """
        if scale is not None:
            self.scale = scale
        if mode is not None:
            self.mode = mode
        if distribution is not None:
            self.distribution = distribution
        if dtype is not None:
            self.dtype = dtype
        where = type(self).__name__
        check_known("mode", self.mode, _MODES, where=where)
        check_known("distribution", self.distribution, _DISTRIBUTIONS, where=where)

    def __call__(
        self,
        dims: Sequence[Dim],
        dtype: str,
        *,
        sparse_dim: Dim | None = None,
        device: str | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """:return: values"""
        fan_in, fan_out = compute_fans(dims)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        stddev = math.sqrt(self.scale / max(1.0, n))
        options: dict[str, Any] = {
            "dtype": self.dtype or dtype,
            "sparse_dim": sparse_dim,
            "device": device,
            "out": out,
        }
        if self.distribution == "uniform":
            return random(dims, distribution="uniform", bound=math.sqrt(3.0) * stddev, **options)
        if self.distribution == "untruncated_normal":
            return random(dims, distribution="normal", mean=0.0, stddev=stddev, **options)
        stddev /= _STDDEV_OF_TRUNCATED
        return random(dims, distribution="truncated_normal", mean=0.0, stddev=stddev, **options)


class Glorot(VarianceScaling):
    """Glorot and Bengio 2010, also known as Xavier: uniform, scale 1, mean of inputs and outputs."""

    scale = 1.0
    mode = "fan_avg"
    distribution = "uniform"


class He(VarianceScaling):
    """He et al. 2015, also known as Kaiming: normal, scale 2, inputs."""

    scale = 2.0
    mode = "fan_in"
    distribution = "normal"


HeNormal = He


class HeUniform(He):
    """He et al. 2015, with a uniform distribution."""

    distribution = "uniform"


def compute_fans(dims: Sequence[Dim]) -> tuple[int, int]:
    """
    :param dims: of a parameter: [in, out]; [n]; or of a filter: [in, out] and spatial dims, of which each position
        counts. If all dims are spatial, the last two are in and out.
    :return: number of inputs and of outputs
    """
    sizes = [dim.get_dim_value() for dim in dims]
    if len(dims) < 2:
        n = sizes[0] if sizes else 1
        return n, n
    inner = [i for i, dim in enumerate(dims) if not dim.is_spatial_dim()]
    if len(dims) == 2 or len(inner) < 2:
        inner = list(range(len(dims)))
    in_axis, out_axis = inner[-2:]
    receptive_field = math.prod(sizes) // max(1, sizes[in_axis] * sizes[out_axis])
    return sizes[in_axis] * receptive_field, sizes[out_axis] * receptive_field


__all__ = ["Glorot", "He", "HeNormal", "HeUniform", "Normal", "ParamInit", "ParamInitType", "VarianceScaling"]
