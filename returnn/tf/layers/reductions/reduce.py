"""Reductions: sums, means, maxima, norms over dims."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.options.layer_errors import naming_option
from returnn.util.errors import ConfigError, check_known
from returnn.util.not_specified import NotSpecified

_MODES = ("sum", "mean", "avg", "max", "min", "argmax", "argmin", "logsumexp", "any", "all")


class ReduceLayer(_ConcatInputLayer):
    """
    Sum, mean, maximum, ... over some dims.

    Source [..., axes], output [...]. For "argmax" and "argmin" the output is sparse: indices into the dim.
    """

    layer_class = "reduce"

    def __init__(
        self,
        mode: str,
        axes: Any = None,
        axis: Any = None,
        keep_dims: bool = False,
        enforce_batch_dim_axis: int | None = None,
        use_time_mask: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param mode: "sum", "mean" (or "avg"), "max", "min", "argmax", "argmin", "logsumexp", "any", "all"
        :param axes: the dims, by description, such as "T" or ["B", "T"]
        :param axis: the same as `axes`
        :param keep_dims: keep the dims, with size 1
        :param enforce_batch_dim_axis: where the batch axis stands, for axes given by numbers. Default: in front
        :param use_time_mask: leave out frames beyond the end of their sequence, which is the default
        """
        super().__init__(**kwargs)
        self.mode = mode
        self.axes_option, self.axes = _one_of(self, axes=axes, axis=axis)
        self.keep_dims = keep_dims
        self.enforce_batch_dim_axis = enforce_batch_dim_axis
        self.use_time_mask = use_time_mask is not False
        check_known("mode", mode, _MODES, where=self.where())

    def compute(self, source: Tensor) -> Tensor:
        """:return: without the reduced dims, or with size 1 instead"""
        dims = self.reduced_dims(source)
        mode = "mean" if self.mode == "avg" else self.mode
        if mode.startswith("arg") and len(dims) != 1:
            raise ConfigError(f"{self.where()}: mode {self.mode!r} goes over one dim, not over {dims}.")
        axis = dims[0] if mode.startswith("arg") else dims
        out = rf.reduce(source, mode=mode, axis=axis, use_mask=self.use_time_mask)
        return _with_kept_dims(self, out, source, dims) if self.keep_dims else out

    def reduced_dims(self, source: Tensor) -> list[Dim]:
        """:return: the dims that it goes over"""
        return _dims_to_reduce(self, source, self.enforce_batch_dim_axis)


class MathNormLayer(_ConcatInputLayer):
    """
    The p-norm over some dims: `sum(abs(x) ** p) ** (1 / p)`.

    Source [..., axes], output [...].
    """

    layer_class = "math_norm"

    def __init__(
        self, p: float, axis: Any = NotSpecified, axes: Any = NotSpecified, keep_dims: bool = False, **kwargs: Any
    ) -> None:
        """
        :param p: number; infinity for the maximum norm
        :param axis: the dims, by description
        :param axes: the same as `axis`
        :param keep_dims: keep the dims, with size 1
        """
        super().__init__(**kwargs)
        self.p = p
        self.axes_option, self.axes = _one_of(self, axes=axes, axis=axis)
        self.keep_dims = keep_dims

    def compute(self, source: Tensor) -> Tensor:
        """:return: without the reduced dims, or with size 1 instead"""
        dims = _dims_to_reduce(self, source, None)
        out = _norm(source, self.p, dims)
        return _with_kept_dims(self, out, source, dims) if self.keep_dims else out


class ReduceOutLayer(_ConcatInputLayer):
    """
    Reduces neighbouring features, such as maxout (Goodfellow et al. 2013).

    Source [..., F], output [..., F / num_pieces].
    """

    layer_class = "reduce_out"

    def __init__(self, mode: str, num_pieces: int, out_dim: Dim | None = None, **kwargs: Any) -> None:
        """
        :param mode: "sum", "max", "mean"
        :param num_pieces: how many features become one
        :param out_dim: feature dim of the output
        """
        super().__init__(out_dim=out_dim, **kwargs)
        self.mode = mode
        self.num_pieces = num_pieces
        check_known("mode", mode, [name for name in _MODES if not name.startswith("arg")], where=self.where())
        if num_pieces < 1:
            raise ConfigError(f"{self.where()}: option 'num_pieces' has to be at least 1, not {num_pieces}.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., F / num_pieces]"""
        mode = "mean" if self.mode == "avg" else self.mode
        return rf.reduce_out(source, mode=mode, num_pieces=self.num_pieces, out_dim=self._out_dim)


def _one_of(layer: _ConcatInputLayer, **options: Any) -> tuple[str, Any]:
    """:return: name and value of the one of two options that is given"""
    given = [(name, value) for name, value in options.items() if value is not NotSpecified and value is not None]
    if len(given) != 1:
        raise ConfigError(f"{layer.where()}: give either the option 'axis' or 'axes'.")
    return given[0]


def _dims_to_reduce(layer: ReduceLayer | MathNormLayer, source: Tensor, batch_dim_axis: int | None) -> list[Dim]:
    with naming_option(layer.axes_option):
        dims = layer.dims_of(source, layer.axes, batch_dim_axis=batch_dim_axis)
        if not dims:
            source.get_axis_from_description(layer.axes)  # raises, with the dims that are there
        is_over_batch = any(dim.is_batch_dim() for dim in dims)  # to which the hypotheses of a search belong
        return [*dims, *(dim for dim in source.dims if is_over_batch and dim.is_beam_dim() and dim not in dims)]


def _with_kept_dims(layer: _ConcatInputLayer, out: Tensor, source: Tensor, dims: list[Dim]) -> Tensor:
    """:return: out, with a dim of size 1 for each of `dims`, at the same place and in the same role"""
    new_dims = list(source.dims)
    for dim, new_dim in zip(dims, layer.new_dims_of_size_one("reduced", dims, beside=out.dims), strict=True):
        new_dims[source.get_axis_from_description(dim)] = new_dim
        out = rf.expand_dim(out, new_dim)
    out = out.copy_compatible_to_dims(new_dims)
    for role in ("time_dim_axis", "feature_dim_axis"):
        axis = getattr(source, role)
        if axis is not None and source.dims[axis] in dims and not (role == "feature_dim_axis" and out.sparse):
            setattr(out, role, axis)
    return out


def _norm(x: Tensor, p: float, dims: list[Dim]) -> Tensor:
    if p == float("inf"):
        return rf.maximum(rf.reduce_max(rf.abs(x), axis=dims), 0.0)  # of nothing, the maximum is the lowest number
    if p == 1:
        return rf.reduce_sum(rf.abs(x), axis=dims)
    if p == 2:
        return rf.sqrt(rf.reduce_sum(rf.square(x), axis=dims))
    return rf.reduce_sum(rf.abs(x) ** p, axis=dims) ** (1.0 / p)
