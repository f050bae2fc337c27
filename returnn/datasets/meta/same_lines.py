"""Whether texts that are joined line by line have the same lines: else, pairs after a gap are wrong ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import IntArray
from returnn.log import log
from returnn.util.texts.counted import counted


@runtime_checkable
class NumberedLines(Protocol):
    """A data set whose tags may be nothing but numbers of its sequences."""

    def line_numbers(self) -> IntArray | None:
        """:return: which line of the text each sequence is, from 1; None if the tags say more than that"""


def check_same_lines(datasets: Mapping[str, Dataset], *, where: str) -> None:
    """
    :param datasets: by name, whose sequences are joined by their tags
    :param where: in messages
    :raises DataError: if sequences of the same number are other lines; other numbers of lines are a warning
    """
    numbered = {name: data.line_numbers() for name, data in datasets.items() if isinstance(data, NumberedLines)}
    texts = {name: lines for name, lines in numbered.items() if lines is not None}
    first = next(iter(texts), None)
    for name, lines in texts.items():
        assert first is not None
        num_common = min(len(lines), len(texts[first]))
        differing = np.flatnonzero(lines[:num_common] != texts[first][:num_common])
        if len(differing):
            seq = int(differing[0])
            raise DataError(
                f"sequences of {first!r} and {name!r} are joined by their numbers, but number {seq} is line "
                f"{texts[first][seq]} of {first!r} and line {lines[seq]} of {name!r}",
                dataset=where,
                hint="Empty lines are left out. 'skip_empty_lines': False keeps them, in both.",
            )
        if len(lines) != len(texts[first]):
            log.print_warning(
                f"{where}: {first!r} has {counted(len(texts[first]), 'line', ',')} of text, and {name!r} has "
                f"{len(lines):,}. The first ones of both are joined: is a line missing?"
            )
