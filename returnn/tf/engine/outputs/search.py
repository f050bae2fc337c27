"""Decoding of a data set, with the hypotheses written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.datasets.core.data_check import empty_seqs_allowed
from returnn.datasets.core.dataset import Dataset
from returnn.engine.hypothesis_files import HypothesesPerLayer, check_file_format
from returnn.engine.report.run_record import run_record
from returnn.engine.run.scores import describe_scores, with_perplexities
from returnn.engine.run.unique_tags import check_new_tags
from returnn.engine.search_results import (
    CorpusOrder,
    print_scores,
    warn_of_same_hypotheses,
    with_empty_hypotheses,
    write_search_output,
)
from returnn.log import log
from returnn.tf.engine.feeding.batches import batches_of
from returnn.tf.engine.outputs.hypotheses import HypothesisReader
from returnn.tf.engine.outputs.search_ends import SearchEnds
from returnn.tf.engine.passes.data_pass import DataPass
from returnn.tf.engine.passes.score_fetches import cross_entropies
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.tf.inspection.loop_ends import unlimited_warnings
from returnn.tf.network import TFNetwork
from returnn.util.files.atomic_file import check_writable
from returnn.util.texts.counted import counted
from returnn.util.texts.text_scores import check_metrics


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
    :param output_file_format: one of `returnn.tf.engine.outputs.hypotheses.FILE_FORMATS`
    :param do_eval: whether losses are computed
    :return: hypotheses by tag. With several layers, they are a dict by layer
    :raises ConfigError: if a layer does not exist or a format is not known
    """
    check_file_format(output_file_format)
    if output_file:
        check_writable(output_file)
    reader = HypothesisReader(session.network, output_layer_names)
    results: dict[str, HypothesesPerLayer] = {}

    corpus_order = CorpusOrder(dataset)
    metrics = session.config.options.search_metrics
    check_metrics(metrics, where="option 'search_metrics'")
    references = reader.references(dataset) if metrics else None
    for text in unlimited_warnings(session.network.layers_desc):
        log.print_warning(text)
    ends = SearchEnds(session.network)
    texts: dict[str, str] = {}

    def collect(**values: Any) -> None:
        if references is not None:
            texts.update(zip(data_pass.current_tags, references.read(values, dataset), strict=True))
        ends.count(values)
        check_new_tags(data_pass.current_tags, results, task="search", results="hypotheses")
        corpus_order.add(data_pass.current_tags)
        results.update(zip(data_pass.current_tags, reader.read(values, dataset), strict=True))

    dataset.init_seq_order(session.epoch or 1)
    fetches = {**reader.fetches, **ends.fetches, **(references.fetches if references is not None else {})}
    data_pass = DataPass(
        session,
        dataset_name="search",
        dataset=dataset,
        eval=do_eval,
        batches=batches_of(session, dataset, train=False, batch_size=session.config.options.forward_batch_size),
        extra_fetches=fetches,
        extra_fetches_callback=collect,
    )
    with empty_seqs_allowed() as empty:
        data_pass.run("search", raise_exception=True)
    _print_losses_and_speed(data_pass, session.network)
    ends.print_warnings()
    results = with_empty_hypotheses(corpus_order.sorted(results), empty)
    if references is not None or output_file:
        warn_of_same_hypotheses(results)
    if references is not None:
        print_scores(
            results,
            texts,
            metrics,
            end_label=references.end_label,
            has_prefixes=reader.has_prefixes,
            record=run_record(session.config),
            epoch=session.epoch,
        )
    if output_file:
        left_out = data_pass.scores.left_out
        write_search_output(
            output_file, results, output_file_format, corpus_order, left_out, has_prefixes=reader.has_prefixes
        )
    return results


def _print_losses_and_speed(data_pass: DataPass, network: TFNetwork) -> None:
    scores = with_perplexities(data_pass.results, cross_entropies(network.losses_dict))
    if scores:
        print(f"search: {describe_scores(scores)}", file=log.v1)
    print(
        f"search: {counted(data_pass.num_seqs, 'sequence')}, {data_pass.num_seqs / data_pass.elapsed:.1f} per second",
        file=log.v2,
    )
