"""Long sequences as several short ones, which overlap, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import at_least, padded_dim
from returnn.tf.layers.axes.gather import only_valid_frames
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.layer_dims import dim_in_place_of
from returnn.tf.layers.core.merged_lengths import merge_dims, split_dims
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.values.ranges import frame_numbers
from returnn.util.errors import ConfigError


@dataclass(frozen=True)
class Chunks:
    """How sequences were cut into chunks."""

    batch: Dim
    time: Dim
    chunks: Dim  # [B, chunks] is the batch of the chunks
    frames: Dim  # of each chunk, with lengths [B, chunks]
    step: int  # distance of the chunks, in frames


class TimeChunkingLayer(_ConcatInputLayer):
    """
    Cuts each sequence into chunks, which become sequences of their own.

    Source [B, T, ...], output [B * chunks, chunk_size, ...]. All sequences have as many chunks as the longest one; what
    is beyond the end of a sequence is empty.
    """

    layer_class = "time_chunking"
    recurrent = True

    def __init__(
        self, chunk_size: int, chunk_step: int, axis: Any = "T", out_dim: Dim | None = None, **kwargs: Any
    ) -> None:
        """
        :param chunk_size: number of frames of a chunk
        :param chunk_step: distance of the chunks, in frames
        :param axis: the dim, by description
        :param out_dim: the dim of the frames of a chunk
        """
        super().__init__(out_dim=out_dim, **kwargs)
        self.chunk_size = chunk_size
        self.chunk_step = chunk_step
        self.axis = axis
        self.chunks: Chunks | None = None
        for option, value in (("chunk_size", chunk_size), ("chunk_step", chunk_step)):
            if value < 1:
                raise ConfigError(f"{self.where()}: option {option!r}: expected at least 1, got {value}.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B * chunks, chunk_size, ...]"""
        time = self.dim_of(source, self.axis, option="axis")
        batch = source.get_batch_dim_tag()
        rest = at_least(padded_dim(time), self.chunk_size).sub_right(self.chunk_size)
        chunks = rest.ceildiv_right(self.chunk_step) + 1
        frames = self._frames(time, chunks)
        self.chunks = Chunks(batch, time, chunks, frames, self.chunk_step)
        position = rf.combine_bc(_starts(chunks, self.chunk_step), "+", frame_numbers(frames))
        out = rf.gather(source, indices=position, axis=time, clip_to_valid=True)
        out, _ = merge_dims(self, out, [batch, chunks])
        if self._out_dim is not None and not self._out_dim.is_dim_known():
            self._out_dim.declare_same_as(dim_in_place_of(self.network.dims_of_layers, frames, out))
        return out

    def _frames(self, time: Dim, chunks: Dim) -> Dim:
        """:return: the dim of the frames of each chunk"""
        frames = self.new_dim("chunk")
        if frames.dyn_size is None:
            rest = rf.combine_bc(time.get_size_tensor(), "-", _starts(chunks, self.chunk_step))
            frames.dyn_size_ext = rf.clip_by_value(rest, 0, self.chunk_size)
        return frames


class TimeUnChunkingLayer(_ConcatInputLayer):
    """
    The inverse of `TimeChunkingLayer`. Where chunks overlap, it takes the mean.

    Source [B * chunks, chunk_size, ...], output [B, T, ...].
    """

    layer_class = "time_unchunking"
    recurrent = True

    def __init__(self, chunking_layer: LayerBase, **kwargs: Any) -> None:
        """
        :param chunking_layer: that cut the sequences into chunks
        """
        super().__init__(**kwargs)
        if not isinstance(chunking_layer, TimeChunkingLayer):
            name = chunking_layer.get_absolute_name()
            raise ConfigError(f"{self.where()}: option 'chunking_layer': {name!r} is not of class 'time_chunking'.")
        self.chunking_layer = chunking_layer

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T, ...]"""
        chunks = self.chunking_layer.chunks
        assert chunks is not None
        batch = chunks.batch * chunks.chunks
        if batch not in source.dims or not source.have_time_axis():
            raise ConfigError(
                f"{self.where()}: the source has to have chunks of {self.chunking_layer.name!r} and their frames,"
                f" [{batch}, T, ...].\n  Source: {source}."
            )
        source = split_dims(self, source, batch, [chunks.batch, chunks.chunks])
        frames = chunks.frames if chunks.frames in source.dims else self.dim_of(source, "T")
        position = rf.combine_bc(_starts(chunks.chunks, chunks.step), "+", frame_numbers(frames))
        position = only_valid_frames(position, [chunks.chunks, frames])
        out = rf.scatter_mean(source, indices=position, indices_dim=[chunks.chunks, frames], out_dim=chunks.time)
        return out.copy_with_roles(time_dim=chunks.time)


def _starts(chunks: Dim, step: int) -> Tensor:
    """:return: [chunks], the first frame of each"""
    return rf.combine_bc(frame_numbers(chunks), "*", step)
