"""One sequence: an array per data key, and a tag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from returnn.util.numbers.numbers_dict import NumbersDict

Array: TypeAlias = npt.NDArray[Any]
DEFAULT_KEY = "data"


class DatasetSeq:
    """
    One sequence of a data set.

    Each data key has one array: (time, feature...) for dense data, (time,) for labels, or () for one value per
    sequence. The keys of a sequence have lengths of their own.
    """

    __slots__ = ("complete_frac", "features", "seq_idx", "seq_tag")

    def __init__(
        self,
        seq_idx: int,
        features: Array | Mapping[str, Array],
        *,
        targets: Array | Mapping[str, Array] | None = None,
        seq_tag: str | None = None,
        complete_frac: float | None = None,
    ) -> None:
        """
        :param seq_idx: position in the order of the epoch
        :param features: all data by key, or only that of the key "data"
        :param targets: further data by key, or that of the key "classes"
        :param seq_tag: name of the sequence, by default "seq-{seq_idx}"
        :param complete_frac: how much of the epoch is done with this sequence, 0 to 1, if known
        """
        data = dict(features) if isinstance(features, Mapping) else {DEFAULT_KEY: features}
        if targets is not None:
            data.update(targets if isinstance(targets, Mapping) else {"classes": targets})
        for key, value in data.items():
            if not isinstance(value, np.ndarray | np.generic):
                raise TypeError(f"sequence {seq_idx}, key {key!r}: expected a numpy array, got {type(value).__name__}")
        self.seq_idx = int(seq_idx)
        self.seq_tag = f"seq-{self.seq_idx}" if seq_tag is None else seq_tag
        self.features: dict[str, Array] = {key: np.asarray(value) for key, value in data.items()}
        self.complete_frac = complete_frac

    @property
    def num_frames(self) -> NumbersDict:
        """Length per data key, in frames. What has no time axis counts as one frame."""
        return NumbersDict({key: value.shape[0] if value.ndim else 1 for key, value in self.features.items()})

    def get_data(self, key: str) -> Array:
        """:raises KeyError: if there is no such data"""
        return self.features[key]

    def get_data_keys(self) -> Iterable[str]:
        """:return: in the order in which they were given"""
        return self.features.keys()

    def __repr__(self) -> str:
        shapes = {key: value.shape for key, value in self.features.items()}
        return f"DatasetSeq({self.seq_idx}, tag={self.seq_tag!r}, {shapes})"
