"""Whether a data set has what `extern_data` describes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from returnn.log import log
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted


class Described(Protocol):
    """What is asked of a template of `extern_data`."""

    @property
    def sparse(self) -> bool:
        """Whether it is labels."""

    @property
    def dim(self) -> int | None:
        """Number of labels or features."""

    @property
    def vocab(self) -> Any:
        """The `Vocabulary` of the labels, or None."""


class HasData(Protocol):
    """What is asked of a data set."""

    labels: dict[str, list[str]]

    @property
    def description(self) -> str:
        """How messages call it."""

    def is_data_sparse(self, key: str) -> bool:
        """:return: whether these are labels"""

    def get_data_dim(self, key: str) -> int:
        """:return: number of labels or features"""

    def get_data_dtype(self, key: str) -> str:
        """:return: of the arrays"""


def check_fits_to_dataset(key: str, tensor: Described, dataset: HasData) -> None:
    """
    :param key: of the data
    :param tensor: what the config says of it
    :param dataset: has the key
    :raises ConfigError: if the numbers of labels or features differ. Other labels of the same number are a warning
    """
    sparse, dim = dataset.is_data_sparse(key), dataset.get_data_dim(key)
    if sparse != tensor.sparse or (tensor.dim is not None and dim != tensor.dim):
        raise ConfigError(_unlike_dataset_text(key, tensor, dataset))
    if sparse and tensor.vocab is not None:
        _warn_of_other_labels(key, tensor.vocab.labels, dataset)


def _unlike_dataset_text(key: str, tensor: Described, dataset: HasData) -> str:
    sparse, dim = dataset.is_data_sparse(key), dataset.get_data_dim(key)
    text = (
        f"extern_data: {key!r} has {_entries_text(tensor.sparse, tensor.dim)}, but that of {dataset.description} has "
    )
    if _is_text(dataset.get_data_dtype(key)):
        return f"{text}texts. A network takes numbers: labels of a vocabulary ('returnn tool make-vocab')."
    text += f"{_entries_text(sparse, dim)}."
    if sparse and tensor.sparse and tensor.vocab is not None:
        return f"{text}\n  Here and there, the vocabulary has to be the same. In 'extern_data', it is {tensor.vocab}."
    return f"{text}\n  Data like that is {{{key!r}: {_entry_of_config(sparse, dim)}}} in 'extern_data'."


def _warn_of_other_labels(key: str, labels: Sequence[str], dataset: HasData) -> None:
    here, there = list(labels), list(dataset.labels.get(key, ()))
    if len(here) != len(there) or here == there:
        return
    index = next(i for i, label in enumerate(here) if label != there[i])
    log.print_warning(
        f"extern_data: label {index} of {key!r} is {here[index]!r}, but {there[index]!r} in {dataset.description}."
        " The vocabulary is another one, so texts of outputs are wrong."
    )


def _entries_text(sparse: bool, dim: int | None) -> str:
    if dim is None:
        return f"{'labels' if sparse else 'features'} of no fixed number"
    return counted(dim, "label" if sparse else "feature")


def _entry_of_config(sparse: bool, dim: int) -> str:
    return f'{{"dim": {dim}, "sparse": True}}' if sparse else f'{{"dim": {dim}}}'


def _is_text(dtype: str) -> bool:
    return dtype in ("string", "str", "bytes") or dtype.lstrip("|<>=").startswith(("S", "U"))
