"""How searches of loops end: by a label that the model has learned to put at the end, or else never in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.report.data_sample import DataSample
from returnn.tf.network.extern_data import ExternData


def end_warnings(
    net_dict: Mapping[str, Any], samples: Mapping[str, DataSample], extern_data: ExternData
) -> Iterator[str]:
    """
    :param net_dict: of a network
    :param samples: of its data sets, by name
    :param extern_data: knows names of labels
    :return: what is wrong: loops that wait for a label which the targets never end with, and decoders without an end
    """
    for name, layer in _layers(net_dict):
        unit = layer.get("unit")
        if not isinstance(unit, Mapping):
            continue
        choices = {n: d for n, d in unit.items() if isinstance(d, Mapping) and d.get("class") == "choice"}
        end, target = unit.get("end"), layer.get("target")
        is_data = isinstance(target, str) and not target.startswith("layer:")  # a layer can be a search itself
        if choices and end is None and not layer.get("from") and is_data:
            yield (
                f"layer {name!r} has no layer 'end', so hypotheses of a search are as long as the target "
                f"{target!r}, which new inputs have not. Such a layer is "
                f"{{'class': 'compare', 'from': {next(iter(choices))!r}, 'value': LABEL_OF_THE_END}}."
            )
        if isinstance(end, Mapping):
            yield from _of_waiting(f"{name}/end", end, choices, samples, extern_data)


def unlimited_warnings(net_dict: Mapping[str, Any]) -> Iterator[str]:
    """:return: for each loop of a network whose search ends by nothing else than a label that it may never choose"""
    for name, layer in _layers(net_dict):
        unit = layer.get("unit")
        has_limit = any(layer.get(option) is not None for option in ("max_seq_len", "max_seq_len_via"))
        if not isinstance(unit, Mapping) or layer.get("from") or layer.get("axis") is not None or has_limit:
            continue
        choices = {n for n, d in unit.items() if isinstance(d, Mapping) and d.get("class") == "choice"}
        end = unit.get("end")
        if isinstance(end, Mapping) and end.get("class") == "compare" and set(_sources(end)) <= choices:
            yield (
                f"layer {name!r} has no 'max_seq_len', so a search goes on for ever if hypotheses do not end by"
                " themselves. It is a number of frames, or an expression such as \"max_len_from('base:encoder')\"."
            )


def _sources(layer: Mapping[str, Any]) -> list[Any]:
    sources = layer.get("from")
    return [sources] if isinstance(sources, str) else list(sources or ())


def _of_waiting(
    name: str,
    end: Mapping[str, Any],
    choices: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, DataSample],
    extern_data: ExternData,
) -> Iterator[str]:
    sources = _sources(end)
    label = end.get("value")
    if end.get("class") != "compare" or end.get("kind", "equal") != "equal" or len(sources) != 1:
        return
    key = choices.get(sources[0], {}).get("target")
    if not isinstance(label, int) or not isinstance(key, str):
        return
    seen = {data: sample for data, sample in samples.items() if sample.last_labels.get(key)}
    if not seen or any(label in sample.last_labels[key] for sample in seen.values()):
        return
    vocab = extern_data.data[key].vocab if key in extern_data.data else None
    data, sample = next(iter(seen.items()))
    option = vocab.end_option if vocab is not None else Vocabulary.end_option
    hint = f"The option {option!r} of its vocabulary puts one there."
    found = {last for sample in seen.values() for last in sample.last_labels[key]}
    if len(found) == 1:
        hint = f"All of them end with label {_named(next(iter(found)), vocab)}. If that is no end: t{hint[1:]}"
    if vocab is not None and vocab.eos_label_id not in (None, label):
        end_id = vocab.eos_label_id
        hint = f"The vocabulary says that label {end_id} ({vocab.id_to_label(end_id)!r}) is the end."
    yield (
        f"layer {name!r} ends a search at label {_named(label, vocab)}, but no sequence of {key!r} ends with it "
        f"(data {data!r}: {sample}). {hint}"
    )


def _named(label: int, vocab: Vocabulary | None) -> str:
    return f"{label} ({vocab.labels[label]!r})" if vocab is not None and vocab.is_id_valid(label) else str(label)


def _layers(net_dict: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """:return: name and description of all layers, also of those in others"""
    for name, layer in net_dict.items():
        if not isinstance(layer, Mapping):
            continue
        yield f"{prefix}{name}", layer
        for inner in (layer.get("unit"), layer.get("subnetwork")):
            if isinstance(inner, Mapping):
                yield from _layers(inner, f"{prefix}{name}/")
