"""`Model`: a trained model of the frontend, used from Python: `returnn.load("model.config").decode(["a.wav"])`."""

from __future__ import annotations

from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.data_check import empty_seqs_allowed
from returnn.datasets.util.data_description import found_input
from returnn.engine.frontend.on_templates import check_outputs
from returnn.engine.frontend.outputs import HypothesesOutput
from returnn.engine.frontend.tasks import make_engine
from returnn.engine.hypothesis_files import best_hypothesis, with_words
from returnn.engine.model_inputs import Inputs, ModelInputs, OutputOfSeqs, are_none, tags
from returnn.engine.search_results import with_empty_hypotheses
from returnn.forward_iface import ForwardCallbackIface


class Model:
    """What `get_model` returned, with the parameters of one of its epochs. All is computed by `forward_step`."""

    def __init__(self, config: Config) -> None:
        """:param config: as for the task "search" or "forward\""""
        self.config = config
        self._engine = make_engine(config)
        self._engine.init_network_from_config(config)
        templates = self._engine.runner.templates
        key = found_input(templates.data, default_input=config.options.default_input, target=config.options.target)
        self.inputs = ModelInputs(config, key, templates.data)

    def decode(self, inputs: Inputs, *, with_beam: bool = False) -> list[Any]:
        """
        :param inputs: audio files, texts, or arrays of frames or labels; a dict of them by data key, if there are
            several inputs
        :param with_beam: all hypotheses, as pairs of score and text, and not only the best one
        :return: text of each of them, with subwords put together, of the output `search_output_layer`. Several are
            computed at once, as `batch_size` and `max_seqs` say
        :raises UserError: if an input does not fit to the model
        """
        output = HypothesesOutput(self.config.options.search_output_layer[0])
        with empty_seqs_allowed() as empty:
            self._forward(inputs, output, may_be_empty=True)
        results = with_empty_hypotheses(output.results, empty)
        hypotheses = [with_words(results[tag], has_prefixes=output.has_prefixes) for tag in tags(results)]
        return hypotheses if with_beam else [best_hypothesis(hyps) for hyps in hypotheses]

    def forward(self, inputs: Inputs, layer: str | None = None) -> list[numpy.ndarray]:
        """
        :param inputs: audio files, texts, or arrays of frames or labels; a dict of them by data key, if there are
            several inputs
        :param layer: name of the output that is wanted; default: `forward_output_layer`, or "output"
        :return: output for each of them, without padding
        :raises UserError: if an input does not fit to the model, or if there is no such output
        """
        output = OutputOfSeqs(layer or self.config.options.forward_output_layer)
        self._forward(inputs, output)
        return [output.by_tag[tag] for tag in tags(output.by_tag)]

    def _forward(self, inputs: Inputs, callback: ForwardCallbackIface, *, may_be_empty: bool = False) -> None:
        if are_none(inputs):
            return
        self._engine.trained_model.forward(self.inputs.dataset(inputs, may_be_empty=may_be_empty), callback)

    def prepare(self, what: str) -> int | None:
        """
        Sees that the model answers what is asked for, so that it is said before the first request comes.

        :param what: "search" or "forward"
        :return: epoch of the model
        :raises ConfigError: if `forward_step` has no such output
        """
        check_outputs(self.config, self._engine.runner.model, self._engine.runner.templates, what)
        return self._engine.epoch

    def close(self) -> None:
        """Frees the memory."""
        self._engine.finalize()
