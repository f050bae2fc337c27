"""
Stereo data: features in, features out, such as noisy and clean speech.

The HDF file has the groups `inputs` and `outputs` (which may be missing), each with a data set (frames, dim) for each
sequence. A bundle file lists several of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import h5py
import numpy

from returnn.datasets.bundle_file import BundleFile
from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.data_dims import convert_data_dims
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.seq_order import GetSeqLen
from returnn.datasets.hdf.hdf_file import open_hdf
from returnn.datasets.normalization_data import NormalizationData
from returnn.util.errors import ConfigError, UserError

_CLASSES = "classes"
_BUNDLE_ENDING = ".bundle"


class StereoDataset(CorpusDataset):
    """The base class of data sets with the keys "data" and "classes", both of them features."""

    def __init__(self, partition_epoch: int = 1, **kwargs: Any):
        """:param partition_epoch: cuts the corpus into that many epochs"""
        super().__init__(partition_epoch=partition_epoch, **kwargs)

    @property
    def seqs_per_epoch(self) -> int:
        """At most."""
        return -(-self.get_total_num_seqs() // self.partition_epoch)

    def get_data_dtype(self, key: str) -> str:
        return "float32"

    def is_data_sparse(self, key: str) -> bool:
        return False


class StereoHdfDataset(StereoDataset):
    """Stereo data from HDF files."""

    _group_of_key: ClassVar[dict[str, str]] = {
        DEFAULT_KEY: NormalizationData.GROUP_INPUTS,
        _CLASSES: NormalizationData.GROUP_OUTPUTS,
    }

    def __init__(
        self,
        hdfFile: str,
        num_outputs: int | Mapping[str, Any] | None = None,
        normalizationFile: str | None = None,
        flag_normalizeInputs: bool = True,
        flag_normalizeTargets: bool = True,
        **kwargs: Any,
    ):
        """
        :param hdfFile: HDF file, or with the ending `.bundle` a list of such
        :param num_outputs: dim of the outputs, if the file has none
        :param normalizationFile: mean and variance, see `NormalizationData`
        :param flag_normalizeInputs: whether "data" gets mean 0 and variance 1
        :param flag_normalizeTargets: whether "classes" gets that
        """
        super().__init__(**kwargs)
        names = BundleFile(hdfFile).dataset_file_paths if hdfFile.endswith(_BUNDLE_ENDING) else [hdfFile]
        self._files = [_open(name, self.description) for name in names]
        for name in names:
            self._watch_file(name)
        inputs = self._group_of_key[DEFAULT_KEY]
        self._seqs = [(file, tag) for file in self._files for tag in file[inputs]]
        if not self._seqs:
            raise UserError(f"{self.description}: there are no sequences in {hdfFile!r}.")
        self._keys = [key for key, group in self._group_of_key.items() if group in self._files[0]]
        self._check_keys()
        self.num_outputs = {key: (self._dim_in_file(key), 2) for key in self._keys}
        if _CLASSES not in self._keys and num_outputs is not None:
            self.num_outputs[_CLASSES] = convert_data_dims(num_outputs)[_CLASSES]
        self.num_inputs = self.num_outputs[DEFAULT_KEY][0]
        flags = {DEFAULT_KEY: flag_normalizeInputs, _CLASSES: flag_normalizeTargets}
        self._norms = self._load_norms(normalizationFile, flags) if normalizationFile else {}

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._seqs)

    def get_data_keys(self) -> list[str]:
        return self._keys

    def get_target_list(self) -> list[str]:
        return self._keys[1:]

    def _check_keys(self) -> None:
        for key in self._keys:
            group = self._group_of_key[key]
            for file, tag in self._seqs:
                if group not in file or tag not in file[group]:
                    raise UserError(f"{self.description}: file {file.filename!r}: there is no '{group}/{tag}'.")

    def _dim_in_file(self, key: str) -> int:
        file, tag = self._seqs[0]
        return int(file[self._group_of_key[key]][tag].shape[1])

    def _load_norms(self, filename: str, flags: Mapping[str, bool]) -> dict[str, tuple[Array, Array]]:
        norm = NormalizationData(filename)
        stats = {
            DEFAULT_KEY: (norm.inputMean, norm.inputVariance),
            _CLASSES: (norm.outputMean, norm.outputVariance),
        }
        norms = {}
        for key in self._keys:
            mean, variance = stats[key]
            if not flags[key]:
                continue
            if mean is None or variance is None:
                raise ConfigError(
                    f"{self.description}: option 'normalizationFile': it has nothing for 'outputs': {filename!r}.\n"
                    "  Set 'flag_normalizeTargets' to False."
                )
            if len(mean) != self.num_outputs[key][0]:
                raise ConfigError(
                    f"{self.description}: option 'normalizationFile' has {len(mean)} features for {key!r}, "
                    f"the data has {self.num_outputs[key][0]}."
                )
            norms[key] = (mean, numpy.sqrt(numpy.maximum(variance, 1e-20)))
        return norms

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return str(self._seqs[corpus_seq_idx][1])

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        return str(self._seqs[corpus_seq_idx][0].filename)

    def _seq_len_func(self) -> GetSeqLen:
        inputs = self._group_of_key[DEFAULT_KEY]

        def length(i: int) -> int:
            file, tag = self._seqs[i]
            return int(file[inputs][tag].shape[0])

        return length

    def _read_corpus_seq(self, corpus_seq_idx: int) -> dict[str, Array]:
        return {key: self._read_key(corpus_seq_idx, key) for key in self._keys}

    def _read_key(self, corpus_seq_idx: int, key: str) -> Array:
        file, tag = self._seqs[corpus_seq_idx]
        data: Array = file[self._group_of_key[key]][tag][...]
        if key in self._norms:
            mean, std_dev = self._norms[key]
            data = (data - mean) / std_dev
        return data.astype("float32")


class DatasetWithTimeContext(StereoHdfDataset):
    """Each frame of "data" has the frames around it as well; there are zeros before the first and after the last."""

    def __init__(self, hdfFile: str, tau: int = 1, **kwargs: Any):
        """
        :param hdfFile: see `StereoHdfDataset`
        :param tau: number of frames on each side
        """
        if tau < 1:
            raise ConfigError(f"DatasetWithTimeContext: option 'tau' has to be a positive number, got {tau}.")
        self._tau = tau
        super().__init__(hdfFile, **kwargs)
        self.num_inputs *= 2 * tau + 1
        self.num_outputs[DEFAULT_KEY] = (self.num_inputs, 2)

    def _read_key(self, corpus_seq_idx: int, key: str) -> Array:
        data = super()._read_key(corpus_seq_idx, key)
        if key != DEFAULT_KEY:
            return data
        padded = numpy.pad(data, ((self._tau, self._tau), (0, 0)))
        return numpy.concatenate([padded[i : i + len(data)] for i in range(2 * self._tau + 1)], axis=1)


def _open(filename: str, where: str) -> h5py.File:
    try:
        file = open_hdf(filename)
    except OSError as exc:
        raise UserError(f"{where}: file {filename!r} cannot be opened: {str(exc).splitlines()[0]}") from exc
    if NormalizationData.GROUP_INPUTS not in file:
        raise UserError(f"{where}: file {filename!r}: there is no group {NormalizationData.GROUP_INPUTS!r}.")
    return file
