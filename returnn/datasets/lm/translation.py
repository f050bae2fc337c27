"""
Text in two languages, line by line.

A folder has the files `source.POSTFIX` and `target.POSTFIX` (each may end in `.gz`), with words separated by spaces,
and the vocabularies `source.vocab.pkl` and `target.vocab.pkl`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import GetSeqLen, SeqLens
from returnn.datasets.util.text_corpus import TextCorpus
from returnn.datasets.util.unknown_labels import UnknownLabels
from returnn.datasets.util.vocab_file import labels_by_index, read_vocab_file
from returnn.log import log
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.files.cache_manager import cf
from returnn.util.files.text_file import iter_lines
from returnn.util.texts.counted import counted

_TAG_PREFIX = "line-"
_VOCAB_ENDINGS = (".vocab.pkl", ".vocab", ".vocab.txt")


class TranslationDataset(CorpusDataset):
    """
    Words of the source as "data", words of the target as "classes".

    The folder has the files `source.POSTFIX` and `target.POSTFIX`, with a sentence per line and spaces between words,
    and the vocabularies `source.vocab` and `target.vocab` (or `.vocab.txt`, `.vocab.pkl`); see `vocab_file` for their
    formats. The files of text may end in `.gz`. For subwords, or for files with other names, join two `LmDataset` by
    `MetaDataset`.
    """

    source_file_prefix: ClassVar[str] = "source"
    target_file_prefix: ClassVar[str] = "target"
    main_source_data_key: ClassVar[str] = DEFAULT_KEY
    main_target_data_key: ClassVar[str] = "classes"

    def __init__(
        self,
        path: str,
        file_postfix: str,
        source_postfix: str = "",
        target_postfix: str = "",
        source_only: bool = False,
        search_without_reference: bool = False,
        unknown_label: str | Mapping[str, str | None] | None = None,
        seq_list_file: str | None = None,
        use_cache_manager: bool = False,
        **kwargs: Any,
    ):
        """
        :param path: the folder
        :param file_postfix: e.g. "train", for `source.train` and `target.train`
        :param source_postfix: is put after each line, e.g. " </s>"
        :param target_postfix: the same for the target
        :param source_only: there is no target at all
        :param search_without_reference: there is a vocabulary of the target, and no text: it is then empty
        :param unknown_label: for words that are not there; or a dict by data key. None: they are an error
        :param seq_list_file: line numbers (from 0) of the sequences that there are, in this order, one per line.
            One that is there several times is several sequences
        :param use_cache_manager: read local copies of the files
        """
        super().__init__(**kwargs)
        if not os.path.isdir(path):
            raise ConfigError(f"{self.description}: option 'path': there is no folder {path!r}.")
        self.path = path
        self.file_postfix = file_postfix
        self.source_only = source_only
        self.search_without_reference = search_without_reference
        self._use_cache_manager = use_cache_manager
        self._postfix = {self.source_file_prefix: source_postfix, self.target_file_prefix: target_postfix}
        self._keys = self._keys_by_prefix()
        self._corpora = self._open_corpora()
        for corpus in self._corpora.values():
            for name in corpus.open_files:
                self._watch_file(name)
        self._check_same_size()
        self.seq_list = self._load_seq_list(seq_list_file) if seq_list_file else None
        self._vocabs = self._load_vocabs()
        self._unknown_ids = self._find_unknown_ids(unknown_label)
        self.labels = {key: labels_by_index(vocab) for key, vocab in self._vocabs.items()}
        self._unknown_labels = self._new_unknown_labels()
        self._check_postfixes()
        self.num_outputs = {key: (len(labels), 1) for key, labels in self.labels.items()}
        self.num_inputs = self.num_outputs[self._keys[self.source_file_prefix][0]][0]

    def get_data_keys(self) -> list[str]:
        return list(self.num_outputs)

    def get_target_list(self) -> list[str]:
        return [key for key in self.num_outputs if key not in self._keys[self.source_file_prefix]]

    def get_data_dtype(self, key: str) -> str:
        return "int32"

    def is_data_sparse(self, key: str) -> bool:
        return True

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self.seq_list) if self.seq_list is not None else len(self._corpora[self.source_file_prefix])

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        return self._seq_len_func()(seq_idx)

    def _keys_by_prefix(self) -> dict[str, list[str]]:
        """:return: source or target -> data keys, one for each factor"""
        keys = {self.source_file_prefix: [self.main_source_data_key]}
        if not self.source_only:
            keys[self.target_file_prefix] = [self.main_target_data_key]
        return keys

    def _open_corpora(self) -> dict[str, TextCorpus]:
        prefixes = [self.source_file_prefix]
        if not self.source_only and not self.search_without_reference:
            prefixes.append(self.target_file_prefix)
        files = {prefix: self._find_file(prefix, [f".{self.file_postfix}"]) for prefix in prefixes}
        return {prefix: TextCorpus([file], skip_empty_lines=False) for prefix, file in files.items()}

    def _find_file(self, prefix: str, endings: Sequence[str]) -> str:
        names = [f"{prefix}{ending}{gz}" for ending in endings for gz in ("", ".gz")]
        for name in names:
            path = os.path.join(self.path, name)
            if os.path.exists(path):
                return cf(path) if self._use_cache_manager else path
        there = sorted(name for name in os.listdir(self.path) if name.startswith(prefix))
        raise ConfigError(
            f"{self.description}: there is no file {names[0]!r} in {self.path!r}.\n"
            f"  Possible: {', '.join(names)}. There is: {', '.join(there[:10]) or f'nothing with {prefix}'}."
        )

    def _check_same_size(self) -> None:
        sizes = {prefix: len(corpus) for prefix, corpus in self._corpora.items()}
        if len(set(sizes.values())) > 1:
            text = " and ".join(
                f"{prefix}.{self.file_postfix} has {counted(size, 'line')}" for prefix, size in sizes.items()
            )
            raise DataError(f"{text}, expected the same number", dataset=self.description, file=self.path)

    def _load_seq_list(self, filename: str) -> list[int]:
        num_lines = len(self._corpora[self.source_file_prefix])
        numbers = []
        for line_nr, line in enumerate(iter_lines(filename), start=1):
            if not line.strip().isdigit() or int(line) >= num_lines:
                raise DataError(
                    f"line {line_nr}: {line[:40]!r} is no line number below {num_lines}",
                    dataset=self.description,
                    file=filename,
                )
            numbers.append(int(line))
        return numbers

    def _load_vocabs(self) -> dict[str, dict[str, int]]:
        return {
            key: read_vocab_file(self._find_file(file, _VOCAB_ENDINGS))
            for prefix, keys in self._keys.items()
            for key, file in zip(keys, self._vocab_names(prefix), strict=True)
        }

    def _vocab_names(self, prefix: str) -> list[str]:
        """:return: what the names of the vocabulary files start with, one for each data key"""
        return [prefix]

    def _find_unknown_ids(self, unknown_label: str | Mapping[str, str | None] | None) -> dict[str, int | None]:
        if isinstance(unknown_label, Mapping):
            for key in unknown_label:
                check_known("data key", key, self._vocabs, where=f"{self.description}: option 'unknown_label'")
            labels = {key: unknown_label.get(key) for key in self._vocabs}
        else:
            labels = dict.fromkeys(self._vocabs, unknown_label)
        for key, label in labels.items():
            if label is not None and label not in self._vocabs[key]:
                raise ConfigError(
                    f"{self.description}: option 'unknown_label': there is no {label!r} in the vocabulary of {key!r}."
                )
        return {key: None if label is None else self._vocabs[key][label] for key, label in labels.items()}

    def _new_unknown_labels(self) -> dict[str, UnknownLabels]:
        return {
            key: UnknownLabels(
                vocabulary=f"{self.description}: the vocabulary of {key!r}",
                unknown_label=self.labels[key][index],
                num_labels=len(self.labels[key]),
                has_parts_of_words=False,
            )
            for key, index in self._unknown_ids.items()
            if index is not None
        }

    def _check_postfixes(self) -> None:
        for prefix, (key, *factors) in self._keys.items():
            for word in self._postfix[prefix].split():
                if not factors and key in self._unknown_labels and word not in self._vocabs[key]:
                    log.print_warning(
                        f"{self.description}: option '{prefix}_postfix': there is no label {word!r} in the vocabulary "
                        f"of {key!r}, so it becomes the unknown one. The first labels are "
                        f"{', '.join(map(repr, self.labels[key][:3]))}."
                    )

    def _line(self, corpus_seq_idx: int) -> int:
        return self.seq_list[corpus_seq_idx] if self.seq_list is not None else corpus_seq_idx

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return f"{_TAG_PREFIX}{self._line(corpus_seq_idx)}"

    def _corpus_indices_of_tags(self, tags: Sequence[str]) -> list[int]:
        if self.seq_list is not None:
            return super()._corpus_indices_of_tags(tags)
        num_seqs = self.get_total_num_seqs()
        for tag in tags:
            number = tag.removeprefix(_TAG_PREFIX)
            if not number.isdigit() or int(number) >= num_seqs:
                raise ConfigError(
                    f"{self.description}: there is no sequence {tag!r}. The tags are 'line-0' to 'line-{num_seqs - 1}'."
                )
        return [int(tag.removeprefix(_TAG_PREFIX)) for tag in tags]

    def _seq_len_func(self) -> GetSeqLen:
        lens = self._corpora[self.source_file_prefix].line_lens()  # in bytes
        return SeqLens(lambda: lens if self.seq_list is None else lens[self.seq_list])

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        return self._corpora[self.source_file_prefix].place(self._line(corpus_seq_idx))

    def _read_corpus_seq(self, corpus_seq_idx: int) -> dict[str, Array]:
        data: dict[str, Array] = {}
        for prefix, keys in self._keys.items():
            corpus = self._corpora.get(prefix)
            text = corpus[self._line(corpus_seq_idx)] + self._postfix[prefix] if corpus else ""
            data.update(self._data_of_text(text, keys))
        return data

    def _data_of_text(self, text: str, keys: Sequence[str]) -> dict[str, Array]:
        """:return: data by key"""
        return {keys[0]: self._indices(text.split(), keys[0])}

    def _indices(self, words: Sequence[str], key: str) -> Array:
        vocab, unknown_id = self._vocabs[key], self._unknown_ids[key]
        try:
            if unknown_id is None:
                return numpy.array([vocab[word] for word in words], dtype="int32")
            self._unknown_labels[key].add(words, known=vocab)
            return numpy.array([vocab.get(word, unknown_id) for word in words], dtype="int32")
        except KeyError as exc:
            raise UserError(
                f"data key {key!r}: the word {exc.args[0]!r} is not in the vocabulary, and no 'unknown_label' is set"
            ) from exc


class TranslationFactorsDataset(TranslationDataset):
    """
    Words with factors, as in `house|noun|sg`. Each factor is a data key of its own, the first one is the main one.

    The vocabulary of the factor `pos` of the source is `source.pos.vocab.pkl`, or `pos.vocab.pkl`.
    """

    def __init__(
        self,
        source_factors: Sequence[str] | None = None,
        target_factors: Sequence[str] | None = None,
        factor_separator: str = "|",
        **kwargs: Any,
    ):
        """
        :param source_factors: data keys of the factors of the source, after the main one
        :param target_factors: data keys of the factors of the target, after the main one
        :param factor_separator: between the factors of a word. Words of `source_postfix` and `target_postfix` without
            it stand for each factor
        """
        if not factor_separator:
            raise ConfigError("TranslationFactorsDataset: option 'factor_separator' is empty.")
        self._factors = {
            self.source_file_prefix: list(source_factors or ()),
            self.target_file_prefix: list(target_factors or ()),
        }
        self._factor_separator = factor_separator
        for prefix in self._factors:
            option = f"{prefix}_postfix"
            kwargs[option] = self._in_each_factor(prefix, kwargs.get(option, ""))
        super().__init__(**kwargs)

    def _in_each_factor(self, prefix: str, postfix: str) -> str:
        separator, num_keys = self._factor_separator, 1 + len(self._factors[prefix])
        words = postfix.split(" ")
        return " ".join(separator.join([word] * num_keys) if word and separator not in word else word for word in words)

    def _keys_by_prefix(self) -> dict[str, list[str]]:
        return {prefix: keys + self._factors[prefix] for prefix, keys in super()._keys_by_prefix().items()}

    def _vocab_names(self, prefix: str) -> list[str]:
        return [prefix, *(self._factor_vocab_name(prefix, factor) for factor in self._factors[prefix])]

    def _factor_vocab_name(self, prefix: str, factor: str) -> str:
        name = f"{prefix}.{factor}"
        has_own = any(os.path.exists(os.path.join(self.path, name + ending)) for ending in _VOCAB_ENDINGS)
        has_shared = any(os.path.exists(os.path.join(self.path, factor + ending)) for ending in _VOCAB_ENDINGS)
        return factor if has_shared and not has_own else name

    def _data_of_text(self, text: str, keys: Sequence[str]) -> dict[str, Array]:
        if len(keys) == 1:
            return super()._data_of_text(text, keys)
        words = [word.split(self._factor_separator) for word in text.split()]
        for word in words:
            if len(word) != len(keys):
                raise UserError(
                    f"the word {self._factor_separator.join(word)!r} has {counted(len(word), 'factor')}, expected "
                    f"{len(keys)}: " + ", ".join(keys)
                )
        return {key: self._indices([word[i] for word in words], key) for i, key in enumerate(keys)}


class ConfusionNetworkDataset(TranslationDataset):
    """
    The source is a confusion network: a line `__ALT__ we're|0.9__were|0.1 sorry|1.0` has at each position words with
    weights. A line without `__ALT__` is plain text, all weights are 1.

    Words are "sparse_inputs" (time, max_density), weights "sparse_weights" (time, max_density), padded with 0.
    """

    main_source_data_key: ClassVar[str] = "sparse_inputs"
    _weights_key = "sparse_weights"

    def __init__(self, max_density: int = 20, **kwargs: Any):
        """:param max_density: words at one position; further ones are left out"""
        self.density = max_density
        super().__init__(**kwargs)
        self.num_outputs[self.main_source_data_key] = (self.num_inputs, 2)
        self.num_outputs[self._weights_key] = (self.density, 2)

    def get_data_keys(self) -> list[str]:
        return sorted(self.num_outputs)

    def get_target_list(self) -> list[str]:
        return [self.main_target_data_key] if self.main_target_data_key in self.num_outputs else []

    def is_data_sparse(self, key: str) -> bool:
        return key != self._weights_key

    def get_data_dtype(self, key: str) -> str:
        return "int32" if self.is_data_sparse(key) else "float32"

    def get_data_shape(self, key: str) -> list[int | None]:
        return [self.density] if key in (self.main_source_data_key, self._weights_key) else []

    def _data_of_text(self, text: str, keys: Sequence[str]) -> dict[str, Array]:
        if keys[0] != self.main_source_data_key:
            return super()._data_of_text(text, keys)
        positions = text.split()
        is_network = positions[:1] == ["__ALT__"]
        if not is_network:
            options = [[(word, 1.0)] for word in positions]
        else:
            options = [[_word_and_weight(option) for option in position.split("__")] for position in positions[1:]]
        words = numpy.zeros((len(options), self.density), dtype="int32")
        weights = numpy.zeros((len(options), self.density), dtype="float32")
        for i, position_options in enumerate(options):
            kept = position_options[: self.density]
            words[i, : len(kept)] = self._indices([word for word, _ in kept], keys[0])
            weights[i, : len(kept)] = [weight for _, weight in kept]
        return {keys[0]: words, self._weights_key: weights}


def _word_and_weight(option: str) -> tuple[str, float]:
    word, bar, weight = option.rpartition("|")
    try:
        return (word, float(weight)) if bar else (option, 1.0)
    except ValueError as exc:
        raise UserError(f"in the confusion network, {option!r} is no word with its weight, as in 'word|0.5'") from exc
