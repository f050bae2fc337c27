"""
What a search found, for all backends: hypotheses in the order of the corpus, their scores by references, and a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.engine.hypothesis_files import (
    HypothesesPerLayer,
    best_hypothesis,
    check_file_format,
    empty_hypotheses,
    words_of,
    words_of_texts,
    write_hypotheses,
)
from returnn.engine.model_names import check_has_model
from returnn.engine.report.missing_seqs import missing_seqs_text
from returnn.engine.report.run_record import RunRecord
from returnn.log import log
from returnn.util.errors import ConfigError, UserError, nearest_hint
from returnn.util.files.atomic_file import check_writable
from returnn.util.texts.counted import counted
from returnn.util.texts.text_scores import check_metrics, score_lines, without_end

Result = TypeVar("Result")
Found = TypeVar("Found", bound=HypothesesPerLayer)
_FEW = 5  # may be the same by chance
_MAX_CHARS = 60


def check_output_options(config: Config) -> None:
    """
    Looks at the options of what a search prints and writes, which takes no time, before a model is made.

    :param config: options
    :raises UserError: if one of them is wrong
    """
    check_file_format(config.options.search_output_file_format)
    check_metrics(config.options.search_metrics, where="option 'search_metrics'")
    if config.options.search_output_file:
        try:
            check_writable(config.options.search_output_file)
        except UserError:  # a training makes the folder
            check_has_model(config)
            raise


def missing_references(key: str, have: Collection[str]) -> ConfigError:
    """
    :param key: of the target
    :param have: keys of the data
    :return: there is nothing to compare hypotheses with
    """
    return ConfigError(
        f"option 'search_metrics': the references are the data {key!r}, which is not there.\n"
        f"  {nearest_hint(key, have)} The option 'target' says which data it is. Without references:"
        " ++search_metrics None."
    )


def print_scores(
    results: Mapping[str, HypothesesPerLayer],
    references: Mapping[str, str],
    metrics: Sequence[str],
    *,
    end_label: str | None,
    has_prefixes: bool,
    record: RunRecord,
    epoch: int | None,
) -> None:
    """
    :param results: hypotheses by tag
    :param references: labels by tag
    :param metrics: see `score_lines`
    :param end_label: of the references; None if there is none
    :param has_prefixes: of the labels of hypotheses, see `words_of`
    :param record: gets scores and some of the hypotheses
    :param epoch: of the model
    """
    hypotheses = {tag: best_hypothesis(hyp) for tag, hyp in results.items()}
    without_ends = without_end(hypotheses, end_label)
    found = {tag: words_of(text, has_prefixes=has_prefixes) for tag, text in without_ends.items()}
    expected = words_of_texts(without_end(references, end_label))
    lines = list(score_lines(found, expected, metrics))
    for line in lines:
        print(f"search: {line}", file=log.v1)
    record.write_search(epoch, found, expected, lines)


def write_search_output(
    filename: str,
    results: Mapping[str, HypothesesPerLayer],
    file_format: str,
    corpus_order: CorpusOrder,
    left_out: Mapping[str, int],
    *,
    has_prefixes: bool,
) -> None:
    """
    :param filename: see `write_hypotheses`
    :param results: in the order of the corpus
    :param file_format: see `write_hypotheses`
    :param corpus_order: which that is
    :param left_out: how many sequences were left out because of their length, by the option that does it
    :param has_prefixes: see `words_of`
    """
    write_hypotheses(filename, results, file_format, has_prefixes=has_prefixes)
    missing = missing_seqs_text(corpus_order.dataset, len(results), left_out)
    print(f"search: wrote {filename!r}, in the order of {corpus_order}{missing}", file=log.v1)


def with_empty_hypotheses(results: Mapping[str, Found], tags: Collection[str]) -> dict[str, Found]:
    """
    :param results: hypotheses by tag
    :param tags: of the sequences without frames, about which a line says how many they are
    :return: the same; nothing is found in these
    """
    if tags:
        text = f"{counted(len(tags), 'sequence')} without frames, such as {min(tags)!r}"
        log.print_warning(f"search: {text}: their hypotheses are empty, too.")
    empty: dict[str, Found] = {tag: empty_hypotheses(results[tag]) for tag in tags}  # type: ignore[misc]  # same form
    return {**results, **empty}


def warn_of_same_hypotheses(results: Mapping[str, HypothesesPerLayer]) -> None:
    """
    Says that the model does not depend on its input yet. It has an error like one that is bad at each of them.

    :param results: hypotheses by tag
    """
    if len(results) < _FEW or any(isinstance(hyp, dict) for hyp in results.values()):
        return
    texts = {words_of(best_hypothesis(hyp)) for hyp in results.values()}
    if len(texts) == 1:
        (text,) = texts
        what = f"the same: {text[:_MAX_CHARS]!r}" if text.strip() else "empty"
        log.print_warning(
            f"all {len(results)} hypotheses are {what}. So are those of a model that is not trained enough, or that "
            "has learned to ignore its input."
        )


class CorpusOrder:
    """Where the sequences are in the corpus, which they are not decoded in the order of."""

    def __init__(self, dataset: Dataset) -> None:
        """:param dataset: whose sequences are decoded in its order; some may be left out"""
        self.dataset = dataset
        self._positions: dict[str, int] = {}
        self._next_seq_idx = 0
        with contextlib.suppress(NotImplementedError):
            self._positions = {tag: i for i, tag in enumerate(dataset.get_all_tags())}
        self._counts = not self._positions and dataset.have_corpus_seq_idx()  # sequences have no names to find them by
        self.is_known = self._counts or bool(self._positions)

    def __str__(self) -> str:
        return "the corpus" if self.is_known else "decoding, as the data set does not know that of the corpus"

    def add(self, tags: Sequence[str]) -> None:
        """Notes the sequences that come next."""
        if self._counts:
            for tag in tags:
                seq_idx = self._index_of(tag)
                self._positions[tag] = self.dataset.get_corpus_seq_idx(seq_idx)
                self._next_seq_idx = seq_idx + 1

    def _index_of(self, tag: str) -> int:
        """:return: of the next sequence of this tag; those before it are left out"""
        seq_idx = self._next_seq_idx
        while self.dataset.get_tag(seq_idx) != tag and self.dataset.is_less_than_num_seqs(seq_idx + 1):
            seq_idx += 1
        return seq_idx

    def sorted(self, results: Mapping[str, Result]) -> dict[str, Result]:
        """:return: in the order of the corpus, if it is known"""
        if not self.is_known:
            return dict(results)
        return dict(sorted(results.items(), key=lambda item: self._positions.get(item[0], len(self._positions))))
