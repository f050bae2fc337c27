"""Decoding of a data set, with the hypotheses written to a file."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Any

from returnn.datasets.core.dataset import Dataset
from returnn.engine.hypothesis_files import (
    FILE_FORMATS,
    HypothesesPerLayer,
    best_hypothesis,
    words_of,
    write_hypotheses,
)
from returnn.log import log
from returnn.tf.engine.batches import batches_of
from returnn.tf.engine.data_pass import DataPass
from returnn.tf.engine.hypotheses import HypothesisReader, ReferenceReader
from returnn.tf.engine.network_session import NetworkSession
from returnn.util.errors import UserError, check_known
from returnn.util.texts.text_scores import check_metrics, score_lines


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

    corpus_order = _CorpusOrder(dataset)
    metrics = session.config.options.search_metrics
    check_metrics(metrics, where="option 'search_metrics'")
    references = ReferenceReader(session.network, reader.target, dataset) if metrics else None
    texts: dict[str, str] = {}

    def collect(**values: Any) -> None:
        if references is not None:
            texts.update(zip(data_pass.current_tags, references.read(values, dataset), strict=True))
        _check_new(data_pass.current_tags, results)
        corpus_order.add(data_pass.current_tags)
        results.update(zip(data_pass.current_tags, reader.read(values, dataset), strict=True))

    dataset.init_seq_order(session.epoch or 1)
    fetches = {**reader.fetches, **(references.fetches if references is not None else {})}
    data_pass = DataPass(
        session,
        dataset_name="search",
        dataset=dataset,
        eval=do_eval,
        batches=batches_of(session, dataset, train=False, batch_size=session.config.options.forward_batch_size),
        extra_fetches=fetches,
        extra_fetches_callback=collect,
    )
    data_pass.run("search", raise_exception=True)
    for key, value in sorted(data_pass.results.items()):
        print(f"search: {key.replace(':', ' ')} {value:.6g}", file=log.v1)
    print(
        f"search: {data_pass.num_seqs} sequences, {data_pass.num_seqs / data_pass.elapsed:.1f} per second", file=log.v2
    )
    results = corpus_order.sorted(results)
    if references is not None:
        hyps = {tag: words_of(best_hypothesis(hyp)) for tag, hyp in results.items()}
        for line in score_lines(hyps, texts, session.config.options.search_metrics):
            print(f"search: {line}", file=log.v1)
    if output_file:
        write_hypotheses(output_file, results, output_file_format)
        print(f"search: wrote {output_file!r}, in the order of {corpus_order}", file=log.v1)
    return results


def _check_new(tags: Sequence[str], known: Collection[str]) -> None:
    """:raises UserError: if one of the tags was there already: results are kept by tag"""
    for i, tag in enumerate(tags):
        if tag in known or tag in tags[:i]:
            raise UserError(
                f"search: two sequences have the tag {tag!r}, so the hypotheses of one would be lost.\n"
                "  Tags have to be unique. See the data set, or its option 'seq_list_filter_file'."
            )


class _CorpusOrder:
    """Where the sequences are in the corpus, which they are not decoded in the order of."""

    def __init__(self, dataset: Dataset) -> None:
        """:param dataset: whose sequences are decoded from the first one on, none left out"""
        self._dataset = dataset
        self._positions: dict[str, int] = {}
        self._num_seqs = 0
        with contextlib.suppress(NotImplementedError):
            if not dataset.have_corpus_seq_idx():
                self._positions = {tag: i for i, tag in enumerate(dataset.get_all_tags())}
        self.is_known = dataset.have_corpus_seq_idx() or bool(self._positions)

    def __str__(self) -> str:
        return "the corpus" if self.is_known else "decoding, as the data set does not know that of the corpus"

    def add(self, tags: Sequence[str]) -> None:
        """Notes the sequences that come next."""
        if self._dataset.have_corpus_seq_idx():
            for tag in tags:
                self._positions[tag] = self._dataset.get_corpus_seq_idx(self._num_seqs)
                self._num_seqs += 1

    def sorted(self, results: dict[str, HypothesesPerLayer]) -> dict[str, HypothesesPerLayer]:
        """:return: in the order of the corpus, if it is known"""
        if not self.is_known:
            return results
        return dict(sorted(results.items(), key=lambda item: self._positions.get(item[0], len(self._positions))))
