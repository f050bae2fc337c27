"""
What the batch axis of a tensor consists of.

Usually it is just the batch. Where axes were merged into it (frames of all sequences in one axis, or the hypotheses of
a search), `BatchInfo` says which, outermost first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from returnn.tensor._frontend import operations
from returnn.tensor.dim import Dim
from returnn.util.not_specified import NotSpecified


class SearchBeam:
    """The hypotheses of a search, as an axis."""

    def __init__(
        self,
        beam_size: int,
        dependency: Any = NotSpecified,
        name: str | None = None,
        _next_frame: SearchBeam | None = None,
    ) -> None:
        """
        :param beam_size: number of hypotheses
        :param dependency: the beam in the step before which these hypotheses come from
        :param name: the layer that made the choice
        :param _next_frame: if this is the beam of the previous step: the one of the current step
        """
        self.beam_size = beam_size
        self.dependency = dependency
        self.name = name
        self._next_frame = _next_frame
        self._dim: Dim | None = None

    @classmethod
    def of_dim(cls, dim: Dim) -> SearchBeam:
        """:return: the hypotheses that this dim counts"""
        beam = cls(dim.size or 0, name=dim.name)
        beam._dim = dim
        return beam

    @property
    def dim(self) -> Dim:
        """The dim of the hypotheses: the same one for all tensors that get this beam."""
        if self._dim is None:
            self._dim = Dim(self.beam_size, name=self.name, kind=Dim.Types.Beam)
        return self._dim

    def __repr__(self) -> str:
        return f"SearchBeam({self.name!r}, {self.beam_size})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SearchBeam) and (self.name, self.beam_size) == (other.name, other.beam_size)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.name, self.beam_size))

    def copy_as_prev_frame(self) -> SearchBeam:
        """:return: the beam of the previous step"""
        if isinstance(self.dependency, SearchBeam):
            return self.dependency
        return SearchBeam(self.beam_size, name=f"prev:{self.name}", _next_frame=self)

    def _depends_on(self, other: SearchBeam) -> bool:
        beam: Any = self
        while isinstance(beam, SearchBeam):
            if beam == other:
                return True
            beam = beam.dependency if isinstance(beam.dependency, SearchBeam) else None
        return other._next_frame is not None and other._next_frame == self

    @classmethod
    def get_combined_beam(
        cls, beam1: SearchBeam | None, beam2: SearchBeam | None = None, *beams: SearchBeam | None
    ) -> SearchBeam | None:
        """:return: the beam of something that is computed from tensors with these beams: the latest of them"""
        result = None
        for beam in (beam1, beam2, *beams):
            if beam is not None and (result is None or beam._depends_on(result)):
                result = beam
        return result


class VirtualDimBase:
    """One part of a batch axis."""

    def short_repr(self) -> str:
        """:return: one word for people"""
        raise TypeError(f"{type(self).__name__} is abstract")

    @property
    def size(self) -> Any:
        """Number of entries, as number or raw scalar."""
        raise TypeError(f"{type(self).__name__} is abstract")


class GlobalBatchDim(VirtualDimBase):
    """The batch itself, as it comes from the dataset."""

    def __init__(self, size: Any) -> None:
        self._size = size

    @property
    def size(self) -> Any:
        """Number of sequences."""
        return self._size

    def short_repr(self) -> str:
        """:return: one word for people"""
        return f"B({self._size})" if isinstance(self._size, int) else "B"


class FixedDim(VirtualDimBase):
    """An axis of fixed size, merged into the batch."""

    def __init__(self, size: int, dim_tag: Dim | None = None) -> None:
        self._size = size
        self.dim_tag = dim_tag

    @property
    def size(self) -> Any:
        """Size of the axis."""
        return self._size

    def short_repr(self) -> str:
        """:return: one word for people"""
        return f"{self.dim_tag.short_repr() if self.dim_tag else 'fixed'}({self._size})"


class _DynamicDim(VirtualDimBase):
    def __init__(self, dim_tag: Dim) -> None:
        self.dim_tag = dim_tag

    @property
    def size(self) -> Any:
        """Size of the axis in memory."""
        return self.dim_tag.get_dim_value()

    def short_repr(self) -> str:
        """:return: one word for people"""
        return f"{type(self).__name__}({self.dim_tag.short_repr()})"


class PaddedDim(_DynamicDim):
    """An axis with sequences of different lengths, merged into the batch together with its padding."""


class PackedDim(_DynamicDim):
    """An axis with sequences of different lengths, of which only the valid frames were merged into the batch."""

    @property
    def size(self) -> Any:
        """Number of valid frames of all sequences together."""
        lengths = self.dim_tag.get_size_tensor()
        return operations().reduce_sum(lengths, axis=lengths.dims).raw_tensor


class BeamDim(VirtualDimBase):
    """The hypotheses of a search, merged into the batch."""

    def __init__(self, beam: SearchBeam) -> None:
        self.beam = beam

    @property
    def size(self) -> Any:
        """Number of hypotheses."""
        return self.beam.beam_size

    def short_repr(self) -> str:
        """:return: one word for people"""
        return f"beam({self.beam.beam_size})"


_Part: TypeAlias = VirtualDimBase  # inside of the class, the name is an attribute
_GlobalPart: TypeAlias = GlobalBatchDim


class BatchInfo:
    """The parts of a batch axis."""

    VirtualDimBase = VirtualDimBase
    GlobalBatchDim = GlobalBatchDim
    FixedDim = FixedDim
    PaddedDim = PaddedDim
    PackedDim = PackedDim
    BeamDim = BeamDim

    def __init__(self, base: BatchInfo | None, new_dim: _Part | None, new_dim_index: int | None = None) -> None:
        """
        :param base: the batch that this one extends; None for the first one
        :param new_dim: what it adds; None for a batch of size 1, which others are broadcast to
        :param new_dim_index: where, among the parts of `base`; None: innermost
        """
        self.base = base
        self.virtual_dims: list[_Part] = list(base.virtual_dims) if base else []
        if new_dim is not None:
            self.virtual_dims.insert(len(self.virtual_dims) if new_dim_index is None else new_dim_index, new_dim)
        self.batch_dim_tag: Dim | None = base.batch_dim_tag if base else None
        self.descendants: list[BatchInfo] = []
        if base:
            base.descendants.append(self)

    def __repr__(self) -> str:
        return f"BatchInfo{{{self.short_repr()}}}"

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a BatchInfo belongs to a graph and cannot be pickled")

    def short_repr(self) -> str:
        """:return: the parts, in a line"""
        return "&".join(dim.short_repr() for dim in self.virtual_dims) or "broadcast"

    @classmethod
    def make_global_batch_info(cls, batch_dim: Any) -> BatchInfo:
        """
        :param batch_dim: number of sequences, as number or raw scalar
        :return: the batch as it comes from the dataset
        """
        return cls(None, GlobalBatchDim(batch_dim))

    @classmethod
    def make_global_broadcast_batch_info(cls) -> BatchInfo:
        """:return: a batch of size 1"""
        return cls(None, None)

    @property
    def dim(self) -> Any:
        """Number of entries, as number or raw scalar."""
        size: Any = 1
        is_packed = any(isinstance(virtual_dim, PackedDim) for virtual_dim in self.virtual_dims)
        for virtual_dim in self.virtual_dims:
            if is_packed and isinstance(virtual_dim, _GlobalPart):
                continue  # its sequences are counted by their frames
            size = virtual_dim.size if isinstance(size, int) and size == 1 else size * virtual_dim.size
        return size

    @property
    def static_dim(self) -> int | None:
        """Number of entries, if it is a fixed number."""
        return self.dim if isinstance(self.dim, int) else None

    @property
    def size(self) -> Any:
        """Same as `dim`."""
        return self.dim

    @property
    def dim_tag(self) -> Dim | None:
        """The dim of the batch axis."""
        return self.batch_dim_tag

    @property
    def key_axes(self) -> tuple[str, ...]:
        """What tells this batch from others: the names of its parts."""
        return tuple(dim.short_repr() for dim in self.virtual_dims)

    @property
    def beam(self) -> SearchBeam | None:
        """The beam in it, if any. If there are several, the innermost."""
        beams = [dim.beam for dim in self.virtual_dims if isinstance(dim, BeamDim)]
        return beams[-1] if beams else None

    def is_global_batch(self) -> bool:
        """:return: whether nothing was merged into it"""
        return len(self.virtual_dims) == 1 and isinstance(self.virtual_dims[0], GlobalBatchDim)

    def is_broadcast(self) -> bool:
        """:return: whether its size is 1, which others are broadcast to"""
        return not self.virtual_dims

    def get_base_chain(self) -> list[BatchInfo]:
        """:return: this one, the one that it extends, and so on"""
        return [self, *(self.base.get_base_chain() if self.base else [])]

    def get_global_base(self) -> BatchInfo:
        """:return: the first one in the chain"""
        return self.get_base_chain()[-1]

    def get_global_batch_dim(self) -> _GlobalPart:
        """:return: the part that comes from the dataset"""
        return next(dim for dim in self.virtual_dims if isinstance(dim, GlobalBatchDim))

    def copy_extend_with_beam(self, beam: SearchBeam | None) -> BatchInfo:
        """:return: this batch with the beam merged into it, innermost; itself if there is no beam"""
        return self if beam is None else self._extend(BeamDim(beam))

    def copy_set_beam(self, beam: SearchBeam | None) -> BatchInfo:
        """:return: this batch with this beam instead of the one it has"""
        return self.copy_remove_beam().copy_extend_with_beam(beam)

    def copy_remove_beam(self) -> BatchInfo:
        """:return: this batch without beams"""
        batch = self
        for dim in self.virtual_dims:
            if isinstance(dim, BeamDim):
                batch = batch.copy_remove_dim(dim)
        return batch

    def copy_remove_dim(self, remove_dim: _Part) -> BatchInfo:
        """:return: this batch without one of its parts"""
        batch = BatchInfo(None, None)
        batch.virtual_dims = [dim for dim in self.virtual_dims if dim is not remove_dim]
        batch.batch_dim_tag = self.batch_dim_tag
        return batch

    def copy_of_dim(self, dim_tag: Dim) -> BatchInfo:
        """:return: the same parts, as those of another dim: each merged dim has its own, although parts are shared"""
        if self.batch_dim_tag is not None and self.batch_dim_tag == dim_tag:
            return self
        batch = BatchInfo(None, None)
        batch.base, batch.virtual_dims = self.base, list(self.virtual_dims)
        batch.batch_dim_tag = dim_tag
        return batch

    def copy_extend_with_packed_dim_tag(self, dim_tag: Dim, batch_major: bool) -> BatchInfo:
        """:return: this batch with the valid frames of `dim_tag` merged into it, inner (batch_major) or outer"""
        return self._extend(PackedDim(dim_tag), None if batch_major else 0)

    def copy_extend_with_padded_dim_tag(
        self, dim_tag: Dim, batch_major: bool | None = None, new_dim_idx: int | None = None
    ) -> BatchInfo:
        """:return: this batch with all frames of `dim_tag` merged into it, inner (batch_major) or outer"""
        index = 0 if batch_major is False and new_dim_idx is None else new_dim_idx
        return self._extend(PaddedDim(dim_tag), index)

    def copy_extend_with_padded_or_fixed_dim_tag(
        self, dim_tag: Dim, batch_major: bool | None = None, new_dim_idx: int | None = None
    ) -> BatchInfo:
        """:return: this batch with the axis `dim_tag` merged into it, inner (batch_major) or outer"""
        if dim_tag.dimension is None:
            return self.copy_extend_with_padded_dim_tag(dim_tag, batch_major, new_dim_idx)
        index = 0 if batch_major is False and new_dim_idx is None else new_dim_idx
        return self._extend(FixedDim(dim_tag.dimension, dim_tag), index)

    @classmethod
    def get_common_batch_info(cls, batches: Sequence[BatchInfo | None]) -> BatchInfo | None:
        """:return: the batch of something that is computed from tensors with these batches"""
        result: BatchInfo | None = None
        for batch in batches:
            if batch is not None and (result is None or len(batch.virtual_dims) > len(result.virtual_dims)):
                result = batch
        return result

    def _extend(self, new_dim: _Part, index: int | None = None) -> BatchInfo:
        for known in self.descendants:
            if known.base is self and known.key_axes == BatchInfo._key_with(self, new_dim, index):
                return known
        return BatchInfo(self, new_dim, index)

    def _key_with(self, new_dim: _Part, index: int | None) -> tuple[str, ...]:
        key = list(self.key_axes)
        key.insert(len(key) if index is None else index, new_dim.short_repr())
        return tuple(key)
