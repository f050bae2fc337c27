"""Statistics of what a network yields for data, see `returnn.engine.output_statistics`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.datasets.core.dataset import Dataset
from returnn.engine.output_statistics import OutputStatistics, write_log_prior
from returnn.tf.engine.outputs.forward_callback import forward_with_callback
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.util.errors import ConfigError


def analyze(
    session: NetworkSession, dataset: Dataset, statistics: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """
    :param session: with a network
    :param dataset: what goes in
    :param statistics: some of `STATISTICS`; default: all
    :return: by output layer, and by statistic: numbers per feature; of layers with labels, how often each one is
    """
    collected = OutputStatistics(statistics)
    forward_with_callback(session, dataset=dataset, callback=collected)
    return collected.print_results()


def compute_priors(session: NetworkSession, dataset: Dataset, output_file: str) -> numpy.ndarray:
    """
    :param session: with a network of which the layer `forward_output_layer` has probabilities
    :param dataset: what to take the mean of
    :param output_file: gets the log probabilities: one per line, or with the ending ".xml" as vector for Sprint
    :return: [dim], mean of the output over all frames
    :raises ConfigError: if the output are no probabilities
    """
    name = session.config.options.forward_output_layer
    output = session.network.get_layer(name).output
    if output.feature_dim is None:
        raise ConfigError(
            f"task 'compute_priors': the layer {name!r} has {output}, expected probabilities.\n"
            "  Option 'forward_output_layer' says which layer has them."
        )
    collected = OutputStatistics()
    forward_with_callback(session, dataset=dataset, callback=collected, layers=[name])
    prior = collected.results()[name]["mean"]
    write_log_prior(prior, output_file, output=name, num_seqs=collected.num_seqs)
    return prior
