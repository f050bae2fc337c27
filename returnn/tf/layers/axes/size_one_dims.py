"""Dims of size 1: making and removing them."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError, nearest_hint

_KINDS_OF_NEW_DIM = ("f", "feature", "spatial", "t", "time")


class SqueezeLayer(_ConcatInputLayer):
    """
    Removes dims of size 1.

    Source [..., axis(1)], output [...].
    """

    layer_class = "squeeze"
    keeps_zeros = True

    def __init__(
        self, axis: Any, enforce_batch_dim_axis: int | None = None, allow_no_op: bool = False, **kwargs: Any
    ) -> None:
        """
        :param axis: the dims, by description; "auto" for all of size 1
        :param enforce_batch_dim_axis: where the batch axis stands, for axes given by numbers. Default: in front
        :param allow_no_op: whether it is fine that there is no such dim
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.enforce_batch_dim_axis = enforce_batch_dim_axis
        self.allow_no_op = allow_no_op

    def compute(self, source: Tensor) -> Tensor:
        """:return: without the dims"""
        dims = self._dims(source)
        if not dims and not self.allow_no_op:
            raise ConfigError(
                f"{self.where()}: option 'axis': {self.axis!r} is no dim of the source {source}.\n"
                "  If this is fine, give allow_no_op=True."
            )
        for dim in dims:
            source = rf.squeeze(source, dim)
        return source

    def _dims(self, source: Tensor) -> list[Dim]:
        if self.axis == "auto":
            return [dim for dim in self.dims_of(source, "dim:1", optional=True) if not dim.is_batch_dim()]
        place = self.enforce_batch_dim_axis
        return self.dims_of(source, self.axis, option="axis", optional=True, batch_dim_axis=place)


class ExpandDimsLayer(_ConcatInputLayer):
    """
    Adds a dim, of size 1 or more, along which the values are repeated.

    Source [...], output [..., axis].
    """

    layer_class = "expand_dims"
    keeps_zeros = True

    def __init__(self, axis: Any, dim: int | Dim = 1, **kwargs: Any) -> None:
        """
        :param axis: "F": the new dim is the feature dim; "spatial" or "T": it is a spatial dim, and the time dim if
            there is none. In old configs, also the number of its axis, counted with the batch axis in front.
        :param dim: its size, or the dim itself
        """
        super().__init__(**kwargs)
        if not isinstance(axis, int) and str(axis).lower() not in _KINDS_OF_NEW_DIM:
            hint = nearest_hint(str(axis), _KINDS_OF_NEW_DIM)
            raise ConfigError(f"{self.where()}: option 'axis': there is no kind {axis!r} of a new dim.\n  {hint}")
        self.axis = axis
        self.dim = dim

    def compute(self, source: Tensor) -> Tensor:
        """:return: with the dim"""
        is_feature = isinstance(self.axis, str) and self.axis.lower() in ("f", "feature")
        if isinstance(self.axis, int) and source.have_batch_axis():
            source = source.copy_as_batch_major()
        had_time = source.have_time_axis()
        kind = Dim.Types.Feature if is_feature else Dim.Types.Spatial
        dim = self.dim
        if not isinstance(dim, Dim):
            dim = self.new_dim_beside("expand-dims", dim, source.dims, kind=kind)
        out = rf.expand_dim(source, dim)
        out = out.copy_move_axis(out.get_axis_from_description(dim), self._place(source, is_feature))
        if is_feature:
            return out.copy_with_roles(feature_dim=dim)
        return out if had_time or not isinstance(self.axis, str) else out.copy_with_roles(time_dim=dim)

    def _place(self, source: Tensor, is_feature: bool) -> int:
        if isinstance(self.axis, int):
            return self.axis if self.axis >= 0 else len(source.dims) + 1 + self.axis
        if is_feature or source.feature_dim_axis is None:
            return len(source.dims)
        return source.feature_dim_axis
