"""All frames so far, in a loop over frames."""

from __future__ import annotations

from returnn.frontend._ops.axes import AxesOps
from returnn.frontend._ops.concat import ConcatOps
from returnn.frontend._ops.creation import CreationOps
from returnn.frontend._ops.gather import GatherOps
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import padded_dim


class CumConcatOps(GatherOps, CreationOps, AxesOps, ConcatOps):
    """One step of such a loop."""

    @classmethod
    def cum_concat_step(cls, source: Tensor, *, prev_accum: Tensor, axis: Dim, out_spatial_dim: Dim) -> Tensor:
        """
        :param source: the frame of this step, {...}
        :param prev_accum: the frames before, {..., axis}
        :param axis: of the frames before
        :param out_spatial_dim: axis + 1
        :return: {..., out_spatial_dim}: the frame right behind the last one of each sequence
        """
        one = Dim(1, name="frame", kind=axis.kind, auto_generated=True)
        in_memory = padded_dim(axis) + one if axis.need_masking() else out_spatial_dim
        pairs = [(prev_accum, axis), (cls.expand_dim(source, one), one)]
        out = cls.concat(*pairs, allow_broadcast=True, out_dim=in_memory)
        if in_memory is out_spatial_dim:
            return out
        # The new frame is behind all frames in memory, and so behind padded ones of shorter sequences.
        position = cls.range_over_dim(out_spatial_dim).copy_with_roles(sparse_dim=None)
        is_new = cls.compare(position, "equal", axis.get_size_tensor(), allow_broadcast_all_sources=True)
        new = padded_dim(axis).get_size_tensor()
        position = cls.where(is_new, new, position, allow_broadcast_all_sources=True)
        return cls.gather(out, indices=position, axis=in_memory)
