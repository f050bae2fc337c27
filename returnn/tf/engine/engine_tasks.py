"""The part of the engine about tasks other than training: search, forward, statistics, answering over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.dataset import Dataset
from returnn.forward_iface import ForwardCallbackIface
from returnn.tf.engine import forward, forward_callback, search
from returnn.tf.engine import statistics as engine_statistics
from returnn.tf.engine.hypotheses import HypothesesPerLayer
from returnn.tf.engine.server import SearchServer
from returnn.tf.engine.single_seqs import EngineSingleSeqs
from returnn.util.errors import ConfigError
from returnn.util.gpu import have_gpu


class EngineTasks(EngineSingleSeqs):
    """Tasks."""

    def search(
        self,
        dataset: Dataset,
        do_eval: bool = True,
        output_layer_names: str | Sequence[str] = "output",
        output_file: str | None = None,
        output_file_format: str = "txt",
    ) -> dict[str, HypothesesPerLayer]:
        """
        :param dataset: what to decode
        :param do_eval: whether losses are computed
        :param output_layer_names: layers with the hypotheses
        :param output_file: where to write hypotheses; None: nowhere
        :param output_file_format: one of `returnn.tf.engine.hypotheses.FILE_FORMATS`
        :return: hypotheses by tag
        """
        return search.search(
            self, dataset, output_layer_names=output_layer_names, output_file=output_file,
            output_file_format=output_file_format, do_eval=do_eval,
        )  # fmt: skip

    def forward_to_hdf(
        self,
        data: Dataset,
        output_file: str,
        combine_labels: str = "",
        batch_size: int = 0,
        output_layer: str | None = None,
    ) -> None:
        """
        :param data: what goes in
        :param output_file: HDF file
        :param combine_labels: is not supported
        :param batch_size: 0: that of the config
        :param output_layer: default: `forward_output_layer` of the config, or the output of the network
        """
        if combine_labels:
            raise ConfigError(f"combine_labels={combine_labels!r} is not supported.\n  A layer has to do it.")
        forward.forward_to_hdf(self, data, output_file, output_layer=output_layer, batch_size=batch_size)

    def forward_with_callback(
        self, *, dataset: Dataset, callback: ForwardCallbackIface, dataset_init_epoch: bool = True
    ) -> None:
        """
        :param dataset: what goes in
        :param callback: gets the outputs of each sequence
        :param dataset_init_epoch: whether an epoch of the data set begins
        """
        forward_callback.forward_with_callback(
            self, dataset=dataset, callback=callback, dataset_init_epoch=dataset_init_epoch,
            batch_size=self.config.int("forward_batch_size", 0),
        )  # fmt: skip

    def analyze(self, data: Dataset, statistics: Sequence[str] | None) -> dict[str, dict[str, Any]]:
        """
        :param data: what goes in
        :param statistics: some of `returnn.tf.engine.statistics.STATISTICS`; None: all
        :return: statistics of the output layers
        """
        return engine_statistics.analyze(self, data, statistics)

    def compute_priors(self, dataset: Dataset, config: Config | None = None) -> numpy.ndarray:
        """
        :param dataset: what to take the mean of
        :param config: its option `output_file`
        :return: mean of the output over all frames
        """
        output_file = (config or self.config).value("output_file", None)
        if not output_file:
            raise ConfigError("task 'compute_priors': option 'output_file' is required: where the log prior goes.")
        return engine_statistics.compute_priors(self, dataset, output_file)

    def web_server(self, port: int) -> None:
        """
        Answers requests until the process is interrupted, see `returnn.tf.engine.server`.

        :param port: of this machine
        """
        with SearchServer(self, port) as server:
            server.serve_forever()

    @staticmethod
    def is_requesting_for_gpu() -> bool:
        """:return: whether there is a GPU to be used"""
        return have_gpu()
