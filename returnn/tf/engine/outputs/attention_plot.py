"""The task `plot_attention`: pictures of the attention weights of some sequences."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.static import StaticDataset
from returnn.engine.attention_picture import PictureAxis, draw_attention
from returnn.engine.data import dataset_option, make_dataset
from returnn.engine.net_outputs import with_kept_layer
from returnn.log import log
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.engine.engine import Engine
from returnn.tf.engine.feeding.batches import batches_of
from returnn.tf.engine.passes.data_pass import DataPass
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.util.errors import ConfigError, check_known
from returnn.util.texts.counted import counted

NetDict = dict[str, Any]
_WEIGHTS, _LABELS = "attention_plot/weights", "attention_plot/labels"  # layers that are added


@dataclass(frozen=True)
class AttentionPlot:
    """
    The option `attention_plot`.

    :param layer: the weights, a layer of a loop, such as "output/weights"
    :param data: the name of an option that holds data, or a description
    :param num_seqs: how many sequences, from the first on
    :param folder: where the pictures go; default: "attention", beside the model files. `{epoch}` in it is the
        epoch of the model, as in "attention/epoch-{epoch}"
    :param search: whether the rows are hypotheses of the search; by default, they are the targets
    :param labels: names of the labels by data key, where the data set has none
    :param names: what the data keys are called in the pictures, e.g. `{"data": "letters"}`
    """

    layer: str
    data: Any = "dev"
    num_seqs: int = 10
    folder: str | None = None
    search: bool = False
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_config(cls, config: Config) -> AttentionPlot:
        """:raises ConfigError: if the option makes no sense"""
        options = config.options.attention_plot
        if not isinstance(options, Mapping) or "layer" not in options:
            raise ConfigError(
                "option 'attention_plot' is required: a dict with 'layer', the attention weights.\n"
                '  For example attention_plot = {"layer": "output/weights", "data": "dev"}.'
            )
        for name in options:
            check_known("key", name, [entry.name for entry in fields(cls)], where="option 'attention_plot'")
        return cls(**options)

    @property
    def loop(self) -> str:
        """:raises ConfigError: if the layer is not in a loop"""
        loop, _, name = self.layer.rpartition("/")
        if not loop or not name:
            raise ConfigError(
                f"option 'attention_plot', layer {self.layer!r}: expected a layer of a loop, such as 'output/weights'."
            )
        return loop


def plot_attention(config: Config) -> None:
    """
    The task.

    :param config: its option `attention_plot`
    :raises ConfigError: if the layer has no attention weights
    """
    plot = AttentionPlot.from_config(config)
    engine = Engine(config)
    engine.use_eval_flag = False
    engine.use_search_flag = plot.search
    engine.init_network_from_config(net_dict_post_proc=lambda net_dict: net_with_weights(net_dict, plot))
    folder = plot.folder or os.path.join(os.path.dirname(config.options.model or ""), "attention")
    folder = folder.replace("{epoch}", f"{engine.epoch:03d}")
    names = _Pass(engine.session, plot, _first_seqs(config, plot)).draw(folder)
    print(f"attention: wrote {counted(len(names), 'picture')} to {folder!r}", file=log.v1)
    engine.finalize()


def net_with_weights(net_dict: NetDict, plot: AttentionPlot) -> NetDict:
    """
    :param net_dict: of the config
    :param plot: what is wanted
    :return: a net which has also the weights and the labels of the loop, of the best hypothesis in search
    :raises ConfigError: if there is no such layer
    """
    kind = "decide" if plot.search else "copy"
    return {
        **with_kept_layer(net_dict, plot.layer.split("/"), where=f"option 'attention_plot', layer {plot.layer!r}"),
        _WEIGHTS: {"class": kind, "from": plot.layer, "is_output_layer": True},
        _LABELS: {"class": kind, "from": plot.loop, "is_output_layer": True},
    }


def _first_seqs(config: Config, plot: AttentionPlot) -> Dataset:
    description = dataset_option(config, plot.data) if isinstance(plot.data, str) else plot.data
    dataset = make_dataset(config, description, name="attention") if description else None
    if dataset is None:
        raise ConfigError(f"option 'attention_plot': there is no data {plot.data!r}.")
    dataset.init_seq_order(1)
    result = StaticDataset.copy_from_dataset(dataset, max_seqs=plot.num_seqs)
    result.labels = {**dataset.labels, **{key: list(labels) for key, labels in plot.labels.items()}}
    return result


class _Pass:
    """One pass over the sequences."""

    def __init__(self, session: NetworkSession, plot: AttentionPlot, dataset: Dataset) -> None:
        self.session = session
        self.plot = plot
        self.dataset = dataset
        self.weights: Tensor = session.network.get_layer(_WEIGHTS).output
        self.targets: Tensor = session.network.get_layer(_LABELS).output
        others = [dim for dim in self.weights.dims if dim != batch_dim]
        dynamic = [dim for dim in others if dim.size is None]
        if self.weights.time_dim_axis is None or len(dynamic) != 2:
            raise ConfigError(
                f"option 'attention_plot', layer {plot.layer!r}: has {self.weights}.\n"
                "  Expected attention weights: the batch, the steps of the loop and one other dim with lengths."
            )
        steps = self.targets.get_time_dim_tag()
        self.target_dim = steps if steps in dynamic else self.weights.get_time_dim_tag()
        (self.source_dim,) = (dim for dim in dynamic if dim != self.target_dim)
        self.head_dims = [dim for dim in others if dim.size is not None]

    def draw(self, folder: str) -> list[str]:
        """:return: names of the pictures"""
        names: list[str] = []

        def draw_batch(**values: Any) -> None:
            for i, tag in enumerate(data_pass.current_tags):
                filename = os.path.join(folder, re.sub(r"[^\w.-]", "_", tag) + ".png")
                if self._draw_seq(filename, tag, {key: value[i] for key, value in values.items()}):
                    names.append(filename)

        self.dataset.init_seq_order(1)
        data_pass = DataPass(
            self.session,
            dataset_name="attention",
            dataset=self.dataset,
            batches=batches_of(self.session, self.dataset, train=False),
            eval=False,
            extra_fetches=self._fetches(),
            extra_fetches_callback=draw_batch,
        )
        data_pass.run("attention", raise_exception=True)
        return names

    def _fetches(self) -> dict[str, Any]:
        dims = [batch_dim, *self.head_dims, self.target_dim, self.source_dim]
        tensors = {
            "weights": self.weights.copy_transpose(dims),
            "target_lengths": self.target_dim.get_size_tensor(),
            "source_lengths": self.source_dim.get_size_tensor(),
        }
        if self.targets.sparse_dim is not None:
            tensors["targets"] = self.targets.copy_as_batch_major()
        if self.source_key is not None:
            tensors["sources"] = self.session.network.extern_data.data[self.source_key].copy_as_batch_major()
        return {key: tensor.raw_tensor for key, tensor in tensors.items()}

    def _draw_seq(self, filename: str, tag: str, values: Mapping[str, Any]) -> bool:
        """:return: whether there is something to draw"""
        num_target, num_source = int(values["target_lengths"]), int(values["source_lengths"])
        if not num_target or not num_source:
            return False
        weights = values["weights"][..., :num_target, :num_source].reshape((-1, num_target, num_source))
        target_key = self.session.network.extern_data.default_target
        draw_attention(
            filename,
            weights,
            title=tag,
            source=self._axis(self.source_key, self.source_dim, values.get("sources"), num_source, None),
            target=self._axis(target_key, self.target_dim, values.get("targets"), num_target, self.targets),
        )
        return True

    @property
    def source_key(self) -> str | None:
        """:return: the data with one label for each position that is attended to"""
        for key, data in self.session.network.extern_data.data.items():
            if data.sparse_dim is not None and self.source_dim in data.dims and data.available_for_inference:
                return key
        return None

    def _axis(
        self, key: str | None, dim: Dim, ids: numpy.ndarray | None, length: int, output: Tensor | None
    ) -> PictureAxis:
        """:return: with the names of the labels, where there are any"""
        if ids is None or ids.ndim != 1:
            return PictureAxis(dim.name or "frames", None)
        vocab = output.vocab if output is not None else self.session.network.extern_data.data[key].vocab
        names = vocab.labels if vocab is not None else self.dataset.labels.get(key or "")
        labels = [str(label) if names is None else str(names[label]) for label in ids[:length]]
        return PictureAxis(self.plot.names.get(key or "", key) or "output", labels)
