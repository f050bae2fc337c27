"""
Scores of a beam search, step by step, in a HDF file for `HDFDataset`.

Each sequence has "data", the labels of its best hypothesis; `scores`, of the hypothesis up to each label (natural log,
all scores together); for each further choice of the loop its labels, by its name. With the reference, `ref` and
`ref_scores` are the same for that. Weights of the attention are flat, by name of the layer, and `sizes:NAME` is their
shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.hdf.hdf_writer import SimpleHDFWriter
from returnn.tools.layer_outputs import SeqOutputs, layer_outputs
from returnn.util.errors import UserError, check_known

NetDict = Mapping[str, Any]

LABELS, SCORES = "data", "scores"
REFERENCE, REFERENCE_SCORES = "ref", "ref_scores"
SIZES_PREFIX = "sizes:"
_SCORES_SUFFIX = "__beam_scores"  # of the name of a layer that is added to the loop
_ATTENTION_CLASS = "softmax_over_spatial"


@dataclass(frozen=True)
class LoopOfSearch:
    """What there is to record in a loop."""

    name: str
    choices: list[str]  # the first one is that of the labels
    attention: list[str] = field(default_factory=list)

    @classmethod
    def of_net(cls, net_dict: NetDict, name: str) -> LoopOfSearch:
        """
        :param net_dict: options of all layers, by name
        :param name: of the loop
        :raises UserError: if it is no loop with a choice
        """
        check_known("layer", name, net_dict, where="option '--rec_layer_name'")
        unit = net_dict[name].get("unit")
        if not isinstance(unit, Mapping):
            raise UserError(f"option '--rec_layer_name': the layer {name!r} is no loop with layers of its own.")
        choices = [layer for layer, options in unit.items() if options.get("class") == "choice"]
        if not choices:
            raise UserError(f"option '--rec_layer_name': the loop {name!r} has no layer of the class 'choice'.")
        choices.sort(key=lambda layer: layer != "output")
        return cls(name, choices, [x for x, options in unit.items() if options.get("class") == _ATTENTION_CLASS])

    def with_scores(self, net_dict: NetDict, **choice_options: Any) -> dict[str, Any]:
        """
        :param net_dict: options of all layers, by name
        :param choice_options: for all choices
        :return: with a layer for the scores; the label of the end is one of the labels, as it has a score
        """
        unit = dict(net_dict[self.name]["unit"])
        for choice in self.choices:
            unit[choice] = {**unit[choice], **choice_options}
        unit[f"{self.choices[0]}{_SCORES_SUFFIX}"] = {"class": "choice_get_beam_scores", "from": self.choices[0]}
        with_end = {"include_eos": True} if "end" in unit else {}
        return {**net_dict, self.name: {**net_dict[self.name], **with_end, "unit": unit}}

    def layers(self, *, with_attention: bool) -> dict[str, str]:
        """:return: key in the file -> layer"""
        first, *others = self.choices
        found = {LABELS: first, SCORES: f"{first}{_SCORES_SUFFIX}", **{name: name for name in others}}
        if with_attention:
            found.update({name: name for name in self.attention})
        return {key: f"{self.name}/{layer}" for key, layer in found.items()}


def record_search(
    config: Config,
    dataset: Dataset,
    loop: LoopOfSearch,
    filename: str,
    *,
    epoch: int | None,
    with_reference: bool,
    with_attention: bool,
) -> int:
    """
    :param config: of a trained model
    :param dataset: what to decode
    :param loop: which has the choices
    :param filename: the new file
    :param epoch: of the model; None: the newest
    :param with_reference: also what the model says about the target
    :param with_attention: also weights of the attention
    :return: number of sequences
    :raises UserError: if there is no attention, or no sequence
    """
    if with_attention and not loop.attention:
        raise UserError(f"option '--att_weights': the loop {loop.name!r} has no layer {_ATTENTION_CLASS!r}.")
    found = _search(config, dataset, loop, epoch=epoch, with_attention=with_attention)
    if not found:
        raise UserError("option '--dataset': there are no sequences, or none that are wanted.")
    if with_reference:
        options = {"cheating": True, "beam_size": 1}  # the target alone
        for tag, outputs in _search(config, dataset, loop, epoch=epoch, with_attention=False, **options).items():
            found[tag].update({REFERENCE: outputs[LABELS], REFERENCE_SCORES: outputs[SCORES]})
    _write(filename, found, attention=loop.attention)
    return len(found)


def _search(
    config: Config, dataset: Dataset, loop: LoopOfSearch, *, epoch: int | None, with_attention: bool, **options: Any
) -> dict[str, dict[str, numpy.ndarray]]:
    layers = loop.layers(with_attention=with_attention)
    found: dict[str, dict[str, numpy.ndarray]] = {}

    def keep(tag: str, outputs: SeqOutputs) -> None:
        found[tag] = {key: outputs[layer] for key, layer in layers.items()}

    layer_outputs(
        config,
        dataset,
        list(layers.values()),
        keep,
        epoch=epoch,
        is_search=True,
        change_net=lambda net_dict: loop.with_scores(net_dict, **options),
    )
    return found


def _write(filename: str, seqs: Mapping[str, Mapping[str, numpy.ndarray]], *, attention: Sequence[str]) -> None:
    rows = {tag: _flat(outputs, attention) for tag, outputs in seqs.items()}
    example = next(iter(rows.values()))
    types = {key: (1, value.ndim, str(value.dtype)) for key, value in example.items() if key != LABELS}
    with SimpleHDFWriter(filename, dim=None, ndim=1, extra_type=types) as writer:
        for tag, row in rows.items():
            labels = row.pop(LABELS)[None]
            writer.insert_batch(labels, [labels.shape[1]], [tag], {key: [value] for key, value in row.items()})


def _flat(outputs: Mapping[str, numpy.ndarray], attention: Sequence[str]) -> dict[str, numpy.ndarray]:
    row: dict[str, numpy.ndarray] = {}
    for key, value in outputs.items():
        if key in attention:
            row[f"{SIZES_PREFIX}{key}"] = numpy.array(value.shape, "int32")
        row[key] = value.reshape(-1) if key in attention else value
    return row
