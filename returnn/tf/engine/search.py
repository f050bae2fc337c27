"""Decoding of a data set, with the hypotheses written to a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

import returnn.frontend as rf
from returnn.datasets.dataset import Dataset
from returnn.log import log
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.engine.runner import Runner
from returnn.util.atomic_file import open_atomic
from returnn.util.errors import ConfigError, check_known

if TYPE_CHECKING:
    from returnn.tf.engine.engine import Engine

FILE_FORMATS = ("txt", "py")


def search(
    engine: Engine,
    dataset: Dataset,
    *,
    output_layer_names: str | list[str] = "output",
    output_file: str | None = None,
    output_file_format: str = "txt",
    do_eval: bool = True,
) -> dict[str, Any]:
    """
    :param engine: with a network in search
    :param dataset: what to decode
    :param output_layer_names: layers with the hypotheses: after a `decide` layer one per sequence, else all of a beam
    :param output_file: where to write hypotheses; None: nowhere
    :param output_file_format: "txt": a line for each sequence; "py": a dict from tags to text, or to a list of pairs of
        score and text if the layer has a beam
    :param do_eval: whether losses are computed
    :return: by tag, what is written. With several layers, a dict by layer in place of it
    :raises ConfigError: if a layer does not exist or a format is not known
    """
    check_known("format", output_file_format, FILE_FORMATS, where="option 'search_output_file_format'")
    names = [output_layer_names] if isinstance(output_layer_names, str) else list(output_layer_names)
    layers = {name: engine.network.get_layer(name) for name in names}
    fetches: dict[str, Any] = {}
    for name, layer in layers.items():
        fetches.update(_fetches_of(engine, name, layer))
    results: dict[str, Any] = {}

    def collect(**values: Any) -> None:
        tags = runner.current_tags
        per_layer = {name: _hypotheses(name, layers[name], values, dataset, engine) for name in names}
        for i, tag in enumerate(tags):
            results[tag] = per_layer[names[0]][i] if len(names) == 1 else {name: per_layer[name][i] for name in names}

    dataset.init_seq_order(engine.epoch or 1)
    runner = Runner(
        engine, dataset_name="search", dataset=dataset, batches=engine.batches_of(dataset, train=False), eval=do_eval,
        extra_fetches=fetches, extra_fetches_callback=collect,
    )  # fmt: skip
    runner.run("search", raise_exception=True)
    for key, value in sorted(runner.results.items()):
        print(f"search: {key.replace(':', ' ')} {value:.6g}", file=log.v1)
    print(f"search: {runner.num_seqs} sequences, {runner.num_seqs / runner.elapsed:.1f} per second", file=log.v2)
    if output_file:
        write_hypotheses(output_file, results, output_file_format)
        print(f"search: wrote {output_file!r}", file=log.v1)
    return results


def write_hypotheses(filename: str, results: Mapping[str, Any], file_format: str) -> None:
    """
    :param filename: the file; it is complete or not there
    :param results: by tag
    :param file_format: one of `FILE_FORMATS`
    """
    with open_atomic(filename, "w", encoding="utf8") as file:
        if file_format == "txt":
            for value in results.values():
                file.write(f"{_best_text(value)}\n")
        else:
            file.write("{\n")
            for tag, value in results.items():
                file.write(f"{tag!r}: {value!r},\n")
            file.write("}\n")


def _best_text(value: Any) -> Any:
    if isinstance(value, list):
        return max(value)[1]
    return value


def _fetches_of(engine: Engine, name: str, layer: Any) -> dict[str, Any]:
    output: Tensor = layer.output
    if output.sparse_dim is None:
        raise ConfigError(f"option 'search_output_layer': {name!r} has {output}, expected labels.")
    beam = engine.network.beams.of(output)
    dims = [dim for dim in (batch_dim, beam.dim if beam is not None else None) if dim is not None]
    dims += [dim for dim in output.dims if dim not in dims]
    values = output.copy_transpose(dims)
    fetches = {f"labels/{name}": values.raw_tensor}
    time_dim = _time_dim(output)
    if time_dim is not None:
        length_dims = [dim for dim in dims if dim is batch_dim or (beam is not None and dim == beam.dim)]
        lengths = time_dim.get_size_tensor()
        missing = [dim for dim in length_dims if dim not in lengths.dims]
        lengths = rf.expand_dims(lengths, missing) if missing else lengths
        fetches[f"lengths/{name}"] = lengths.copy_transpose(length_dims).raw_tensor
    if beam is not None and beam.dim in output.dims:
        fetches[f"scores/{name}"] = beam.scores.copy_transpose([batch_dim, beam.dim]).raw_tensor
    return fetches


def _time_dim(output: Tensor) -> Dim | None:
    return output.get_time_dim_tag() if output.time_dim_axis is not None else None


def _hypotheses(name: str, layer: Any, values: Mapping[str, Any], dataset: Dataset, engine: Engine) -> list[Any]:
    labels = values[f"labels/{name}"]
    lengths = values.get(f"lengths/{name}")
    scores = values.get(f"scores/{name}")
    to_text = _serializer(layer, dataset, engine)
    if scores is None:
        return [to_text(_cut(labels[b], None if lengths is None else lengths[b])) for b in range(len(labels))]
    return [
        [
            (float(scores[b, k]), to_text(_cut(labels[b, k], None if lengths is None else lengths[b, k])))
            for k in range(labels.shape[1])
        ]
        for b in range(len(labels))
    ]


def _cut(labels: numpy.ndarray, length: Any) -> numpy.ndarray:
    return labels if length is None else labels[: int(length)]


def _serializer(layer: Any, dataset: Dataset, engine: Engine) -> Any:
    """:return: function from labels to text: by the vocabulary of the output, or of the target in the data set"""
    vocab = layer.output.vocab
    if vocab is not None:
        return lambda labels: vocab.get_seq_labels(numpy.atleast_1d(labels))
    target = layer.target if isinstance(layer.target, str) else engine.network.extern_data.default_target
    if target in dataset.get_data_keys() and dataset.can_serialize_data(target):
        return lambda labels: dataset.serialize_data(target, numpy.atleast_1d(labels))
    return lambda labels: " ".join(map(str, numpy.atleast_1d(labels).tolist()))
