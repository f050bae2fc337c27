"""
Frames that are kept from one batch to the next, for sequences which go on there (Dai et al. 2019, "Transformer-XL").

Each sequence has as many of them as it had frames. In the loop, they are a part of the state which does not change.
"""

from __future__ import annotations

from functools import partial

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.loop.across_batches.kept_state import KeptState


class KeptHistory:
    """The frames of all earlier batches, or of the last one."""

    def __init__(self, layer: LayerBase, word: str, *, only_last: bool) -> None:
        """
        :param layer: whose frames they are
        :param word: "keep_over_epoch": each epoch starts without any; "keep_over_epoch_no_init": only the first one
        :param only_last: keep only the frames of the last batch
        """
        self.layer = layer
        self.only_last = only_last
        self.dim = layer.new_dim("frames of earlier batches")
        self._frames = KeptState(layer, "frames", word)
        self._lengths = KeptState(layer, "lengths", word)

    def frames(self, frame: Tensor, *, is_in_loop: bool) -> Tensor:
        """
        :param frame: {B, ...}: what a single one looks like
        :param is_in_loop: whether this is a step of a loop
        :return: {B, ..., dim}
        """
        batch = [dim for dim in frame.dims if dim.is_batch_dim()] or [batch_dim]
        lengths = Tensor("lengths", dims=batch, dtype="int32")
        frames = frame.copy_template()._insert_dim(self.dim, len(batch))
        if not is_in_loop:
            self.dim.dyn_size_ext = self._lengths.initial(lengths)
            return self._frames.initial(frames)
        parts = {"earlier lengths": (self._lengths, lengths), "earlier frames": (self._frames, frames)}
        values = {
            key: self.layer.previous_state(key, x, initial=partial(s.initial, x)) for key, (s, x) in parts.items()
        }
        for key, value in values.items():
            self.layer.new_state(key, value)
        self.dim.dyn_size_ext = values["earlier lengths"]
        return values["earlier frames"]

    def keep(self, frames: Tensor, axis: Dim) -> None:
        """
        :param frames: {B, ..., axis}, of this batch
        :param axis: a dim
        """
        before = self._frames.before
        assert before is not None
        assert self._lengths.before is not None
        if not self.only_last:
            self.dim.dyn_size_ext = self._lengths.before
            frames, axis = rf.concat((before, self.dim), (frames, axis), allow_broadcast=True)
        lengths = axis.get_size_tensor()
        self._lengths.keep(rf.expand_to(lengths, self._lengths.before.dims))
        self._frames.keep(rf.replace_dim(frames, in_dim=axis, out_dim=self.dim)[0])
