"""Statistics of data, and of what a model yields for it: the tasks `analyze_data`, `analyze` and `compute_priors`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.engine.data import known_datasets, load_dataset
from returnn.forward_iface import ForwardCallbackIface
from returnn.log import log
from returnn.tensor import Tensor, TensorDict
from returnn.util.errors import ConfigError, check_known
from returnn.util.files.atomic_file import open_atomic
from returnn.util.numbers.stats import Stats
from returnn.util.texts.counted import counted

STATISTICS = ("mean", "std_dev", "min", "max", "label_frequencies")
_DTYPES = ("float32", "float64")


def analyzed_dataset(config: Config) -> Dataset:
    """:return: the data set that `analyze_dataset` names, all of it in each epoch"""
    name = config.options.analyze_dataset
    dataset = load_dataset(config, name, whole=True)
    if dataset is None:
        raise ConfigError(f"option 'analyze_dataset': there is no data {name!r}.\n  {known_datasets(config)}".rstrip())
    return dataset


def analyze_data(config: Config) -> Stats:
    """
    Mean and standard deviation of data, for normalization: of the key `data_key` of the data set `analyze_dataset`.

    They are written to PREFIX.mean.txt, PREFIX.std_dev.txt and PREFIX.info.txt, with `statistics_save_prefix`.

    :raises ConfigError: if there is no such data
    """
    key = config.options.data_key
    dtype = config.options.statistics_dtype
    check_known("dtype", dtype, _DTYPES, where="option 'statistics_dtype'")
    dataset = analyzed_dataset(config)
    dataset.init_seq_order(epoch=1)
    check_known("data key", key, dataset.get_data_keys(), where="option 'data_key'")
    stats = Stats()
    seq_idx = 0
    while dataset.is_less_than_num_seqs(seq_idx):
        dataset.load_seqs(seq_idx, seq_idx + 1)
        stats.collect(dataset.get_data(seq_idx, key).astype(dtype))
        seq_idx += 1
    stats.dump(
        output_file_prefix=config.options.statistics_save_prefix,
        stream=log.v1,  # type: ignore[arg-type]  # it has `write`
        stream_prefix=f"{dataset.description}, {key!r}: ",
    )
    return stats


class OutputStatistics(ForwardCallbackIface):
    """Collects statistics of all outputs."""

    def __init__(self, wanted: Sequence[str] | None = None) -> None:
        """
        :param wanted: some of `STATISTICS`; default: all
        :raises ConfigError: if one of them is not known
        """
        for name in wanted or ():
            check_known("statistic", name, STATISTICS, where="option 'statistics'")
        self._wanted = wanted or STATISTICS
        self.num_seqs = 0
        self._stats: dict[str, Stats] = {}
        self._counts: dict[str, numpy.ndarray] = {}

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """Adds a sequence."""
        self.num_seqs += 1
        for name, output in outputs.data.items():
            if output.sparse_dim is not None:
                self._count(name, output)
            else:
                has_features = output.feature_dim is not None
                raw = (output.copy_with_feature_last() if has_features else output).raw_tensor
                self._stats.setdefault(name, Stats()).collect(raw.reshape(-1, raw.shape[-1] if has_features else 1))

    def _count(self, name: str, output: Tensor) -> None:
        num_labels = output.sparse_dim.dimension
        counts = self._counts.setdefault(name, numpy.zeros(num_labels, "int64"))
        counts += numpy.bincount(numpy.ravel(output.raw_tensor), minlength=num_labels)

    def results(self) -> dict[str, dict[str, numpy.ndarray]]:
        """:return: by output, by statistic: numbers per feature; of labels, how often each one is"""
        values: dict[str, dict[str, Any]] = {
            name: {"mean": stats.get_mean(), "std_dev": stats.get_std_dev(), "min": stats.min, "max": stats.max}
            for name, stats in self._stats.items()
        }
        values |= {name: {"label_frequencies": counts / counts.sum()} for name, counts in self._counts.items()}
        return {
            output: {name: known[name] for name in self._wanted if name in known} for output, known in values.items()
        }

    def print_results(self) -> dict[str, dict[str, numpy.ndarray]]:
        """:return: what `results` does; it is in the log as well"""
        results = self.results()
        print(f"analyze: {counted(self.num_seqs, 'sequence')}", file=log.v1)
        for name, values in results.items():
            for key, value in values.items():
                text = numpy.array2string(value, precision=6, threshold=20).replace("\n", "")
                print(f"{name} {key}: {text}", file=log.v1)
        return results


def write_log_prior(prior: numpy.ndarray, output_file: str, *, output: str, num_seqs: int) -> None:
    """
    :param prior: (classes,), mean of probabilities
    :param output_file: gets the log probabilities: one per line, or with the ending ".xml" as vector for Sprint
    :param output: name of it, for errors
    :param num_seqs: that the mean is of
    :raises ConfigError: if it is no distribution
    """
    if (prior < 0).any() or not numpy.isclose(prior.sum(), 1.0, atol=1e-3):
        raise ConfigError(f"task 'compute_priors': the means of {output!r} sum up to {prior.sum():.6g}, expected 1.")
    _write_vector(output_file, numpy.log(numpy.maximum(prior, numpy.finfo("float32").tiny)))
    print(f"wrote the log prior of {counted(num_seqs, 'sequence')} to {output_file!r}", file=log.v1)


def _write_vector(filename: str, vector: numpy.ndarray) -> None:
    with open_atomic(filename) as file:
        if filename.endswith(".xml"):
            numbers = " ".join(f"{value:.20e}" for value in vector)
            file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<vector-f32 size="{len(vector)}">\n')
            file.write(f"{numbers}\n</vector-f32>\n")
        else:
            file.writelines(f"{value:.20e}\n" for value in vector)
