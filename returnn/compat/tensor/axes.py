"""Axes by their number, with or without the batch axis, where the core knows dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from returnn.tensor.dim import Dim
from returnn.tensor.tensor import Tensor
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorOldAxes(Tensor):
    """What `Tensor` gets from here."""

    def get_description_from_axis(self, axis: int) -> str | Dim:
        """:return: a description that means this axis in this tensor and in those computed from it"""
        if axis == self.batch_dim_axis:
            return "B"
        return self.dims[axis]

    def get_axis_by_tag_name(self, name: str, spatial_only: bool = False) -> int:
        """
        :param name: part of the name of the dim; upper and lower case are the same
        :param spatial_only: leave out batch and feature axes
        :raises DimError: if no dim has this name, or several
        """
        return self.get_axis_from_description(f"{'stag' if spatial_only else 'tag'}:{name}")

    def get_axes(
        self, exclude_time: bool = False, exclude_batch: bool = False, exclude_feature: bool = False
    ) -> list[int]:
        """:return: all axes but the excluded ones"""
        excluded = {
            self.time_dim_axis if exclude_time else None,
            self.batch_dim_axis if exclude_batch else None,
            self.feature_dim_axis if exclude_feature else None,
        }
        return [i for i in range(len(self.dims)) if i not in excluded]

    def get_spatial_axes(self) -> list[int]:
        """:return: all axes but batch and feature, counted without the batch axis"""
        return [self._count_without_batch(i) for i in self.get_spatial_batch_axes()]

    def get_feature_batch_axes(self) -> list[int]:
        """:return: the feature axis, counted with the batch axis; nothing if there is none"""
        return [] if self.feature_dim_axis is None else [self.feature_dim_axis]

    def get_feature_axes(self) -> list[int]:
        """:return: the feature axis, counted without the batch axis; nothing if there is none"""
        return [self._count_without_batch(i) for i in self.get_feature_batch_axes()]

    def have_dim_tag(self, tag: Dim, include_implicit: bool = True, unique: bool = False) -> bool:
        """
        :param tag: the dim to look for
        :param include_implicit: also look at the dims that the content depends on
        :param unique: it has to be there exactly once
        """
        dims = list(self.dims)
        if include_implicit:
            dims += [d for d in self.dim_tags_set_implicit_only if d not in dims]
        count = dims.count(tag)
        return count == 1 if unique else count > 0

    def find_matching_dims(self, dim_tag: Dim, is_equal_opts: dict[str, Any]) -> list[int]:
        """
        :param dim_tag: the dim to look for
        :param is_equal_opts: for `Dim.is_equal`
        :return: the axes that match; of those with equal dims, the ones with the highest priority
        """
        axes = [i for i, d in enumerate(self.dims) if d.is_equal(dim_tag, **is_equal_opts)]
        highest = max((self.dims[i].match_priority for i in axes), default=0)
        return [i for i in axes if self.dims[i].match_priority == highest]

    def find_matching_dim_map(
        self, other: Self, other_axes: Sequence[int], is_equal_opts: dict[str, Any] | None = None
    ) -> dict[int, int]:
        """
        :param other: another tensor
        :param other_axes: axes of it, counted with the batch axis
        :param is_equal_opts: for `Dim.is_equal`
        :return: axis of other -> axis of self
        :raises DimError: if an axis matches none here, or several
        """
        mapping: dict[int, int] = {}
        for other_axis in other_axes:
            dim = other.dims[other_axis]
            options = is_equal_opts or {"allow_same_feature_dim": True, "treat_feature_as_spatial": True}
            exact = [i for i in self.find_matching_dims(dim, {}) if i not in mapping.values()]
            axes = exact or [i for i in self.find_matching_dims(dim, options) if i not in mapping.values()]
            if len(axes) != 1:
                what = "none" if not axes else "several"
                raise DimError(f"{other}: the dim {dim} matches {what} of the dims of {self}.")
            mapping[other_axis] = axes[0]
        return mapping

    def get_dim(self, axis: int) -> Any:
        """:return: size of the axis in memory, as number or raw scalar"""
        return self.dims[axis].get_dim_value()

    def get_dim_tag(self, axis: int) -> Dim:
        """:return: the dim of the axis, counted with the batch axis"""
        return self.dims[axis]

    def get_batch_axis(self, axis: int) -> int:
        """:return: axis counted with the batch axis, for one counted without it"""
        batch_axis = self.batch_dim_axis
        return axis if batch_axis is None or axis < batch_axis else axis + 1

    def get_batch_axis_excluding_batch(self, axis: int) -> int | None:
        """:return: axis counted without the batch axis, for one counted with it; None for the batch axis itself"""
        return None if axis == self.batch_dim_axis else self._count_without_batch(axis)

    def _count_without_batch(self, axis: int) -> int:
        batch_axis = self.batch_dim_axis
        return axis if batch_axis is None or axis < batch_axis else axis - 1
