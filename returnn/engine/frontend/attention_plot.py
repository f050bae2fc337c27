"""The task `plot_attention` for models of the frontend: pictures of attention weights that `forward_step` marks."""

from __future__ import annotations

from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.static import StaticDataset
from returnn.engine.frontend.batch_arrays import ArrayBatch
from returnn.engine.report.attention_picture import (
    AttentionPlot,
    PictureAxis,
    draw_attention,
    picture_filename,
    short_dim_name,
)
from returnn.engine.tasks import make_engine
from returnn.forward_iface import ForwardCallbackIface
from returnn.log import log
from returnn.tensor import Tensor, TensorDict
from returnn.util.errors import ConfigError, check_known
from returnn.util.texts.counted import counted

_WHERE = "option 'attention_plot'"


def plot_attention(config: Config) -> None:
    """
    The task.

    :param config: its option `attention_plot`
    :raises ConfigError: if there is no such output, or it has no attention weights
    """
    plot = AttentionPlot.from_config(config)
    if plot.search:
        raise ConfigError(
            f"{_WHERE}: 'search' is for networks of layers. Here, `forward_step` decides what is computed."
        )
    engine: Any = make_engine(config)
    engine.init_network_from_config()
    dataset = plot.first_seqs(config)
    pictures = _Pictures(plot, plot.folder_of(config, engine.epoch), dataset, engine.runner.templates)
    engine.trained_model.forward(dataset, pictures, report_prefix="attention", on_batch=pictures.note)
    print(f"attention: wrote {counted(pictures.number, 'picture')} to {pictures.folder!r}", file=log.v1)
    engine.finalize()


class _Pictures(ForwardCallbackIface):
    """Draws one sequence after the other."""

    def __init__(self, plot: AttentionPlot, folder: str, dataset: StaticDataset, templates: TensorDict) -> None:
        self.plot = plot
        self.folder = folder
        self.number = 0
        self._dataset = dataset
        self._templates = templates
        self._data: dict[str, dict[str, numpy.ndarray]] = {}  # tag -> key -> labels

    def note(self, batch: ArrayBatch) -> None:
        """Keeps the labels of the data."""
        for name in {self.plot.source, self.plot.target} & set(self._templates.data):
            array, lengths = batch.arrays.get(name), batch.arrays.get(f"{name}_seq_lens")
            if array is not None and lengths is not None:
                for i, tag in enumerate(batch.seq_tags):
                    self._data.setdefault(tag, {})[name] = array[i, : lengths[i]]

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """Draws it."""
        check_known("output", self.plot.layer, outputs.data, where=f"{_WHERE}, layer")
        weights = outputs[self.plot.layer]
        if len(weights.dims) < 2 or not weights.dtype.startswith(("float", "bfloat")):
            raise ConfigError(
                f"{_WHERE}: the output {self.plot.layer!r} is {weights} in a sequence.\n"
                "  Expected attention weights: the last two dims are the rows and the columns of the picture."
            )
        num_rows, num_columns = weights.raw_tensor.shape[-2:]
        if not num_rows or not num_columns:
            return
        draw_attention(
            picture_filename(self.folder, seq_tag),
            weights.raw_tensor.reshape(-1, num_rows, num_columns),
            title=seq_tag,
            source=self._axis("source", self.plot.source, seq_tag, outputs, weights, -1),
            target=self._axis("target", self.plot.target, seq_tag, outputs, weights, -2),
        )
        self.number += 1

    def _axis(
        self, option: str, name: str | None, tag: str, outputs: TensorDict, weights: Tensor, axis: int
    ) -> PictureAxis:
        """:return: with the names of the labels, where there are any"""
        if name is None:
            return PictureAxis(short_dim_name(weights.dims[axis]), None)
        check_known("output or data key", name, {**self._templates.data, **outputs.data}, where=f"{_WHERE}, {option}")
        labels, template = self._data.get(tag, {}).get(name), self._templates.data.get(name)
        if name in outputs.data:
            labels, template = outputs[name].raw_tensor, outputs[name]
        size = weights.raw_tensor.shape[axis]
        if labels is None or template is None or template.sparse_dim is None or labels.shape != (size,):
            found = "nothing" if labels is None else f"values of the shape {labels.shape}"
            raise ConfigError(
                f"{_WHERE}, {option}: {name!r} has {found}, expected {counted(size, 'label')} in {tag!r}."
            )
        names = self._dataset.labels.get(name) if template.vocab is None else template.vocab.labels
        texts = [str(label) if names is None else str(names[label]) for label in labels]
        return PictureAxis(self.plot.names.get(name, name), texts)
