"""Mean and variance of more data than fits into memory."""

from __future__ import annotations

import sys
from typing import Any, TextIO

import numpy

from returnn.util.errors import UserError
from returnn.util.files.atomic_file import open_atomic

Array = numpy.ndarray[Any, Any]


class Stats:
    """Collects sequences of vectors."""

    def __init__(self, *, format_str: Any = None):
        """:param format_str: turns a number into text, for `dump`; a function or a format such as "%.3f" """
        self.format_str = format_str if callable(format_str) or format_str is None else lambda x: format_str % x
        self.mean: Array | None = None
        self.mean_sq: Array | None = None
        self.var: Array | None = None
        self.min: Array | None = None
        self.max: Array | None = None
        self.total_data_len = 0
        self.num_seqs = 0

    def __str__(self) -> str:
        if self.num_seqs == 0:
            return "Stats(no data)"
        show = self.format_str or str
        return (
            f"Stats(mean={show(self.get_mean())}, std_dev={show(self.get_std_dev())}, min={show(self.min)}, "
            f"max={show(self.max)}, seqs={self.num_seqs}, frames={self.total_data_len})"
        )

    def collect(self, data: Array) -> None:
        """:param data: (T, D) or (T,), one sequence"""
        data = numpy.asarray(data, dtype="float64")
        if len(data) == 0:
            return
        old_weight = self.total_data_len / (self.total_data_len + len(data))
        if self.mean is None or self.mean_sq is None or self.min is None or self.max is None:
            self.mean, self.mean_sq = numpy.mean(data, axis=0), numpy.mean(data**2, axis=0)
            self.min, self.max = numpy.min(data, axis=0), numpy.max(data, axis=0)
            self._sum_sq_dev = numpy.sum((data - self.mean) ** 2, axis=0)
        else:
            mean = numpy.mean(data, axis=0)
            # Chan et al., "Updating formulae and a pairwise algorithm for computing sample variances", 1979
            delta_sq = (mean - self.mean) ** 2
            self._sum_sq_dev += numpy.sum((data - mean) ** 2, axis=0) + delta_sq * old_weight * len(data)
            self.mean = old_weight * self.mean + (1 - old_weight) * mean
            self.mean_sq = old_weight * self.mean_sq + (1 - old_weight) * numpy.mean(data**2, axis=0)
            self.min = numpy.minimum(self.min, numpy.min(data, axis=0))
            self.max = numpy.maximum(self.max, numpy.max(data, axis=0))
        self.total_data_len += len(data)
        self.num_seqs += 1
        self.var = self._sum_sq_dev / self.total_data_len

    def get_mean(self) -> Array:
        """:return: (D,) or scalar"""
        assert self.mean is not None, "no data was collected"
        return self.mean

    def get_std_dev(self) -> Array:
        """:return: (D,) or scalar, standard deviation"""
        assert self.var is not None, "no data was collected"
        res: Array = numpy.sqrt(self.var)
        return res

    def dump(
        self, output_file_prefix: str | None = None, stream: TextIO | None = None, stream_prefix: str = ""
    ) -> None:
        """
        :param output_file_prefix: writes the files PREFIX.mean.txt, PREFIX.std_dev.txt and PREFIX.info.txt
        :param stream: gets a summary; stdout by default
        :param stream_prefix: before each line of it
        :raises UserError: if there is a prefix, and nothing was collected
        """
        print(f"{stream_prefix}{self}", file=stream or sys.stdout)
        if output_file_prefix is None:
            return
        if self.num_seqs == 0:
            raise UserError(
                f"statistics {output_file_prefix!r}: there are no frames, and so no mean that could be written."
            )
        for name, value in [("mean", self.get_mean()), ("std_dev", self.get_std_dev())]:
            with open_atomic(f"{output_file_prefix}.{name}.txt", "wb") as file:
                numpy.savetxt(file, numpy.atleast_1d(value))
        with open_atomic(f"{output_file_prefix}.info.txt") as file:
            print(self, file=file)
