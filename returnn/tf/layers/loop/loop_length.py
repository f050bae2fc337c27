"""How many frames a loop has, as far as it is known before the first one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.loop.inputs import LoopInputs


@dataclass(frozen=True)
class LoopLength:
    """The number of frames of a loop."""

    is_known: bool  # before the loop. Otherwise a sequence may end in each frame
    most: Any  # number of frames, or the largest one: number, or raw scalar; None if there is no limit
    limits: Tensor | None  # [B], int32: the largest number of frames of each sequence, if that is not `most` for all
    num_unrolled: int | None  # so many frames are in the graph one after the other; None for a loop

    @property
    def size_of_arrays(self) -> Any:
        """Number of frames, as number or raw scalar; None for arrays that grow."""
        return self.most if self.is_known else None


def find_length(inputs: LoopInputs) -> LoopLength:
    """:return: what is known before the loop"""
    if inputs.has_known_length:
        most, limits = inputs.time_dim.get_dim_value(), None
    else:
        limit = None if inputs.max_seq_len is None else inputs.max_seq_len()
        limits = limit if isinstance(limit, Tensor) and limit.dims else None
        most = rf.reduce_max(limits, axis=limits.dims) if limits is not None else limit
        most = most.raw_tensor if isinstance(most, Tensor) else most
    return LoopLength(inputs.has_known_length, most, limits, _num_unrolled(inputs, most))


def _num_unrolled(inputs: LoopInputs, most: Any) -> int | None:
    if not inputs.unroll:
        return None
    if most is not None and not tf.is_tensor(most):
        return int(most)
    limit = None if inputs.max_seq_len is None else inputs.max_seq_len()
    return limit if isinstance(limit, int) else None
