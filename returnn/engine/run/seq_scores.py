"""
Scores of single sequences, and files with scores.

The columns are `score` and `error`: mean over the frames of the sequence, or over its labels, as the loss has it;
`seq_len`: the number of these; `pos_score` and `pos_error`: of each frame; `perplexity`: exp of the score; `seq_tag`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from returnn.datasets.core.dataset import Dataset
from returnn.engine.run.scores import perplexity_of
from returnn.util.errors import check_known
from returnn.util.files.atomic_file import open_atomic

COLUMNS = ("score", "error", "pos_score", "pos_error", "seq_len", "perplexity", "seq_tag")
FILE_FORMATS = ("txt", "py")
_SOURCES = {"perplexity": "score"}


def write_scores(filename: str, scores: Mapping[str, float]) -> None:
    """
    :param filename: the file; it is complete or not there
    :param scores: by names such as "dev_score"
    """
    with open_atomic(filename) as file:
        lines = "".join(f"{key!r}: {value!r},\n" for key, value in sorted(scores.items()))
        file.write(f"{{\n{lines}}}\n")


class SeqScores:
    """Collects them over the batches of a data set. Who computes them adds `rows`."""

    def __init__(self, columns: Sequence[str]) -> None:
        """
        :param columns: some of `COLUMNS`
        :raises ConfigError: if there is no such column
        """
        for column in columns:
            check_known("column", column, COLUMNS, where="option 'output_per_seq_format'")
        self.with_perplexity = "perplexity" in columns
        self.columns = list(dict.fromkeys(_SOURCES.get(name, name) for name in columns if name != "seq_tag"))
        self.rows: dict[str, dict[str, Any]] = {}  # tag -> column -> value, of `columns`, which are those to compute
        self._written = list(columns)

    def sort(self, dataset: Dataset) -> str:
        """
        Sorts the rows as the sequences are in the corpus, if that is known. Some may have been left out.

        :param dataset: that they are of
        :return: for people: which order it is
        """
        try:
            positions = {tag: i for i, tag in enumerate(dataset.get_all_tags())}
        except NotImplementedError:
            return "the batches, as the data set does not know that of the corpus"
        self.rows = dict(sorted(self.rows.items(), key=lambda row: positions.get(row[0], len(positions))))
        return "the corpus"

    def write(self, filename: str, file_format: str) -> None:
        """
        :param filename: the file; it is complete or not there
        :param file_format: "txt": a line for each sequence, the columns separated by ";". "py": a dict by tag
        """
        check_known("format", file_format, FILE_FORMATS, where="option 'output_per_seq_file_format'")
        rows = {tag: {name: _value(name, tag, row) for name in self._written} for tag, row in self.rows.items()}
        with open_atomic(filename) as file:
            if file_format == "txt":
                for row in rows.values():
                    file.write(";".join(map(str, row.values())) + "\n")
            else:
                lines = "".join(f"{tag!r}: {row!r},\n" for tag, row in rows.items())
                file.write(f"{{\n{lines}}}\n")


def _value(name: str, tag: str, row: Mapping[str, Any]) -> Any:
    """:return: of a column that was asked for"""
    if name == "seq_tag":
        return tag
    return perplexity_of(row["score"]) if name == "perplexity" else row[name]
