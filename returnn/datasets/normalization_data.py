"""
Mean and variance of features, in HDF files.

The groups `inputs` and `outputs` (which may be missing) have the data sets `mean`, `meanOfSquares` and `variance`,
(dim,) each, and `totalNumberOfFrames`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

import h5py
import numpy
import numpy.typing

from returnn.datasets.bundle_file import BundleFile
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import open_atomic

Vector: TypeAlias = numpy.typing.NDArray[Any]


class NormalizationData:
    """Mean and variance of the inputs, and of the outputs if there are such."""

    GROUP_INPUTS: ClassVar[str] = "inputs"
    GROUP_OUTPUTS: ClassVar[str] = "outputs"
    DATASET_MEAN: ClassVar[str] = "mean"
    DATASET_MEAN_OF_SQUARES: ClassVar[str] = "meanOfSquares"
    DATASET_VARIANCE: ClassVar[str] = "variance"
    DATASET_TOTAL_FRAMES: ClassVar[str] = "totalNumberOfFrames"
    DATASET_TIME_DIMENSION_INDEX: ClassVar[int] = 0
    DATASET_FEATURE_DIMENSION_INDEX: ClassVar[int] = 1
    SUMMATION_PRECISION: ClassVar[float] = 1e-5

    def __init__(self, normalizationFilePath: str):
        """
        :param normalizationFilePath: written by `create_normalization_file`
        :raises UserError: if it is no such file
        """
        self._where = f"normalization file {normalizationFilePath!r}"
        with _open_hdf(normalizationFilePath, self._where) as file:
            self._inputs = self._read_group(file, self.GROUP_INPUTS)
            if self._inputs is None:
                raise UserError(f"{self._where}: there is no group {self.GROUP_INPUTS!r}.")
            self._outputs = self._read_group(file, self.GROUP_OUTPUTS)

    @property
    def inputMean(self) -> Vector:
        """(dim,)"""
        assert self._inputs
        return self._inputs[0]

    @property
    def inputVariance(self) -> Vector:
        """(dim,)"""
        assert self._inputs
        return self._inputs[1]

    @property
    def outputMean(self) -> Vector | None:
        """(dim,), None if there are no outputs"""
        return self._outputs[0] if self._outputs else None

    @property
    def outputVariance(self) -> Vector | None:
        """(dim,), None if there are no outputs"""
        return self._outputs[1] if self._outputs else None

    @staticmethod
    def create_normalization_file(
        bundle_file_path: str,
        output_file_path: str,
        dtype: type[numpy.floating[Any]] = numpy.float64,
        flag_include_outputs: bool = True,
    ) -> None:
        """
        :param bundle_file_path: lists HDF files as `StereoHdfDataset` reads them
        :param output_file_path: written at once
        :param dtype: of the sums and of the result
        :param flag_include_outputs: whether to normalize the outputs as well
        :raises UserError: if a file is wrong, or the sums overflow
        """
        files = BundleFile(bundle_file_path).dataset_file_paths
        groups = [NormalizationData.GROUP_INPUTS]
        groups += [NormalizationData.GROUP_OUTPUTS] if flag_include_outputs else []
        statistics = {group: _Statistics(dtype) for group in groups}
        for filename in files:
            _add_file(filename, statistics)
        with open_atomic(output_file_path, "w+b") as target, h5py.File(target, "w") as out:
            for group, stats in statistics.items():
                stats.write(out.create_group(group), where=f"group {group!r} of {bundle_file_path!r}")

    def _read_group(self, file: h5py.File, group: str) -> tuple[Vector, Vector] | None:
        if group not in file:
            return None
        try:
            return file[group][self.DATASET_MEAN][...], file[group][self.DATASET_VARIANCE][...]
        except KeyError as exc:
            raise UserError(f"{self._where}: group {group!r}: {exc.args[0]}") from exc


class _Statistics:
    """Sums over frames."""

    def __init__(self, dtype: type[numpy.floating[Any]]):
        self.dtype = dtype
        self.num_frames = 0
        self.sum: Vector = numpy.zeros((), dtype)
        self.sum_of_squares: Vector = numpy.zeros((), dtype)

    def add(self, features: Vector) -> None:
        """:param features: (frames, dim)"""
        features = features.astype(self.dtype)
        self.num_frames += len(features)
        self.sum = self.sum + features.sum(axis=NormalizationData.DATASET_TIME_DIMENSION_INDEX)
        self.sum_of_squares = self.sum_of_squares + (features**2).sum(
            axis=NormalizationData.DATASET_TIME_DIMENSION_INDEX
        )

    def write(self, group: h5py.Group, *, where: str) -> None:
        """Writes mean and variance."""
        if not self.num_frames:
            raise UserError(f"{where}: there are no frames.")
        mean, mean_of_squares = self.sum / self.num_frames, self.sum_of_squares / self.num_frames
        variance = mean_of_squares - mean**2
        if not numpy.isfinite(variance).all() or variance.min() < -NormalizationData.SUMMATION_PRECISION:
            raise UserError(f"{where}: the sums of {self.num_frames} frames are not exact in {self.dtype.__name__}.")
        group[NormalizationData.DATASET_MEAN] = mean
        group[NormalizationData.DATASET_MEAN_OF_SQUARES] = mean_of_squares
        group[NormalizationData.DATASET_VARIANCE] = numpy.maximum(variance, 0)
        group[NormalizationData.DATASET_TOTAL_FRAMES] = self.num_frames


def _add_file(filename: str, statistics: dict[str, _Statistics]) -> None:
    where = f"HDF file {filename!r}"
    with _open_hdf(filename, where) as file:
        for group, stats in statistics.items():
            if group not in file:
                raise UserError(f"{where}: there is no group {group!r}.")
            seqs: Iterable[h5py.Dataset] = file[group].values()
            for seq in seqs:
                stats.add(seq[...])


def _open_hdf(filename: str, where: str) -> h5py.File:
    try:
        return h5py.File(filename, "r")
    except OSError as exc:
        raise UserError(f"{where}: cannot be opened: {str(exc).splitlines()[0]}") from exc
