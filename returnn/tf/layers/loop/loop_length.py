"""How many frames a loop has, as far as it is known before the first one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.inputs import LoopInputs


@dataclass(frozen=True)
class LoopLength:
    """The number of frames of a loop."""

    is_known: bool  # before the loop. Otherwise a sequence may end in each frame
    most: Any  # number of frames, or the largest one: number, or raw scalar; None if there is no limit
    # [B], or of each hypothesis of a search around [B, beam], int32: the largest number of frames; None if it is `most`
    limits: Tensor | None
    num_unrolled: int | None  # so many frames are in the graph one after the other; None for a loop

    @property
    def size_of_arrays(self) -> Any:
        """Number of frames, as number or raw scalar; None for arrays that grow."""
        return self.most if self.is_known else None


def find_length(compiled: CompiledLoop) -> LoopLength:
    """:return: what is known before the loop"""
    inputs = compiled.inputs
    has_limit = inputs.max_seq_len is not None and (inputs.unroll or not inputs.has_known_length)
    limit = inputs.max_seq_len(_beam_around(compiled)) if has_limit else None
    if inputs.has_known_length:
        most, limits = inputs.time_dim.get_dim_value(), None
    else:
        limits = limit if isinstance(limit, Tensor) and limit.dims else None
        most = rf.reduce_max(limits, axis=limits.dims) if limits is not None else limit
        most = most.raw_tensor if isinstance(most, Tensor) else most
    return LoopLength(inputs.has_known_length, most, limits, _num_unrolled(inputs, most, limit))


def _beam_around(compiled: CompiledLoop) -> Dim | None:
    """:return: the beam of a search around the loop, each hypothesis of which has an end of its own in the loop"""
    if compiled.inferred.beam is not None or not compiled.step.has_end:
        return compiled.inferred.beam_around
    beam = compiled.inputs.layer.network.beams.of(compiled.inferred.layers["end"].output)
    return None if beam is None else beam.dim


def _num_unrolled(inputs: LoopInputs, most: Any, limit: Any) -> int | None:
    if not inputs.unroll:
        return None
    if most is not None and not tf.is_tensor(most):
        return int(most)
    return limit if isinstance(limit, int) else None
