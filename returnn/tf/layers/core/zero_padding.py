"""
Whether frames beyond the end of sequences are surely 0, as far as layers know. So windows may see them: that is what is
beyond the longest sequence, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from returnn.tensor import Tensor


class PaddedLayer(Protocol):
    """A layer, as far as this needs it."""

    @property
    def output(self) -> Tensor | None:
        """What it computes."""

    def has_zero_padding(self) -> bool:
        """:return: whether frames beyond the end of sequences are surely 0"""


def have_zero_padding(layers: Sequence[PaddedLayer]) -> bool:
    """
    :param layers: which are put together, frame by frame
    :return: whether frames beyond the end of sequences are surely 0 in all of them. A layer without these sequences has
        the same values for all frames, also for those beyond
    """
    sequences = {
        frozenset(dim for dim in layer.output.dims if dim.is_dynamic_seq_length())
        for layer in layers
        if layer.output is not None
    }
    return len(sequences) == 1 and all(layer.has_zero_padding() for layer in layers)
