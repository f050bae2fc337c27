"""What the batch axis of a tensor consists of, and merging other axes into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from returnn.tensor._frontend import operations
from returnn.tensor.batch_info import BatchInfo, BeamDim, FixedDim, SearchBeam
from returnn.tensor.dim import Dim, batch_dim
from returnn.tensor.tensor_lengths import TensorLengths
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from typing_extensions import Self


SIZE_OF_PLACEHOLDERS = "batch_dim:size"  # name of the size of the batch where it follows from what is fed


class TensorBatch(TensorLengths):
    """The floor of `Tensor` about the batch axis."""

    @property
    def batch(self) -> BatchInfo | None:
        """What the batch axis consists of. None without a batch axis."""
        axis = self.batch_dim_axis
        if self._batch is not None or axis is None:
            return self._batch
        return batch_info_of_dim(self.dims[axis])

    @batch.setter
    def batch(self, batch: BatchInfo | None) -> None:
        self._batch = batch
        if batch is not None:
            self._beam = batch.beam

    @property
    def beam(self) -> SearchBeam | None:
        """The hypotheses of a search that the tensor has, as an axis of their own or as part of the batch axis."""
        if self._beam is not None:
            return self._beam
        beam_dims = [dim for dim in self.dims if dim.is_beam_dim()]
        if beam_dims:
            return SearchBeam.of_dim(beam_dims[-1])
        axis = self.batch_dim_axis
        return None if axis is None else batch_info_of_dim(self.dims[axis]).beam

    @beam.setter
    def beam(self, beam: SearchBeam | None) -> None:
        self._beam = beam
        if self._batch is not None:
            self._batch = self._batch.copy_set_beam(beam)

    def get_batch_dim(self) -> Any:
        """:return: size of the batch axis, as number or raw scalar"""
        return self.get_batch_dim_tag().get_dim_value()

    def copy_extend_with_beam(self, beam: SearchBeam | None) -> Self:
        """:return: with the values of each batch entry repeated for each hypothesis, as part of the batch axis"""
        if beam is None or self.beam == beam:
            return self.copy()
        if self.beam is not None:
            raise DimError(f"{self}: has the beam {self.beam} already, cannot get {beam}.")
        rf = operations()
        batch = self.get_batch_dim_tag()
        expanded = rf.expand_dim(self, beam.dim)
        merged, _ = rf.merge_dims(expanded, dims=(batch, beam.dim), out_dim=batch * beam.dim)
        new = merged.copy_with_batch_dim_axis(self.dims.index(batch))
        new._beam = beam
        own = self.batch
        new._batch = own.copy_extend_with_beam(beam) if own is not None else None
        return new

    def with_own_beam(self, x: Self) -> Self:
        """:return: another tensor, with its values repeated for each hypothesis, if the own batch axis has these"""
        axis = self.batch_dim_axis
        if axis is None or self.beam is None or self.dims[axis] in x.dims or not self.dims[axis].is_derived():
            return x
        return x.copy_extend_with_beam(self.beam) if x.have_batch_axis() else x

    def lengths_of_axis(self, axis: int) -> Any:
        return self.with_own_beam(super().lengths_of_axis(axis))

    def copy_merge_into_batch(self, axes: Sequence[int]) -> Self:
        """
        :param axes: counted with the batch axis, which is among them; the first one is the outermost
        :return: with these axes as one, which is the batch axis
        """
        dims = [self.dims[axis] for axis in axes]
        if not any(dim.is_batch_dim() for dim in dims):
            raise DimError(f"{self}: the batch axis has to be among the axes to merge, got {dims}.")
        merged, _ = operations().merge_dims(self, dims=dims)
        return merged


def declare_to_be_the_batch(dims: Sequence[Dim]) -> None:
    """
    A batch dim that a config has made itself, `Dim(kind=Dim.Types.Batch, ...)`, is from now on `batch_dim`: a network
    has only one batch, and configs from before there was `batch_dim` have such dims. Those with a size or lengths, and
    computed ones, are others.

    :param dims: in which data was described
    """
    for dim in dims:
        if dim.is_batch_dim() and dim.size is None and dim.dyn_size_ext is None and not dim.is_derived():
            dim.declare_same_as(batch_dim)


def batch_info_of_dim(dim: Dim) -> BatchInfo:
    """:return: what a batch dim consists of: the factors of the product that it is, or just the batch"""
    known: BatchInfo | None = dim.get_same_base()._lookup("batch info")
    if known is not None:
        return known
    parts = dim.axis_split_info()
    if len(parts) <= 1:
        parts = [dim]
    batch = next((i for i, part in enumerate(parts) if isinstance(part, Dim) and part.is_batch_dim()), 0)
    info: BatchInfo | None = None
    for part in parts[batch:]:
        info = _extended(info, part, None)
    for part in reversed(parts[:batch]):
        info = _extended(info, part, 0)
    assert info is not None
    info.batch_dim_tag = dim
    if dim.dyn_size is not None:
        set_batch_info_of_dim(dim, info)
    return info


def _extended(info: BatchInfo | None, part: Dim | int, index: int | None) -> BatchInfo:
    """:return: with one more factor, the outermost one for index 0, otherwise the innermost one"""
    if isinstance(part, int):
        return BatchInfo(info, FixedDim(part), index)
    if part.is_batch_dim():
        size = part.get_dim_value() if part.dyn_size is not None else part.size
        return BatchInfo.make_global_batch_info(-1 if size is None else size)
    if part.is_beam_dim():
        return BatchInfo(info, BeamDim(SearchBeam.of_dim(part)), index)
    base = info or BatchInfo.make_global_broadcast_batch_info()
    return base.copy_extend_with_padded_or_fixed_dim_tag(part, new_dim_idx=index)


def set_batch_info_of_dim(dim: Dim, info: BatchInfo) -> None:
    """Says what a batch dim consists of, where this does not follow from its factors."""
    dim.get_same_base()._keep("batch info", info, in_scope=dim.dyn_size is not None)
