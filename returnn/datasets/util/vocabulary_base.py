"""
`Vocabulary`: labels and their indices, and text to indices and back.

The base class splits text at white space. What splits it otherwise derives from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy
import numpy.typing

from returnn.datasets.util.unknown_labels import UnknownLabels, hint_of_characters, hint_of_other_form
from returnn.datasets.util.vocab_file import labels_by_index, read_literal_file, read_vocab_file, vocab_from_labels
from returnn.log import log
from returnn.util.errors import ConfigError, UserError, check_known, nearest_hint
from returnn.util.not_specified import NotSpecified
from returnn.util.texts.counted import there_are

Label: TypeAlias = "str | int"
MaybeLabel: TypeAlias = "str | int | type[NotSpecified] | None"

WORD_PREFIX = "▁"  # of SentencePiece, and of byte pair encoding like it: before each word
_DEFAULT_UNKNOWN_LABEL = "UNK"
_FEW_LABELS = 0.01  # of all: words of a text may have such a character by chance
_MAX_LABELS_FOR_HINT = 20_000  # the search for similar labels goes through all of them
_OLD_CLASS_NAMES = {"SamplingBytePairEncoder": "SamplingBytePairEncoding"}


class Vocabulary:
    """Labels with the indices 0 to n - 1, and how text becomes a sequence of them. This one: words at white space."""

    fixed_options: ClassVar[tuple[str, ...]] = ()  # of the base, which the class sets itself
    has_parts_of_words: ClassVar[bool] = False
    end_option: ClassVar[str] = "seq_postfix"  # which puts the label of the end after each sequence
    _classes: ClassVar[dict[str, type[Vocabulary]]] = {}
    example_of_unknown: str | None = None  # the first label that a text had and the vocabulary has not

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Vocabulary._classes[cls.__name__] = cls

    def __init__(
        self,
        vocab_file: str | None,
        *,
        seq_postfix: Sequence[int] | None = None,
        unknown_label: MaybeLabel = NotSpecified,
        bos_label: Label | None = None,
        eos_label: Label | None = None,
        pad_label: Label | None = None,
        control_symbols: Mapping[str, Label] | None = None,
        user_defined_symbols: Mapping[str, Label] | None = None,
        special_symbols_via_file: str | None = None,
        num_labels: int | None = None,
        labels: Sequence[str] | Callable[[], Sequence[str]] | None = None,
        single_whitespace_split: bool = False,
    ):
        """
        :param vocab_file: see `returnn.datasets.util.vocab_file` for the formats
        :param seq_postfix: indices that `get_seq` appends to each sequence
        :param unknown_label: stands for all labels that are not there. None: such a label is an error.
            By default "UNK" if there is such a label
        :param bos_label: begin of sentence; label or index
        :param eos_label: end of sentence
        :param pad_label: what pads sequences
        :param control_symbols: further ones which stand for no text, by name
        :param user_defined_symbols: further ones, by name
        :param special_symbols_via_file: file with a dict: defaults for the six options before
        :param num_labels: how many there have to be
        :param labels: instead of `vocab_file`
        :param single_whitespace_split: each single space splits, so "a  b" has an empty word
        :raises UserError: if the file, or the options for it, are wrong
        """
        self.vocab_file = vocab_file
        self.single_whitespace_split = single_whitespace_split
        self._vocab = self._load(vocab_file, labels)
        self._labels = labels_by_index(self._vocab)
        self.num_labels = len(self._labels)
        if num_labels is not None and num_labels != self.num_labels:
            raise ConfigError(f"{self._name}: option 'num_labels' is {num_labels}, but there are {self.num_labels}.")
        self._set_special_symbols(
            special_symbols_via_file,
            unknown_label=unknown_label,
            bos_label=bos_label,
            eos_label=eos_label,
            pad_label=pad_label,
            control_symbols=control_symbols,
            user_defined_symbols=user_defined_symbols,
        )
        self.seq_postfix = [self._special_id("seq_postfix", index) for index in seq_postfix or ()]
        self._unknown_labels = self._new_unknown_labels()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.vocab_file!r}, num_labels={self.num_labels})"

    @classmethod
    def create_vocab(cls, **opts: Any) -> Vocabulary:
        """
        :param opts: of the class, and `class`: name of the class, by default `Vocabulary`, or `BytePairEncoding`
            if there is a `bpe_file`
        :raises ConfigError: if there is no such class or option
        """
        name = opts.pop("class", "BytePairEncoding" if "bpe_file" in opts else "Vocabulary")
        if isinstance(name, str):
            name = _OLD_CLASS_NAMES.get(name, name)
            check_known("class", name, cls._classes, where="vocabulary")
            vocab_class = cls._classes[name]
        else:
            vocab_class = name
        if opts.get("labels") is not None:
            opts.setdefault("vocab_file", None)
        vocab_class._check_options(opts)
        return vocab_class(**opts)

    @classmethod
    def create_vocab_from_labels(cls, labels: Sequence[str], **kwargs: Any) -> Vocabulary:
        """:return: for single characters a `CharacterTargets`, otherwise a `Vocabulary`"""
        if all(len(label) == 1 for label in labels):
            kwargs.setdefault("unknown_label", None)
            kwargs.setdefault("class", "CharacterTargets")
        return cls.create_vocab(vocab_file=None, labels=labels, **kwargs)

    @classmethod
    def create_vocab_dict_from_labels(cls, labels: Sequence[str]) -> dict[str, int]:
        """
        :return: label -> index
        :raises UserError: if a label occurs twice
        """
        return vocab_from_labels(labels, where="vocabulary")

    @property
    def labels(self) -> list[str]:
        """By index. Of several labels with the same index, it is the last one by name."""
        return self._labels

    @property
    def end_label(self) -> str | None:
        """What ends each sequence and is no part of its text: `seq_postfix` if it is one label, or `eos_label`."""
        ids = self.seq_postfix or ([] if self.eos_label_id is None else [self.eos_label_id])
        return str(self.id_to_label(ids[0])) if len(ids) == 1 else None

    @property
    def has_word_prefixes(self) -> bool:
        """Whether the text of labels has "▁" before each word, and labels without it go on with a word."""
        with_prefix = sum(str(label).startswith(WORD_PREFIX) for label in self.labels)
        return with_prefix > (0 if self.has_parts_of_words else _FEW_LABELS * self.num_labels)

    def is_id_valid(self, idx: int) -> bool:
        """:return: whether there is a label with this index"""
        return 0 <= idx < self.num_labels

    def id_to_label(self, idx: int, default: Any = KeyError) -> Any:
        """
        :param default: returned if there is no such index
        :raises KeyError: if there is no such index, and no default
        """
        if self.is_id_valid(idx):
            return self.labels[idx]
        if default is KeyError:
            raise KeyError(f"{self._name}: index {idx} is out of range, {there_are(self.num_labels, 'label')}")
        return default

    def label_to_id(self, label: str, default: Any = KeyError) -> Any:
        """
        :param default: returned if there is no such label
        :raises KeyError: if there is no such label, and no default
        """
        index = self._vocab.get(label)
        if index is not None:
            return index
        if default is KeyError:
            raise KeyError(f"{self._name}: there is no label {label!r}")
        return default

    def to_id(self, label: Label | None, default: Any = KeyError, allow_none: bool = False) -> Any:
        """
        :param label: label or its index
        :param default: returned if there is no such label
        :param allow_none: None for None, instead of an error
        :raises KeyError: if there is no such label or index, and no default
        """
        if label is None and allow_none:
            return None
        if isinstance(label, str):
            return self.label_to_id(label, default)
        if isinstance(label, int | numpy.integer) and self.is_id_valid(int(label)):
            return int(label)
        if default is KeyError:
            raise KeyError(f"{self._name}: there is no label or index {label!r}, {there_are(self.num_labels, 'label')}")
        return default

    def get_seq(self, sentence: str) -> list[int]:
        """
        :param sentence: text
        :return: indices, with the postfix
        :raises UserError: if a label is not there, and there is no unknown label
        """
        words = sentence.split(" ") if self.single_whitespace_split and sentence else sentence.split()
        return self.get_seq_indices(words) + self.seq_postfix

    def get_seq_indices(self, seq: Sequence[str]) -> list[int]:
        """
        :param seq: labels
        :return: indices
        :raises UserError: if a label is not there, and there is no unknown label
        """
        if self.unknown_label_id is not None:
            unknown = self.unknown_label_id
            self._unknown_labels.add(seq, known=self._vocab)
            ids = [self._vocab.get(label, unknown) for label in seq]
            if self.example_of_unknown is None and unknown in ids:
                self.example_of_unknown = seq[ids.index(unknown)]
            return ids
        try:
            return [self._vocab[label] for label in seq]
        except KeyError as exc:
            raise UserError(
                f"{self._name}: there is no label {exc.args[0]!r}, and no 'unknown_label' is set."
                f"{self._nearest_labels(exc.args[0])}"
            ) from exc

    def get_seq_labels(self, seq: Sequence[int] | numpy.typing.NDArray[Any]) -> str:
        """
        :param seq: indices
        :return: text. The reverse of `get_seq`, but for unknown labels and white space
        """
        return " ".join(str(self.id_to_label(int(index))) for index in seq)

    def serialize_labels(self, data: numpy.typing.NDArray[Any]) -> str:
        """
        :param data: index, or [T] indices
        :return: text
        """
        if data.ndim == 0:
            return str(self.id_to_label(int(data)))
        return self.get_seq_labels(data)

    def set_random_seed(self, seed: int) -> None:
        """For vocabularies that sample: from here on, the same seed gives the same indices."""

    def tf_get_init_variable_func(self, var: Any) -> Callable[[Any], None]:
        """
        :param var: TensorFlow variable of strings, [num_labels]
        :return: function that, called with a session, sets it to the labels
        """

        def init_labels(session: Any) -> None:
            session.run(var.initializer, feed_dict={var.initial_value: self.labels})

        return init_labels

    @classmethod
    def _check_options(cls, opts: Mapping[str, Any]) -> None:
        where = f"vocabulary (class {cls.__name__!r})"
        params = _all_options(cls)
        for name in opts:
            check_known("option", name, params, where=where)
        missing = [name for name, is_required in params.items() if is_required and name not in opts]
        if missing:
            raise ConfigError(f"{where}: option {missing[0]!r} is missing. Given: {', '.join(opts) or 'none'}.")

    @property
    def _name(self) -> str:
        return f"vocabulary {self.vocab_file!r}" if self.vocab_file else f"vocabulary (class {type(self).__name__!r})"

    def _load(
        self, vocab_file: str | None, labels: Sequence[str] | Callable[[], Sequence[str]] | None
    ) -> dict[str, int]:
        if (vocab_file is None) == (labels is None):
            raise ConfigError(f"{self._name}: give one of the options 'vocab_file' and 'labels'.")
        if vocab_file is not None:
            return read_vocab_file(vocab_file)
        given = labels() if callable(labels) else labels
        if not given:
            raise ConfigError(f"{self._name}: option 'labels' is empty.")
        return vocab_from_labels(given, where=self._name)

    def _set_special_symbols(self, special_symbols_file: str | None, **symbols: Any) -> None:
        from_file = self._special_symbols_from_file(special_symbols_file, set(symbols))
        for name, value in from_file.items():
            if symbols[name] in (None, NotSpecified):
                symbols[name] = value
        unknown_label = symbols["unknown_label"]
        if unknown_label is NotSpecified:
            unknown_label = _DEFAULT_UNKNOWN_LABEL if _DEFAULT_UNKNOWN_LABEL in self._vocab else None
        self.unknown_label_id = self._special_id("unknown_label", unknown_label)
        self.unknown_label = None if self.unknown_label_id is None else self.id_to_label(self.unknown_label_id)
        self._warn_of_end_that_is_unknown(symbols["eos_label"])
        self.bos_label_id = self._special_id("bos_label", symbols["bos_label"])
        self.eos_label_id = self._special_id("eos_label", symbols["eos_label"])
        self.pad_label_id = self._special_id("pad_label", symbols["pad_label"])
        self.control_symbol_ids = self._special_ids("control_symbols", symbols["control_symbols"])
        self.user_defined_symbol_ids = self._special_ids("user_defined_symbols", symbols["user_defined_symbols"])

    def _warn_of_end_that_is_unknown(self, end: Label | None) -> None:
        if self.unknown_label_id is not None and self._special_id("eos_label", end) == self.unknown_label_id:
            log.print_warning(
                f"{self._name}: option 'eos_label': {end!r} is {self.unknown_label!r}, the same label as "
                "'unknown_label': words that are not known would end a text. "
                f"The first labels are {', '.join(map(repr, self._labels[:3]))}."
            )

    def _special_symbols_from_file(self, filename: str | None, known: set[str]) -> dict[str, Any]:
        if filename is None:
            return {}
        where = f"special symbols {filename!r}"
        content = read_literal_file(filename)
        if not isinstance(content, dict):
            raise UserError(f"{where}: expected a dict, got {type(content).__name__}.")
        for name in content:
            check_known("option", name, known, where=where)
        return content

    def _special_ids(self, option: str, labels: Mapping[str, Label] | None) -> dict[str, int]:
        return {name: self._special_id(f"{option}[{name!r}]", label) for name, label in (labels or {}).items()}

    def _special_id(self, option: str, label: Label | None) -> Any:
        index = self.to_id(label, default=-1, allow_none=True)
        if index != -1:
            return index
        if isinstance(label, str):
            or_none = " It can be None, too." if option == "unknown_label" else ""
            raise ConfigError(
                f"{self._name}: option {option!r}: there is no label {label!r}.{or_none}{self._nearest_labels(label)}"
            )
        raise ConfigError(f"{self._name}: option {option!r}: {label!r} is no index below {self.num_labels}.")

    def _new_unknown_labels(self) -> UnknownLabels:
        return UnknownLabels(
            vocabulary=self._name,
            unknown_label=str(self.unknown_label),
            num_labels=self.num_labels,
            has_parts_of_words=self.has_parts_of_words,
        )

    def _special_labels(self) -> frozenset[str]:
        """:return: those that are no part of a word, such as "<unk>". As words of a text, they stand for themselves"""
        ids = {self.unknown_label_id, self.bos_label_id, self.eos_label_id, self.pad_label_id}
        ids.update(self.control_symbol_ids.values())
        return frozenset(label for label, index in self._vocab.items() if index in ids)

    def _nearest_labels(self, label: str) -> str:
        if form := hint_of_other_form(label, self._vocab):
            return f"\n  {form}"
        if self.num_labels > _MAX_LABELS_FOR_HINT:
            return ""
        if of_characters := hint_of_characters(label, self._vocab):
            return f"\n  {of_characters}"
        hint = nearest_hint(label, self._vocab)
        return f"\n  {hint}" if self.num_labels <= 20 or hint.startswith("Did you mean") else ""


Vocabulary._classes["Vocabulary"] = Vocabulary


def _all_options(cls: type[Vocabulary]) -> dict[str, bool]:
    """
    Those of the constructor, and of the one above for as long as constructors pass further options on, without those
    that the class sets itself.

    :return: name -> whether it is required. What only a base class requires, the derived one may give itself
    """
    options: dict[str, bool] = {}
    is_derived = True
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        params = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
        passes_on = any(param.kind is inspect.Parameter.VAR_KEYWORD for param in params)
        for param in params:
            if param.kind is not inspect.Parameter.VAR_KEYWORD and param.name not in cls.fixed_options:
                options.setdefault(param.name, is_derived and param.default is inspect.Parameter.empty)
        is_derived = False
        if not passes_on:
            break
    return options
