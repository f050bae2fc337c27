"""`References`: what a search should have found, as text."""

from __future__ import annotations

from typing import Any

from returnn.datasets.core.dataset import Dataset
from returnn.engine.frontend.batch_arrays import ArrayBatch
from returnn.engine.search_results import missing_references
from returnn.tensor import Tensor, TensorDict
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import warn_once


class References:
    """Collects the labels of one of the data keys."""

    def __init__(self, templates: TensorDict, key: str, dataset: Dataset) -> None:
        """
        :param templates: of the data, by key
        :param key: of the target
        :param dataset: has the labels, and their names, if the template has none
        :raises ConfigError: if there is no such data, or its labels have no names
        """
        have = [name for name in templates.data if name in dataset.get_data_keys()]
        if key not in have:
            raise missing_references(key, have)
        self._key = key
        self._dataset = dataset
        if not templates[key].sparse:
            raise ConfigError(f"option 'search_metrics': {key!r} has no labels, but features: {templates[key]}.")
        self._vocab: Any = templates[key].vocab
        if self._vocab is None and not dataset.can_serialize_data(key):
            raise ConfigError(
                f"option 'search_metrics': the labels of {key!r} have no names.\n"
                f"  Give it a 'vocab' in 'extern_data', such as {{'vocab_file': FILE}}."
            )
        self.texts: dict[str, str] = {}  # by tag

    @property
    def end_label(self) -> str | None:
        """At the end of each one; None if it is not known."""
        return None if self._vocab is None else self._vocab.end_label

    def check_are_of(self, labels: Tensor) -> None:
        """
        :param labels: what was found, of any sequence
        :raises ConfigError: if these are numbers, and the references are texts
        """
        if labels.vocab is None:
            raise ConfigError(
                f"option 'search_metrics': the labels of the output {labels.name!r} have no names, so they cannot be "
                f"compared with the data {self._key!r}.\n  Their dim is {labels.sparse_dim}; mark_as_output needs a "
                "tensor whose sparse_dim is that of the data, or has a vocab."
            )
        if self._vocab is not None and labels.vocab is not self._vocab and labels.vocab.labels != self._vocab.labels:
            warn_once(
                f"the labels of the output {labels.name!r} are those of {labels.sparse_dim}, not those of the data "
                f"{self._key!r}; they are compared as texts"
            )

    def add(self, batch: ArrayBatch) -> None:
        """Notes the labels of the sequences."""
        lengths = batch.arrays[f"{self._key}_seq_lens"]
        for tag, labels, length in zip(batch.seq_tags, batch.arrays[self._key], lengths, strict=True):
            self.texts[tag] = self._text(labels[: int(length)])

    def _text(self, labels: Any) -> str:
        if self._vocab is not None:
            return self._vocab.get_seq_labels(labels)
        return self._dataset.serialize_data(self._key, labels)
