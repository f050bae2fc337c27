"""`LmDataset`: sentences as sequences of labels, to train language models."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from returnn.config.current import current_config
from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import GetSeqLen, IntArray, SeqLens, SeqOrder
from returnn.datasets.util.lexicon import PhoneSeqGenerator
from returnn.datasets.util.orth_symbols import SymbolTable
from returnn.datasets.util.seq_lists import load_seq_list
from returnn.datasets.util.text_corpus import TextCorpus, as_list
from returnn.datasets.util.text_post_process import TextFunc, get_post_processor_function
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.util.errors import ConfigError, check_known
from returnn.util.files.cache_manager import cf
from returnn.util.not_specified import NotSpecified
from returnn.util.system.warn_once import warn_once
from returnn.util.texts.counted import counted, there_are

_logger = logging.getLogger("returnn")
_DEFAULT_TAG_PREFIX = "line-"


class LmDataset(CorpusDataset):
    """
    Each line of the text is a sequence, of the key "data".

    How it becomes labels, is said by one of these options: `orth_vocab`, a vocabulary, the usual way today;
    `orth_symbols_file` or `orth_symbols_map_file`, a table of characters or words; `phone_info`, phones by a lexicon.
    """

    def __init__(
        self,
        corpus_file: str | Sequence[str] | Callable[[], str | Sequence[str]],
        *,
        use_cache_manager: bool = False,
        skip_empty_lines: bool = True,
        seq_list_file: str | None = None,
        orth_vocab: Mapping[str, Any] | Vocabulary | None = None,
        orth_symbols_file: str | Callable[[], str] | None = None,
        orth_symbols_map_file: str | Callable[[], str] | None = None,
        orth_replace_map_file: str | Callable[[], str] | None = None,
        orth_post_process: str | TextFunc | Sequence[str | TextFunc] | None = None,
        word_based: bool = False,
        word_end_symbol: str | None = None,
        seq_end_symbol: str | type[NotSpecified] | None = NotSpecified,
        unknown_symbol: str | None = "[UNKNOWN]",
        parse_orth_opts: Mapping[str, Any] | None = None,
        phone_info: Mapping[str, Any] | None = None,
        add_random_phone_seqs: int = 0,
        auto_replace_unknown_symbol: bool = False,
        log_auto_replace_unknown_symbols: int = 10,
        log_skipped_seqs: int = 10,
        error_on_invalid_seq: bool = True,
        add_delayed_seq_data: bool = False,
        delayed_seq_data_start_symbol: str = "[START]",
        dtype: str | None = None,
        tag_prefix: str | None = None,
        **kwargs: Any,
    ):
        """
        :param corpus_file: text with a sentence per line, or Bliss XML, both can be gzipped; or several of them
        :param use_cache_manager: read local copies of the files
        :param skip_empty_lines: also lines of white space alone. Tags, `line-N`, number the lines that are kept
        :param seq_list_file: tags of all lines. By default they are "line-0", "line-1", ...
        :param orth_vocab: options of a `Vocabulary`
        :param orth_symbols_file: a symbol per line
        :param orth_symbols_map_file: a dict from symbol to index, or lines of a symbol and its index
        :param orth_replace_map_file: JSON dict from symbol to symbols
        :param orth_post_process: changes the text first, see `get_post_processor_function`
        :param word_based: symbols are words, otherwise characters
        :param word_end_symbol: for characters: stands after each word, instead of spaces between them
        :param seq_end_symbol: put after each sentence; None: nothing. Default: "[END]", but nothing with `orth_vocab`,
            whose own option `seq_postfix` is the other way to say it
        :param unknown_symbol: for symbols that are not there, with `auto_replace_unknown_symbol`
        :param parse_orth_opts: of `returnn.util.texts.orthography.parse_orthography`
        :param phone_info: options of `PhoneSeqGenerator`
        :param add_random_phone_seqs: how many sequences of random words, of the same length, to add as "random0", ...
        :param auto_replace_unknown_symbol: otherwise, a symbol that is not there is an error
        :param log_auto_replace_unknown_symbols: how many of them to log
        :param log_skipped_seqs: how many of them to log
        :param error_on_invalid_seq: otherwise, such a sequence is left out
        :param add_delayed_seq_data: adds the key "delayed": the start symbol, and the data without its last symbol
        :param delayed_seq_data_start_symbol: the first symbol of it
        :param dtype: by default the smallest of int8, uint8 and int32 that can hold all labels
        :param tag_prefix: instead of "line-"
        """
        super().__init__(**kwargs)
        filenames = [cf(name) if use_cache_manager else name for name in as_list(corpus_file)]
        config = current_config()
        max_lines = config.options.lm_dataset_debug_limit_line_count if config is not None else None
        self._corpus = TextCorpus(filenames, skip_empty_lines=skip_empty_lines, max_lines=max_lines)
        for name in self._corpus.open_files:
            self._watch_file(name)
        self.tag_prefix = _DEFAULT_TAG_PREFIX if tag_prefix is None else tag_prefix
        self._tags = self._load_tags(seq_list_file) if seq_list_file else None
        self.word_based = word_based
        self.word_end_symbol = word_end_symbol
        self.seq_end_symbol = NotSpecified.resolve(seq_end_symbol, None if orth_vocab is not None else "[END]")
        self.unknown_symbol = unknown_symbol
        self.orth_post_process = get_post_processor_function(orth_post_process)
        self.auto_replace_unknown_symbol = auto_replace_unknown_symbol
        self.log_auto_replace_unknown_symbols = log_auto_replace_unknown_symbols
        self.log_skipped_seqs = log_skipped_seqs
        self.error_on_invalid_seq = error_on_invalid_seq
        self.add_random_phone_seqs = add_random_phone_seqs
        self.add_delayed_seq_data = add_delayed_seq_data
        self.delayed_seq_data_start_symbol = delayed_seq_data_start_symbol
        self.num_skipped = 0
        self.num_unknown = 0
        self.next_orth_idx = 0  # in the order of the epoch, where it goes on if sequences may be skipped
        self.next_seq_idx = 0
        self._not_skipped: list[int] = []
        self._random_access = error_on_invalid_seq

        self._check_one_kind_of_labels(orth_vocab, orth_symbols_file, orth_symbols_map_file, phone_info)
        self.orth_vocab = _make_vocab(orth_vocab)
        self.seq_gen = self._phone_generator(phone_info) if phone_info is not None else None
        self._symbols: SymbolTable | None = None
        if orth_symbols_file or orth_symbols_map_file:
            self._symbols = SymbolTable(
                symbols_file=_evaluated(orth_symbols_file),
                symbols_map_file=_evaluated(orth_symbols_map_file),
                replace_map_file=_evaluated(orth_replace_map_file),
                word_based=word_based,
                word_end_symbol=word_end_symbol,
                seq_end_symbol=self.seq_end_symbol,
                unknown_symbol=unknown_symbol if auto_replace_unknown_symbol else None,
                parse_orth_opts=parse_orth_opts or {},
                on_unknown=self._log_unknown,
            )
        else:
            self._warn_of_symbol_options(
                orth_replace_map_file=orth_replace_map_file,
                word_based=word_based,
                word_end_symbol=word_end_symbol,
                parse_orth_opts=parse_orth_opts,
                auto_replace_unknown_symbol=auto_replace_unknown_symbol,
            )
        self.orth_symbols = self._symbols.symbols if self._symbols else None
        self.orth_symbols_map = self._symbols.index if self._symbols else None
        self.orth_replace_map = self._symbols.replace_map if self._symbols else {}
        self.parse_orth_opts = self._symbols.parse_orth_opts if self._symbols else dict(parse_orth_opts or {})
        self._set_labels(dtype)
        self._set_ends_of_seq()

    def _set_ends_of_seq(self) -> None:
        """What is put behind the labels of a sentence, and before those of the key "delayed"."""
        end = self.seq_end_symbol
        self._end_of_seq = [self._label_index("seq_end_symbol", end)] if self.orth_vocab and end else []
        self._start_index = None
        if self.add_delayed_seq_data:
            self._start_index = self._label_index("delayed_seq_data_start_symbol", self.delayed_seq_data_start_symbol)

    @property
    def seq_order(self) -> SeqOrder:
        """Lines of this epoch."""
        return self.get_current_seq_order()

    def get_data_keys(self) -> list[str]:
        return sorted(self.num_outputs, key=lambda key: (key != DEFAULT_KEY, key))

    def get_data_dtype(self, key: str) -> str:
        return self.dtype

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._corpus)

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        if not self.error_on_invalid_seq:
            self._num_seqs = None  # known at the end
            self._not_skipped = []
            self.next_orth_idx = self.next_seq_idx = 0
            self.num_skipped = self.num_unknown = 0
        return True

    def get_corpus_seq_idx(self, seq_idx: int) -> int:
        if self.error_on_invalid_seq:
            return super().get_corpus_seq_idx(seq_idx)
        self._get_existing_seq(seq_idx)
        return self._not_skipped[seq_idx]

    def get_tag(self, seq_idx: int) -> str:
        return self._corpus_tag(self.get_corpus_seq_idx(seq_idx))

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        if self.error_on_invalid_seq:
            return super()._collect_single_seq(seq_idx)
        order = self.get_current_seq_order()
        while self.next_orth_idx < len(order):
            corpus_seq_idx = int(order[self.next_orth_idx])
            self.next_orth_idx += 1
            try:
                seq = self._make_seq(seq_idx, corpus_seq_idx)
                self.check_seq(seq)
            except DataError as exc:
                self._log_skipped(exc)
                continue
            self._not_skipped.append(corpus_seq_idx)
            self.next_seq_idx = seq_idx + 1
            return seq
        return None

    def _read_corpus_seq(self, corpus_seq_idx: int) -> dict[str, Array]:
        text = self.orth_post_process(self._corpus[corpus_seq_idx])
        labels = self._labels_of_text(text)
        data = {DEFAULT_KEY: labels}
        for i in range(self.add_random_phone_seqs):
            assert self.seq_gen
            garbage = self.seq_gen.generate_garbage_seq(len(labels))
            data[f"random{i}"] = self.seq_gen.seq_to_class_idxs(garbage, dtype=self.dtype)
        if self._start_index is not None:
            data["delayed"] = numpy.concatenate([numpy.array([self._start_index], self.dtype), labels[:-1]])
        return data

    def _labels_of_text(self, text: str) -> Array:
        if self.orth_vocab:
            return numpy.array([*self.orth_vocab.get_seq(text), *self._end_of_seq], dtype=self.dtype)
        if self._symbols:
            return numpy.array(self._symbols.indices(text), dtype=self.dtype)
        assert self.seq_gen
        return self.seq_gen.seq_to_class_idxs(self.seq_gen.generate_seq(text), dtype=self.dtype)

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        return self._corpus.place(corpus_seq_idx)

    def _describe_source(self, seq: DatasetSeq) -> str | None:
        return None if not self.error_on_invalid_seq else super()._describe_source(seq)

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return self._tags[corpus_seq_idx] if self._tags else f"{self.tag_prefix}{corpus_seq_idx}"

    def _corpus_indices_of_tags(self, tags: Sequence[str]) -> list[int]:
        if self._tags:
            return super()._corpus_indices_of_tags(tags)
        return [self._line_of_tag(tag) for tag in tags]

    def line_numbers(self) -> IntArray | None:
        """:return: of each sequence, in its file, from 1; None if tags come from a `seq_list_file`"""
        return None if self._tags else self._corpus.line_numbers()

    def _line_of_tag(self, tag: str) -> int:
        number = tag.removeprefix(self.tag_prefix)
        if not tag.startswith(self.tag_prefix) or not number.isdigit() or int(number) >= len(self._corpus):
            raise ConfigError(
                f"{self.description}: there is no sequence {tag!r}.\n"
                f"  The tags are {self._corpus_tag(0)!r} to {self._corpus_tag(len(self._corpus) - 1)!r}."
            )
        return int(number)

    def _seq_len_func(self) -> GetSeqLen:
        return SeqLens(self._corpus.line_lens)

    def _seed_random(self, seed: int) -> None:
        if self.orth_vocab:
            self.orth_vocab.set_random_seed(seed)
        if self.seq_gen:
            self.seq_gen.random_seed(seed)

    def _load_tags(self, seq_list_file: str) -> list[str]:
        tags = load_seq_list(seq_list_file, where=self.description)
        if len(tags) != len(self._corpus):
            raise DataError(
                f"option 'seq_list_file' has {counted(len(tags), 'tag')}, but {there_are(len(self._corpus), 'line')} "
                "of text",
                dataset=self.description,
                file=seq_list_file,
                hint="Empty lines do not count, unless 'skip_empty_lines' is False.",
            )
        return tags

    def _check_one_kind_of_labels(self, *options: object) -> None:
        names = ("orth_vocab", "orth_symbols_file", "orth_symbols_map_file", "phone_info")
        given = [name for name, option in zip(names, options, strict=True) if option is not None]
        if len(given) != 1:
            raise ConfigError(
                f"{self.description}: give one of the options {', '.join(map(repr, names))}.\n"
                f"  Given: {', '.join(map(repr, given)) or 'none'}."
            )
        if self.add_random_phone_seqs and given != ["phone_info"]:
            raise ConfigError(f"{self.description}: option 'add_random_phone_seqs' needs the option 'phone_info'.")

    def _phone_generator(self, options: Mapping[str, Any]) -> PhoneSeqGenerator:
        where = f"{self.description}: option 'phone_info'"
        known = inspect.signature(PhoneSeqGenerator).parameters
        for name in options:
            check_known("option", name, known, where=where)
        if "lexicon_file" not in options:
            raise ConfigError(f"{where}: 'lexicon_file' is missing. Given: {', '.join(map(repr, options)) or 'none'}.")
        return PhoneSeqGenerator(**options)

    def _warn_of_symbol_options(self, **options: object) -> None:
        given = [name for name, value in options.items() if value]
        if given:
            warn_once(f"{self.description}: without a table of symbols, there is no effect of: {', '.join(given)}.")

    def _set_labels(self, dtype: str | None) -> None:
        source = self.orth_vocab or self._symbols
        labels = source.labels if source else self.seq_gen.get_class_labels() if self.seq_gen else []
        num_labels = len(labels)
        keys = [DEFAULT_KEY, *(["delayed"] if self.add_delayed_seq_data else [])]
        keys += [f"random{i}" for i in range(self.add_random_phone_seqs)]
        self.labels = {DEFAULT_KEY: labels}
        self.vocabs = {} if self.orth_vocab is None else {DEFAULT_KEY: self.orth_vocab}
        self.num_inputs = num_labels
        self.num_outputs = dict.fromkeys(keys, (num_labels, 1))
        self.dtype = dtype or ("int8" if num_labels <= 2**7 else "uint8" if num_labels <= 2**8 else "int32")
        if numpy.iinfo(self.dtype).max < num_labels - 1:
            raise ConfigError(
                f"{self.description}: option 'dtype': {dtype} cannot hold {counted(num_labels, 'label')}."
            )

    def _label_index(self, option: str, label: str) -> int:
        if label not in self.labels[DEFAULT_KEY]:
            raise ConfigError(f"{self.description}: option {option!r}: there is no label {label!r}.")
        return self.labels[DEFAULT_KEY].index(label)

    def _log_unknown(self, symbol: str) -> None:
        self.num_unknown += 1
        if self.num_unknown <= self.log_auto_replace_unknown_symbols:
            last = ", no more of them are logged" if self.num_unknown == self.log_auto_replace_unknown_symbols else ""
            _logger.info("%s: unknown symbol %r becomes %r%s", self.description, symbol, self.unknown_symbol, last)

    def _log_skipped(self, exc: DataError) -> None:
        self.num_skipped += 1
        if self.num_skipped <= self.log_skipped_seqs:
            last = ", no more of them are logged" if self.num_skipped == self.log_skipped_seqs else ""
            _logger.info("%s: sequence %r is skipped: %s%s", self.description, exc.seq, exc.problem, last)


def _make_vocab(opts: Mapping[str, Any] | Vocabulary | None) -> Vocabulary | None:
    return opts if opts is None or isinstance(opts, Vocabulary) else Vocabulary.create_vocab(**opts)


def _evaluated(value: str | Callable[[], str] | None) -> str | None:
    return value() if callable(value) else value
