"""
Batch and beam as one axis.

In a search, the beam is a dim of its own. Code of users sees raw tensors, and knows batch and beam as one axis. So a
tensor has them merged on its way out, and split again on its way back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor


class BeamAxis:
    """One axis for batch and beam. It remembers the dims that it made, and takes them back on the way back."""

    def __init__(self, batch: Dim, beam: Dim) -> None:
        """
        :param batch: dim of the batch
        :param beam: dim of the hypotheses
        """
        self.batch = batch
        self.beam = beam
        self.both: Dim = batch * beam
        self._merged_dims: dict[Dim, Dim] = {}

    @classmethod
    def of(cls, tensors: Iterable[Tensor]) -> BeamAxis | None:
        """:return: for the beam that these tensors have, None if there is none"""
        for x in tensors:
            for dim in x.dims:
                if dim.is_beam_dim():
                    return cls(x.get_batch_dim_tag(), dim)
        return None

    def merge(self, x: Tensor) -> Tensor:
        """
        :param x: [B, beam, ...]. If it only has one of both, its values are repeated; if it has none, it stays
        :return: [B * beam, ...]; dims with lengths per sequence have lengths per hypothesis
        """
        if self.batch not in x.dims and self.beam not in x.dims:
            return x
        x = self._with_both(x)
        axis = x.dims.index(self.batch)
        out, _ = rf.merge_dims(x, dims=[self.batch, self.beam], out_dim=self.both)
        if x.feature_dim is not None:
            out = out.copy_with_roles(feature_dim=x.feature_dim)
        out = out.copy_move_axis(out.dims.index(self.both), min(axis, len(out.dims) - 1))
        for dim in list(out.dims):
            lengths = dim.dyn_size_ext if dim.size is None and dim != self.both else None
            if lengths is not None and self.batch in lengths.dims:
                out = _with_other_dim(out, dim, self._merged_dim(dim, lengths))
        return out

    def merged_dim(self, dim: Dim) -> Dim:
        """:return: the dim that stands for this one where batch and beam are merged; itself, if none does"""
        return self._merged_dims.get(dim, dim)

    def split(self, x: Tensor) -> Tensor:
        """
        :param x: [B * beam, ...]
        :return: [B, beam, ...]
        """
        for dim, merged in self._merged_dims.items():
            if merged in x.dims:
                x = _with_other_dim(x, merged, dim)
        if self.both not in x.dims:
            return x
        out = rf.split_dims(x, axis=self.both, dims=[self.batch, self.beam])
        if x.feature_dim is not None:
            out = out.copy_with_roles(feature_dim=x.feature_dim)
        return out

    def _with_both(self, x: Tensor) -> Tensor:
        return rf.expand_to(x, (self.batch, self.beam))

    def _merged_dim(self, dim: Dim, lengths: Tensor) -> Dim:
        if dim not in self._merged_dims:
            merged = Dim(None, name=dim.name or str(dim), kind=dim.kind)
            dims = [self.batch, self.beam]
            merged.dyn_size_ext = rf.merge_dims(self._with_both(lengths), dims=dims, out_dim=self.both)[0]
            merged.bounded_by = dim if dim.can_be_longer_in_memory() else None
            self._merged_dims[dim] = merged
        return self._merged_dims[dim]


def _with_other_dim(x: Tensor, old: Dim, new: Dim) -> Tensor:
    feature, time, raw = x._feature_dim_axis, x._time_dim_axis, x.raw_tensor
    out: Any = x.copy_template_replace_dim_tag(x.dims.index(old), new)
    out.raw_tensor = raw
    out._feature_dim_axis, out._time_dim_axis = feature, time
    return out
