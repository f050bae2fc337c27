"""The task `plot_attention`: pictures of the attention weights of some sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.engine.net_outputs import with_kept_layer
from returnn.engine.report.attention_picture import (
    AttentionPlot,
    PictureAxis,
    draw_attention,
    picture_filename,
    short_dim_name,
)
from returnn.log import log
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.engine.engine import Engine
from returnn.tf.engine.feeding.batches import batches_of
from returnn.tf.engine.passes.data_pass import DataPass
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.tf.layers.search.decide import decided_key
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted

NetDict = dict[str, Any]
_WEIGHTS, _LABELS = "attention_plot/weights", "attention_plot/labels"  # layers that are added


def plot_attention(config: Config) -> None:
    """
    The task.

    :param config: its option `attention_plot`
    :raises ConfigError: if the layer has no attention weights
    """
    plot = AttentionPlot.from_config(config)
    for key in ("source", "target"):
        if getattr(plot, key) is not None:
            raise ConfigError(
                f"option 'attention_plot': {key!r} is for models in Python. A network of layers knows it."
            )
    engine = Engine(config)
    engine.use_eval_flag = False
    engine.use_search_flag = plot.search
    engine.init_network_from_config(net_dict_post_proc=lambda net_dict: net_with_weights(net_dict, plot))
    folder = plot.folder_of(config, engine.epoch)
    names = _Pass(engine.session, plot, plot.first_seqs(config)).draw(folder)
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
        steps = session.network.get_layer(plot.loop).output.get_time_dim_tag()
        decided = session.network.get_layer(_WEIGHTS).new_dim(decided_key(steps))  # that of the labels is another one
        is_target = [dim in (steps, decided) for dim in dynamic]
        if sum(is_target) != 1:
            raise ConfigError(
                f"option 'attention_plot', layer {plot.layer!r}: has {self.weights}.\n"
                f"  One of its dims has to be the steps of the loop {plot.loop!r}, {steps}."
            )
        self.target_dim = dynamic[is_target.index(True)]
        self.source_dim = dynamic[is_target.index(False)]
        self.head_dims = [dim for dim in others if dim.size is not None]

    def draw(self, folder: str) -> list[str]:
        """:return: names of the pictures"""
        names: list[str] = []

        def draw_batch(**values: Any) -> None:
            for i, tag in enumerate(data_pass.current_tags):
                filename = picture_filename(folder, tag)
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
            return PictureAxis(short_dim_name(dim), None)
        vocab = output.vocab if output is not None else self.session.network.extern_data.data[key].vocab
        names = vocab.labels if vocab is not None else self.dataset.labels.get(key or "")
        labels = [str(label) if names is None else str(names[label]) for label in ids[:length]]
        return PictureAxis(self.plot.names.get(key or "", key) or "output", labels)
