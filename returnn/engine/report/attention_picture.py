"""Attention weights as pictures: the option `attention_plot`, and how one is drawn. Needs matplotlib."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from returnn.config import Config
from returnn.config.option_types import options_as
from returnn.datasets.static import StaticDataset
from returnn.engine.data import dataset_option, known_datasets, make_dataset
from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from returnn.util.system.picture import new_figure, save_figure

_MAX_LABELS = 60  # of an axis, so that they can be read
_INCHES_PER_LABEL = 0.3
_INCHES_PER_CHAR = 0.09
_MAX_CHARS_SIDE_BY_SIDE = 2  # longer labels below the picture stand upright, so that they do not overlap


@dataclass(frozen=True)
class AttentionPlot:
    """
    The option `attention_plot`.

    :param layer: the weights, one layer of a loop, such as "output/weights"; of others, another run draws pictures into
        another `folder`. For models in Python, an output that
        `forward_step` marks, whose last two dims are the rows and the columns
    :param data: the name of an option that holds data, or a description
    :param num_seqs: how many sequences, from the first on
    :param folder: where the pictures go; default: "attention/epoch-{epoch}", beside the model files. `{epoch}` is the
        epoch of the model; a checkpoint that has none has its pictures in "attention"
    :param search: whether the rows are hypotheses of the search; by default, they are the targets
    :param labels: names of the labels by data key, where the data set has none
    :param names: what the data keys are called in the pictures, e.g. `{"data": "letters"}`
    :param source: for models in Python: data key or output with a label for each column. Default: columns have numbers
    :param target: the same for rows
    """

    layer: str
    data: Any = "dev"
    num_seqs: int = 10
    folder: str | None = None
    search: bool = False
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    target: str | None = None

    @classmethod
    def from_config(cls, config: Config) -> AttentionPlot:
        """:raises ConfigError: if the option makes no sense"""
        options = config.options.attention_plot
        if not isinstance(options, Mapping) or "layer" not in options:
            raise ConfigError(
                "option 'attention_plot' is required: a dict with 'layer', the attention weights.\n"
                '  For example attention_plot = {"layer": "output/weights", "data": "dev"}.'
            )
        return options_as(cls, options, where="option 'attention_plot'")

    @property
    def loop(self) -> str:
        """:raises ConfigError: if the layer is not in a loop"""
        loop, _, name = self.layer.rpartition("/")
        if not loop or not name:
            raise ConfigError(
                f"option 'attention_plot', layer {self.layer!r}: expected a layer of a loop, such as 'output/weights'."
            )
        return loop

    def folder_of(self, config: Config, epoch: int) -> str:
        """
        :param config: whose model is drawn
        :param epoch: of the model; 0, if it is not known
        :return: where the pictures go
        """
        default = os.path.join("attention", "epoch-{epoch}") if epoch else "attention"
        folder = self.folder or os.path.join(os.path.dirname(config.options.model or ""), default)
        return folder.replace("{epoch}", f"{epoch:03d}")

    def first_seqs(self, config: Config) -> StaticDataset:
        """:return: the data to draw"""
        description = dataset_option(config, self.data) if isinstance(self.data, str) else self.data
        dataset = make_dataset(config, description, name="attention") if description else None
        if dataset is None:
            raise ConfigError(
                f"option 'attention_plot': there is no data {self.data!r}.\n  {known_datasets(config)}".rstrip()
            )
        dataset.init_seq_order(1)
        result = StaticDataset.copy_from_dataset(dataset, max_seqs=self.num_seqs)
        result.labels = {**dataset.labels, **{key: list(labels) for key, labels in self.labels.items()}}
        return result


def short_dim_name(dim: Dim) -> str:
    """:return: for the side of a picture, such as "time:data", without what the lengths depend on"""
    return re.sub(r"\[[^\[\]]*\]", "", str(dim))


@dataclass(frozen=True)
class PictureAxis:
    """One side of a picture."""

    name: str  # e.g. "letters"
    labels: Sequence[str] | None  # of each position; None: they are numbered


def picture_filename(folder: str, tag: str) -> str:
    """:return: of the picture of a sequence"""
    return os.path.join(folder, re.sub(r"[^\w.-]", "_", tag) + ".png")


def draw_attention(
    filename: str, weights: numpy.ndarray, *, source: PictureAxis, target: PictureAxis, title: str = ""
) -> None:
    """
    :param filename: of the picture; its suffix is the format
    :param weights: (target, source), or (head, target, source), from 0 to 1
    :param source: what is attended to, from left to right
    :param target: where from, from top to bottom
    :param title: above
    :raises MissingPackageError: without matplotlib
    :raises UserError: if it cannot be written
    """
    heads = weights if weights.ndim == 3 else weights[None]
    num_heads, num_target, num_source = heads.shape
    width = 1.5 + _INCHES_PER_LABEL * min(num_source, _MAX_LABELS) + _room_for_labels(target)
    height = 1.2 + _INCHES_PER_LABEL * min(num_target, _MAX_LABELS) + _room_for_labels(source)
    figure = new_figure(max(width, 3.0) * num_heads, max(height, 2.5), needed_for="pictures of attention")
    for i, ax in enumerate(figure.subplots(1, num_heads, squeeze=False)[0]):
        ax.imshow(heads[i], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        is_short = _longest(source) <= _MAX_CHARS_SIDE_BY_SIDE
        _label(ax.set_xlabel, ax.set_xticks, source, num_source, rotation=0 if is_short else 90)
        _label(ax.set_ylabel, ax.set_yticks, target, num_target)
        if num_heads > 1:
            ax.set_title(f"head {i}")
    figure.suptitle(title, parse_math=False)
    save_figure(figure, filename)


def _longest(axis: PictureAxis) -> int:
    """:return: number of characters"""
    return max(map(len, axis.labels or ()), default=0)


def _room_for_labels(axis: PictureAxis) -> float:
    """:return: inches for labels that are longer than usual"""
    return _INCHES_PER_CHAR * max(_longest(axis) - _MAX_CHARS_SIDE_BY_SIDE, 0)


def _label(set_name: Any, set_ticks: Any, axis: PictureAxis, size: int, **text_options: Any) -> None:
    set_name(axis.name)
    if axis.labels is not None and size <= _MAX_LABELS:
        set_ticks(range(size), list(axis.labels), **text_options)
