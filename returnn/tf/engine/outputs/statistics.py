"""Statistics of data, and of what a network yields for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.engine.data import load_dataset
from returnn.forward_iface import ForwardCallbackIface
from returnn.log import log
from returnn.tensor import Tensor, TensorDict
from returnn.tf.engine.outputs.forward_callback import forward_with_callback
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.util.errors import ConfigError, check_known
from returnn.util.files.atomic_file import open_atomic
from returnn.util.numbers.stats import Stats

STATISTICS = ("mean", "std_dev", "min", "max", "label_frequencies")
_DTYPES = ("float32", "float64")


def analyze_data(config: Config) -> Stats:
    """
    Mean and standard deviation of data, for normalization: of the key `data_key` of the data set `analyze_dataset`.

    They are written to PREFIX.mean.txt, PREFIX.std_dev.txt and PREFIX.info.txt, with `statistics_save_prefix`.

    :raises ConfigError: if there is no such data
    """
    name, key = config.options.analyze_dataset, config.options.data_key
    dtype = config.options.statistics_dtype
    check_known("dtype", dtype, _DTYPES, where="option 'statistics_dtype'")
    dataset = load_dataset(config, name)
    if dataset is None:
        raise ConfigError(f"option 'analyze_dataset': there is no data {name!r}.")
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


def analyze(
    session: NetworkSession, dataset: Dataset, statistics: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """
    :param session: with a network
    :param dataset: what goes in
    :param statistics: some of `STATISTICS`; default: all
    :return: by output layer, and by statistic: numbers per feature; of layers with labels, how often each one is
    """
    for name in statistics or ():
        check_known("statistic", name, STATISTICS, where="option 'statistics'")
    collector = _Collector()
    forward_with_callback(session, dataset=dataset, callback=collector)
    results = {name: _select(values, statistics or STATISTICS) for name, values in collector.results().items()}
    for name, values in results.items():
        for key, value in values.items():
            text = numpy.array2string(value, precision=6, threshold=20).replace("\n", "")
            print(f"{name} {key}: {text}", file=log.v1)
    return results


def compute_priors(session: NetworkSession, dataset: Dataset, output_file: str) -> numpy.ndarray:
    """
    :param session: with a network whose output are probabilities
    :param dataset: what to take the mean of
    :param output_file: gets the log probabilities: one per line, or with the ending ".xml" as vector for Sprint
    :return: [dim], mean of the output over all frames
    :raises ConfigError: if the output are no probabilities
    """
    output = session.network.get_layer("output").output
    if output.feature_dim is None:
        raise ConfigError(f"task 'compute_priors': the layer 'output' has {output}, expected probabilities.")
    collector = _Collector()
    forward_with_callback(session, dataset=dataset, callback=collector)
    prior = collector.results()["output"]["mean"]
    if (prior < 0).any() or not numpy.isclose(prior.sum(), 1.0, atol=1e-3):
        raise ConfigError(f"task 'compute_priors': the means of 'output' sum up to {prior.sum():.6g}, expected 1.")
    _write_vector(output_file, numpy.log(numpy.maximum(prior, numpy.finfo("float32").tiny)))
    print(f"wrote the log prior to {output_file!r}", file=log.v1)
    return prior


class _Collector(ForwardCallbackIface):
    def __init__(self) -> None:
        self._stats: dict[str, Stats] = {}
        self._counts: dict[str, numpy.ndarray] = {}

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
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
        """:return: by layer, all statistics"""
        numbers = {
            name: {"mean": stats.get_mean(), "std_dev": stats.get_std_dev(), "min": stats.min, "max": stats.max}
            for name, stats in self._stats.items()
        }
        labels = {name: {"label_frequencies": counts / counts.sum()} for name, counts in self._counts.items()}
        return {**numbers, **labels}


def _select(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _write_vector(filename: str, vector: numpy.ndarray) -> None:
    with open_atomic(filename) as file:
        if filename.endswith(".xml"):
            numbers = " ".join(f"{value:.20e}" for value in vector)
            file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<vector-f32 size="{len(vector)}">\n')
            file.write(f"{numbers}\n</vector-f32>\n")
        else:
            file.writelines(f"{value:.20e}\n" for value in vector)
