"""
LSTMs of a checkpoint whose unit had another layout of its parameters than the one of the network.

A layer may get another unit, and the same unit has been computed by different cells over the years. So where all
parameters of an LSTM are missing, and the checkpoint has those of one layout in their place, they are converted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy

from returnn.tf.checkpoint.earlier_names import by_names_of_today
from returnn.util.numbers.lstm_layouts import LAYOUTS, Layout, convert_lstm

_LAYOUTS = [LAYOUTS[name] for name in ("native", "standardlstm", "basiclstm", "fusedlstm", "cudnn_compatible", "cudnn")]


@dataclass(frozen=True)
class OtherLstm:
    """An LSTM of the network, and the one of a checkpoint that its parameters come from."""

    source: Layout
    target: Layout
    source_names: tuple[str, ...]  # in the checkpoint, in the order of the layout
    target_names: tuple[str, ...]  # of the network

    def value(self, name: str, read: Callable[[str], numpy.ndarray]) -> numpy.ndarray:
        """
        :param name: one of `target_names`
        :param read: gives a value of the checkpoint by its name
        """
        values = convert_lstm([read(name) for name in self.source_names], self.source, self.target)
        return values[self.target_names.index(name)]

    def __str__(self) -> str:
        return f"{self.target_names[0]!r} ({self.target.name}) from {self.source_names[0]!r} ({self.source.name})"


def find_other_lstms(missing: Collection[str], in_checkpoint: Collection[str]) -> list[OtherLstm]:
    """
    :param missing: parameters that the checkpoint does not have, as they would be called in it
    :param in_checkpoint: names of its values
    :return: those LSTMs all of whose parameters are missing, and that the checkpoint has in another layout
    """
    found, there = [], by_names_of_today(in_checkpoint)
    for target in _LAYOUTS:
        for prefix, names in _lstms_of(target, missing):
            source = next(
                (
                    (layout, source_names)
                    for layout in _LAYOUTS
                    for source_prefix, source_names in _lstms_of(layout, there)
                    if layout is not target and source_prefix == prefix
                ),
                None,
            )
            if source is not None:
                found.append(OtherLstm(source[0], target, tuple(there[name] for name in source[1]), names))
    return found


def _lstms_of(layout: Layout, names: Collection[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """:return: prefix and names of each LSTM of that layout"""
    for name in names:
        prefix = name.removesuffix(layout.suffixes[0])
        of_lstm = tuple(f"{prefix}{suffix}" for suffix in layout.suffixes)
        if layout.of_further_part and f"{prefix}{layout.of_further_part}" in names:
            continue
        if prefix != name and prefix.endswith("/") and set(of_lstm) <= set(names):
            yield prefix, of_lstm
