"""A parallel corpus of text as a HDF file, for `HDFDataset`: the source is "data", the target is "classes"."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from returnn.datasets.hdf.hdf_writer import HdfFileWriter, KeyFormat
from returnn.datasets.util.vocab_file import labels_by_index, read_vocab_file
from returnn.util.errors import UserError, check_known
from returnn.util.files.text_file import iter_lines

_COMPRESSIONS = ("gzip", "lzf")
_DTYPE = "int32"


@dataclass(frozen=True)
class Side:
    """One language: its lines, and a vocabulary for each factor of a word."""

    filename: str
    vocabs: Mapping[str, Mapping[str, int]]  # by data key
    unknown_label: str | None

    @classmethod
    def open(
        cls, filename: str, vocabularies: str, key: str, factors: str | None, *, unknown_label: str | None
    ) -> Side:
        """
        :param filename: of the text
        :param vocabularies: files, with commas, one for each factor
        :param key: data key of the first factor
        :param factors: data keys of further ones, with commas
        :param unknown_label: for words that are not in the vocabulary; None: they are an error
        :raises UserError: if a file is wrong, or there are more or fewer of them than factors
        """
        keys = [key, *((factors or "").split(",") if factors else [])]
        files = vocabularies.split(",")
        if len(files) != len(keys):
            raise UserError(
                f"vocabularies {vocabularies!r}: {len(files)} are given, but words have {len(keys)} factors: "
                f"{', '.join(keys)}."
            )
        vocabs = {key: read_vocab_file(file) for key, file in zip(keys, files, strict=True)}
        if unknown_label is not None:
            for name, vocab in zip(files, vocabs.values(), strict=True):
                check_known("label", unknown_label, vocab, where=f"option '--unknown_label', vocabulary {name!r}")
        return cls(filename, vocabs, unknown_label)

    def labels(self, line: str, line_nr: int, factor_separator: str) -> dict[str, numpy.ndarray]:
        """
        :param line: of the text
        :param line_nr: from 1, for messages
        :param factor_separator: between the factors of a word
        :return: (words,) by data key
        :raises UserError: if a word is not in the vocabulary, or has another number of factors
        """
        words = line.split()
        if not words:
            raise UserError(f"file {self.filename!r}, line {line_nr}: it is empty, and a sequence has to have words.")
        factors = [word.split(factor_separator) for word in words] if len(self.vocabs) > 1 else [[w] for w in words]
        for word, parts in zip(words, factors, strict=True):
            if len(parts) != len(self.vocabs):
                raise UserError(
                    f"file {self.filename!r}, line {line_nr}: the word {word!r} has {len(parts)} factors, "
                    f"expected {len(self.vocabs)}: {', '.join(self.vocabs)}."
                )
        columns = {}
        for i, (key, vocab) in enumerate(self.vocabs.items()):
            indices = [self._index(parts[i], vocab, key, line_nr) for parts in factors]
            columns[key] = numpy.array(indices, dtype=_DTYPE)
        return columns

    def _index(self, label: str, vocab: Mapping[str, int], key: str, line_nr: int) -> int:
        known = label if label in vocab or self.unknown_label is None else self.unknown_label
        if known not in vocab:
            raise UserError(
                f"file {self.filename!r}, line {line_nr}: {label!r} is not in the vocabulary of {key!r}.\n"
                "  Option '--unknown_label' names a label for such words."
            )
        return vocab[known]


def write_translation_hdf(
    filename: str,
    sides: Sequence[Side],
    *,
    num_lines: int,
    factor_separator: str = "|",
    compression: str | None = None,
    buffer_lines: int = 100000,
    buffer_words: int = 5000000,
) -> int:
    """
    :param filename: of the HDF file, which is complete or not there
    :param sides: source and target
    :param num_lines: how many of them
    :param factor_separator: between the factors of a word
    :param compression: of the data; None: none
    :param buffer_lines: that are kept in memory before they are written
    :param buffer_words: the same, words
    :return: number of words
    :raises UserError: if a text has not so many lines, or a word is wrong
    """
    if compression is not None:
        check_known("compression", compression, _COMPRESSIONS, where="option '--compression'")
    for option, value in (("number_of_lines", num_lines), ("line_buffer_size", buffer_lines)):
        if value < 1:
            raise UserError(f"option '--{option}': {value}, expected a number from 1.")
    writer = HdfFileWriter(
        filename,
        compression=compression,
        buffer_bytes=max(buffer_words, 1) * numpy.dtype(_DTYPE).itemsize,
        buffer_seqs=buffer_lines,
    )
    try:
        labels = {key: labels_by_index(vocab) for side in sides for key, vocab in side.vocabs.items()}
        writer.set_formats({key: KeyFormat(len(names), 1, _DTYPE) for key, names in labels.items()}, labels)
        num_words = _append_lines(writer, sides, num_lines, factor_separator)
    except BaseException:
        writer.discard()
        raise
    writer.close()
    return num_words


def _append_lines(writer: HdfFileWriter, sides: Sequence[Side], num_lines: int, factor_separator: str) -> int:
    num_words = num_done = 0
    texts = [iter_lines(side.filename) for side in sides]
    for i, lines in enumerate(itertools.islice(itertools.zip_longest(*texts), num_lines)):
        data: dict[str, numpy.ndarray] = {}
        for side, line in zip(sides, lines, strict=True):
            if line is None:
                raise UserError(f"file {side.filename!r} has only {i} lines, {num_lines} are wanted.")
            data.update(side.labels(line, i + 1, factor_separator))
        writer.append(f"line-{i}", data)
        num_words += sum(map(len, data.values()))
        num_done = i + 1
    if num_done < num_lines:
        raise UserError(f"file {sides[0].filename!r} has only {num_done} lines, {num_lines} are wanted.")
    return num_words
