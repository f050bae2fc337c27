"""Decoding of a data set, with the hypotheses written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.datasets.core.dataset import Dataset
from returnn.log import log
from returnn.tf.engine.batches import batches_of
from returnn.tf.engine.data_pass import DataPass
from returnn.tf.engine.hypotheses import FILE_FORMATS, HypothesesPerLayer, HypothesisReader, write_hypotheses
from returnn.tf.engine.network_session import NetworkSession
from returnn.util.errors import check_known


def search(
    session: NetworkSession,
    dataset: Dataset,
    *,
    output_layer_names: str | Sequence[str] = "output",
    output_file: str | None = None,
    output_file_format: str = "txt",
    do_eval: bool = True,
) -> dict[str, HypothesesPerLayer]:
    """
    :param session: with a network in search
    :param dataset: what to decode
    :param output_layer_names: layers with the hypotheses
    :param output_file: where to write hypotheses; None: nowhere
    :param output_file_format: one of `returnn.tf.engine.hypotheses.FILE_FORMATS`
    :param do_eval: whether losses are computed
    :return: hypotheses by tag. With several layers, they are a dict by layer
    :raises ConfigError: if a layer does not exist or a format is not known
    """
    check_known("format", output_file_format, FILE_FORMATS, where="option 'search_output_file_format'")
    reader = HypothesisReader(session.network, output_layer_names)
    results: dict[str, HypothesesPerLayer] = {}

    def collect(**values: Any) -> None:
        results.update(zip(data_pass.current_tags, reader.read(values, dataset), strict=True))

    dataset.init_seq_order(session.epoch or 1)
    data_pass = DataPass(
        session, dataset_name="search", dataset=dataset, eval=do_eval,
        batches=batches_of(session, dataset, train=False, batch_size=session.config.options.forward_batch_size),
        extra_fetches=reader.fetches, extra_fetches_callback=collect,
    )  # fmt: skip
    data_pass.run("search", raise_exception=True)
    for key, value in sorted(data_pass.results.items()):
        print(f"search: {key.replace(':', ' ')} {value:.6g}", file=log.v1)
    print(
        f"search: {data_pass.num_seqs} sequences, {data_pass.num_seqs / data_pass.elapsed:.1f} per second", file=log.v2
    )
    if output_file:
        write_hypotheses(output_file, results, output_file_format)
        print(f"search: wrote {output_file!r}", file=log.v1)
    return results
