"""`Model`: a trained model, to be used from Python: `returnn.load("model.config").decode(["a.wav"])`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.engine.hypothesis_files import best_hypothesis, with_words
from returnn.engine.model_inputs import Inputs, ModelInputs, OutputOfSeqs, are_none, tags
from returnn.tf.engine.engine import Engine
from returnn.tf.engine.feeding.feed import needed_keys
from returnn.tf.engine.outputs.hypotheses import check_labels, labels_have_prefixes
from returnn.tf.engine.tasks import forward_engine, search_engine
from returnn.tf.network import ExternData
from returnn.tf.network.extern_data import MissingData
from returnn.util.errors import UserError, check_known

_FORWARD = "forward: option 'layer'"


class Model:
    """The network of a config with the parameters of one of its epochs."""

    def __init__(self, config: Config, engine: Engine | None = None) -> None:
        """
        :param config: as for the task "search" or "forward"
        :param engine: with a network in search, whose layers `search_output_layer` are there
        """
        self.config = config
        self._engine = engine
        self._mode: str | None = None if engine is None else "search"
        self._search_layers = list(config.options.search_output_layer)
        extern_data = ExternData()
        extern_data.init_from_config(config)
        self.inputs = ModelInputs(config, extern_data.default_input, extern_data.data)

    def decode(self, inputs: Inputs, *, with_beam: bool = False) -> list[Any]:
        """
        :param inputs: audio files, texts, or arrays of frames or labels; a dict of them by data key, if there are
            several inputs
        :param with_beam: all hypotheses, as pairs of score and text, and not only the best one
        :return: text of each of them, with subwords put together. Several are computed at once, as `batch_size` and
            `max_seqs` say
        :raises UserError: if an input does not fit to the network
        """
        if are_none(inputs):
            return []
        engine = self._engine_for("search")
        dataset = self.inputs.dataset(inputs, may_be_empty=True)
        with _naming_missing_input("decode: the search", "decode", dataset):
            results = engine.search(dataset, do_eval=False, output_layer_names=self._search_layers)
        has_prefixes = labels_have_prefixes(engine.network, self._search_layers)
        hypotheses = [with_words(results[tag], has_prefixes=has_prefixes) for tag in tags(results)]
        return hypotheses if with_beam else [best_hypothesis(hyps) for hyps in hypotheses]

    def forward(self, inputs: Inputs, layer: str | None = None) -> list[numpy.ndarray]:
        """
        :param inputs: audio files, texts, or arrays of frames or labels; a dict of them by data key, if there are
            several inputs
        :param layer: whose output is wanted, such as "output/prob" in a loop; default: `forward_output_layer`, or
            "output"
        :return: output for each of them, without padding
        :raises UserError: if an input does not fit to the network, or if there is no such layer
        """
        name = layer or self.config.options.forward_output_layer
        engine = self._engine_for("forward", layer=name)
        outputs_of_network = [layer.name for layer in engine.network.get_output_layers()]
        if "/" not in name and name not in outputs_of_network:
            net_dict = engine.get_net_dict_for_epoch(epoch=engine.epochs.of_network)
            check_known("layer", name, {*outputs_of_network, *net_dict}, where=_FORWARD)
            raise UserError(
                f"{_FORWARD}: the layer {name!r} is computed in a search alone ('only_on_search'): model.decode(...)."
            )
        if are_none(inputs):
            return []
        dataset = self.inputs.dataset(inputs)
        outputs = OutputOfSeqs(name)
        with _naming_missing_input(f"forward: the layer {name!r}", "forward", dataset):
            engine.forward_with_callback(dataset=dataset, callback=outputs, layers=[name])
        return [outputs.by_tag[tag] for tag in tags(outputs.by_tag)]

    def prepare(self, what: str) -> int | None:
        """
        Loads what is loaded at first use.

        :param what: "search" or "forward"
        :return: epoch of the model
        :raises ConfigError: if it has no hypotheses in a search
        """
        engine = self._engine_for(what, layer=self.config.options.forward_output_layer)
        if what == "search":
            found = {name: engine.network.get_layer(name).output for name in self._search_layers}
            for name, output in found.items():
                check_labels(name, output)
            wanted = [output.raw_tensor for output in found.values()]
            with engine.session.tf_session.graph.as_default():  # the size of the batch belongs to a graph
                self.inputs.needed = frozenset(needed_keys(engine.network.extern_data, wanted))
        return engine.epoch

    def close(self) -> None:
        """Frees the memory of the session."""
        if self._engine is not None:
            self._engine.finalize()
            self._engine, self._mode = None, None

    def _engine_for(self, what: str, layer: str = "") -> Engine:
        """:return: with the network for that. There is one at a time, as with `rnn.py`"""
        mode = what if what == "search" else f"{what} {layer}"
        if self._engine is None or mode != self._mode:
            self.close()
            self.config.set("task", what)
            if what == "search":
                self.config.set("search_metrics", ())  # there are no references
                self._engine, self._search_layers = search_engine(self.config, with_losses=False)
            else:
                self._engine = forward_engine(self.config, layer)
            self._mode = mode
        return self._engine


@contextlib.contextmanager
def _naming_missing_input(what: str, method: str, dataset: Dataset) -> Iterator[None]:
    """
    :param what: is computed
    :param method: of the model, that was called
    :param dataset: of the inputs
    :raises UserError: if an input is missing
    """
    try:
        yield
    except MissingData as exc:
        given = ", ".join(f"{key!r}: [...]" for key in [*dataset.get_data_keys(), exc.key])
        raise UserError(f"{what} needs the input {exc.key!r}, too: model.{method}({{{given}}}).") from exc
