"""Vocabularies of characters and of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import numpy.typing

from returnn.datasets.util.vocabulary_base import MaybeLabel, Vocabulary


class CharacterTargets(Vocabulary):
    """Each character is a label. White space is one as any other."""

    has_parts_of_words = True

    def __init__(
        self,
        vocab_file: str | None,
        *,
        seq_postfix: Sequence[int] | None = None,
        unknown_label: MaybeLabel = "@",
        labels: Sequence[str] | Callable[[], Sequence[str]] | None = None,
        **kwargs: Any,
    ):
        """
        :param vocab_file: see `Vocabulary`
        :param seq_postfix: indices that `get_seq` appends to each sequence
        :param unknown_label: for characters that are not there. None: such a character is an error
        :param labels: instead of `vocab_file`
        """
        super().__init__(vocab_file, seq_postfix=seq_postfix, unknown_label=unknown_label, labels=labels, **kwargs)

    def get_seq(self, sentence: str) -> list[int]:
        return self.get_seq_indices(sentence) + self.seq_postfix

    def get_seq_labels(self, seq: Sequence[int] | numpy.typing.NDArray[Any]) -> str:
        return "".join(self.id_to_label(int(index)) for index in seq)


class Utf8ByteTargets(Vocabulary):
    """
    The 256 bytes, so every text can be written. Label i is the character with code point i.

    No file is needed. Further labels after the bytes, as for the end of a sentence, are not possible: take a byte that
    UTF-8 never uses, such as 255.
    """

    fixed_options = ("vocab_file", "labels", "unknown_label")

    def __init__(self, seq_postfix: Sequence[int] | None = None, **kwargs: Any):
        """:param seq_postfix: indices that `get_seq` appends to each sequence"""
        labels = [chr(i) for i in range(256)]
        super().__init__(None, seq_postfix=seq_postfix, unknown_label=None, labels=labels, **kwargs)

    def get_seq(self, sentence: str) -> list[int]:
        return [*sentence.encode("utf-8"), *self.seq_postfix]

    def get_seq_labels(self, seq: Sequence[int] | numpy.typing.NDArray[Any]) -> str:
        return numpy.asarray(seq, dtype="uint8").tobytes().decode("utf-8", errors="backslashreplace")
