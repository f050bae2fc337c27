"""Copies of a tensor in the layouts that old layer classes expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from returnn.compat.tensor.lengths import TensorOldLengths
from returnn.tensor._frontend import operations
from returnn.tensor.batch_info import BatchInfo, BeamDim
from returnn.tensor.dim import Dim, batch_dim
from returnn.tensor.dim_types import DimKind
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorOldLayout(TensorOldLengths):
    """What `Tensor` gets from here."""

    def copy_as_time_batch_major(self) -> Self:
        """:return: (time, batch, ...); without a batch axis, with the time axis first"""
        new = self.copy_as_batch_major() if self.have_batch_axis() else self
        return new.copy_as_time_major()

    def copy_as_batch_feature_major(self) -> Self:
        """:return: (batch, feature, ...)"""
        return self.copy_with_feature_dim_axis(0).copy_as_batch_major()

    def copy_as_batch_spatial_major(self) -> Self:
        """:return: (batch, spatial axes, feature)"""
        new = self.copy_as_batch_major()
        return new.copy_with_feature_last() if new.have_feature_axis() else new

    def copy_squeeze_axes(self, axes: Sequence[int]) -> Self:
        """
        :param axes: axes of size 1, counted with the batch axis
        :return: without them
        """
        axes = [self._check_axis(axis) for axis in axes]
        wrong = [self.dims[axis] for axis in axes if self.dims[axis].size != 1]
        if wrong:
            raise DimError(f"{self}: only axes of size 1 can be removed, not {wrong}.")
        keep = [i for i in range(len(self.dims)) if i not in axes]
        new = self._with_axes([self.dims[i] for i in keep], keep)
        if self._raw_tensor is not None:
            new._raw_tensor = self._raw_backend.squeeze_raw(self._raw_tensor, axes)
        return new

    def copy_add_batch_dim(
        self, batch_dim_axis: int, batch: BatchInfo | None = None, dim_tag: Dim | None = None
    ) -> Self:
        """
        :param batch_dim_axis: where
        :param batch: what the batch consists of; the values are repeated for each entry. Default: the axis has size 1
        :param dim_tag: the dim of the batch
        """
        if self.have_batch_axis():
            raise DimError(f"{self}: has a batch axis already.")
        new = self.copy_add_dim_by_tag(dim_tag or batch_dim, unbroadcast=batch is not None, axis=batch_dim_axis)
        new.batch = batch
        return new

    def copy_add_spatial_dim(
        self, spatial_dim_axis: int | None = None, dim: int | Dim | None = 1, auto_time_dim_axis: bool = True
    ) -> Self:
        """
        :param spatial_dim_axis: where, counted with the batch axis
        :param dim: its size, or the dim itself
        :param auto_time_dim_axis: the new axis is the time axis, if there was none
        """
        new_dim = (
            dim if isinstance(dim, Dim) else Dim(dim, name="added-spatial", kind=DimKind.Spatial, auto_generated=True)
        )
        had_time = self.have_time_axis()
        axis = self.get_default_new_axis_for_dim_tag(new_dim) if spatial_dim_axis is None else spatial_dim_axis
        axis = axis % (len(self.dims) + 1)
        new = self.copy_add_dim_by_tag(new_dim, unbroadcast=True, axis=axis)
        if auto_time_dim_axis and not had_time:
            new.time_dim_axis = axis
        return new

    def copy_add_feature_dim(self, axis: int | None = None) -> Self:
        """:return: with a feature axis of size 1"""
        new_dim = Dim(1, name="added-feature", kind=DimKind.Feature, auto_generated=True)
        new = self.copy_add_dim_by_tag(new_dim, axis=axis)
        new.feature_dim_axis = next(i for i, d in enumerate(new.dims) if d is new_dim)
        return new

    def copy_split_feature_dim(self, new_feature_dim: int) -> Self:
        """:return: with the feature axis of size n as two: n // new_feature_dim, and new_feature_dim"""
        axis = self.get_axis_from_description("F")
        size = self.dims[axis].size
        if size is None or size % new_feature_dim:
            raise DimError(f"{self}: the feature dim cannot be split into pieces of {new_feature_dim}.")
        outer = Dim(size // new_feature_dim, name="feature-split-outer", kind=DimKind.Spatial, auto_generated=True)
        inner = Dim(new_feature_dim, name="feature-split-inner", kind=DimKind.Feature, auto_generated=True)
        return operations().split_dims(self, axis=self.dims[axis], dims=(outer, inner))

    def get_static_batch_dim(self) -> int | None:
        """:return: size of the batch axis if it is a fixed number"""
        return self.get_batch_dim_tag().size

    def copy_extend_batch(self, batch: BatchInfo) -> Self:
        """:return: with the values repeated for each entry of a larger batch, whose outer part is the own one"""
        new = self
        own = self.batch
        for part in batch.virtual_dims[len(own.virtual_dims) if own else 0 :]:
            if not isinstance(part, BeamDim):
                raise DimError(f"{self}: cannot be extended to the batch {batch}, only by beams.")
            new = new.copy_extend_with_beam(part.beam)
        return new
