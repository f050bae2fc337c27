"""Vocabularies that split words: byte pair encoding, SentencePiece, and tokenizers of Hugging Face."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import numpy.typing

from returnn.datasets.util.vocabulary_base import Label, Vocabulary
from returnn.log import log
from returnn.util.bpe import BpeOpts, BpePostMergeSymbol, SamplingBytePairEncoder, StandardBytePairEncoder
from returnn.util.errors import ConfigError, UserError
from returnn.util.not_specified import NotSpecified
from returnn.util.python.optional_import import import_optional
from returnn.util.texts.counted import there_are

_NO_PIECE = "\ue000"  # for private use, so that no model has it
_LEAST_COMMON_PART = 1 / 3  # of the labels that merges make


class BytePairEncoding(Vocabulary):
    """Byte pair encoding with learned merges, as made by `subword-nmt`. Labels within a word end with `@@`."""

    has_parts_of_words = True

    def __init__(self, vocab_file: str, bpe_file: str, seq_postfix: Sequence[int] | None = None, **kwargs: Any):
        """
        :param vocab_file: see `Vocabulary`
        :param bpe_file: the merges ("codes")
        :param seq_postfix: indices that `get_seq` appends to each sequence
        """
        super().__init__(vocab_file, seq_postfix=seq_postfix, **kwargs)
        self.bpe = StandardBytePairEncoder(bpe_file, labels=self._vocab, special_labels=self._special_labels())
        merged = self.bpe.merged_labels()
        num_known = sum(label in self._vocab for label in merged)
        if num_known < _LEAST_COMMON_PART * len(merged):  # of other texts: words fall into single characters then
            log.print_warning(
                f"{self._name} has {num_known} of the {len(merged)} labels that the merges of {bpe_file!r} make. "
                "Do the two files belong together?"
            )

    def get_seq(self, sentence: str) -> list[int]:
        return self.get_seq_indices(self.bpe.segment_sentence(sentence)) + self.seq_postfix


class SamplingBytePairEncoding(Vocabulary):
    """Draws a split of each word into labels, anew each time. Needs no merges."""

    def __init__(
        self,
        vocab_file: str,
        breadth_prob: float,
        seq_postfix: Sequence[int] | None = None,
        label_postfix_merge_symbol: str | type[NotSpecified] | None = NotSpecified,
        word_prefix_symbol: str | type[NotSpecified] | None = NotSpecified,
        **kwargs: Any,
    ):
        """
        :param vocab_file: see `Vocabulary`
        :param breadth_prob: probability to end a label where it could go on. 0: long labels, 1: short ones
        :param seq_postfix: indices that `get_seq` appends to each sequence
        :param label_postfix_merge_symbol: ends labels after which the word goes on, by default `@@`
        :param word_prefix_symbol: starts the first label of each word, instead
        """
        super().__init__(vocab_file, seq_postfix=seq_postfix, **kwargs)
        prefix = NotSpecified.resolve(word_prefix_symbol, None)
        postfix = NotSpecified.resolve(label_postfix_merge_symbol, None if prefix else BpePostMergeSymbol)
        self.rnd = numpy.random.RandomState(0)
        special_labels = self._special_labels()
        self.bpe = SamplingBytePairEncoder(
            labels=[label for label in self._vocab if label not in special_labels],
            breadth_prob=breadth_prob,
            rnd=self.rnd,
            unknown_label=self.unknown_label,
            special_labels=special_labels,
            opts=BpeOpts(label_postfix_merge_symbol=postfix, word_prefix_symbol=prefix),
        )

    def set_random_seed(self, seed: int) -> None:
        self.rnd.seed(seed)

    def get_seq(self, sentence: str) -> list[int]:
        return self.get_seq_indices(self.bpe.segment_sentence(sentence)) + self.seq_postfix


class SentencePieces(Vocabulary):
    """A model of the package `sentencepiece`."""

    has_parts_of_words = True
    end_option = "add_eos"

    def __init__(
        self,
        *,
        model_file: str | None = None,
        model_proto: bytes | None = None,
        out_type: Any = int,
        add_bos: bool = False,
        add_eos: bool = False,
        reverse: bool = False,
        emit_unk_piece: bool = False,
        enable_sampling: bool = False,
        nbest_size: int = -1,
        alpha: float = 0.1,
        num_threads: int = -1,
        control_symbols: Mapping[str, Label] | None = None,
        user_defined_symbols: Mapping[str, Label] | None = None,
    ):
        """
        :param model_file: the model, as made by `rnn.py tool make_vocab` or `spm_train`
        :param model_proto: instead, the bytes of such a file
        :param out_type: changes nothing, as labels are always indices here
        :param add_bos: `get_seq` puts the begin of sentence before each sequence
        :param add_eos: `get_seq` appends the end of sentence to each sequence
        :param reverse: `get_seq` gives the labels from the last one to the first one
        :param emit_unk_piece: the package's own texts have the unknown label for what it stands for
        :param enable_sampling: draw a split anew each time
        :param nbest_size: draw among so many of the best splits. -1: among all of them
        :param alpha: how much better splits are preferred when drawing
        :param num_threads: of the package. -1: one per core
        :param control_symbols: labels which stand for no text, by name
        :param user_defined_symbols: further ones, by name
        """
        self._spm = import_optional("sentencepiece", needed_for="the vocabulary 'SentencePieces'")
        self.vocab_file = model_file
        opts = {
            "add_bos": add_bos,
            "add_eos": add_eos,
            "reverse": reverse,
            "emit_unk_piece": emit_unk_piece,
            "enable_sampling": enable_sampling,
            "nbest_size": nbest_size,
            "alpha": alpha,
            "num_threads": num_threads,
            "out_type": out_type,
        }
        self.sp = self._open({"model_file": model_file, "model_proto": model_proto, **opts})
        self.num_labels = int(self.sp.vocab_size())
        self.seq_postfix = []
        self.unknown_label_id = self._optional_id(self.sp.unk_id())
        self.unknown_label = None if self.unknown_label_id is None else self.id_to_label(self.unknown_label_id)
        self.bos_label_id = self._optional_id(self.sp.bos_id())
        self.eos_label_id = self._optional_id(self.sp.eos_id())
        self.pad_label_id = self._optional_id(self.sp.pad_id())
        self.control_symbol_ids = self._special_ids("control_symbols", control_symbols)
        self.user_defined_symbol_ids = self._special_ids("user_defined_symbols", user_defined_symbols)
        self._unknown_labels = self._new_unknown_labels()

    @property
    def labels(self) -> list[str]:
        return [self.sp.id_to_piece(i) for i in range(self.num_labels)]

    def is_id_valid(self, idx: int) -> bool:
        return 0 <= idx < self.num_labels and not self.sp.is_unused(idx)

    def id_to_label(self, idx: int, default: Any = KeyError) -> Any:
        if self.is_id_valid(idx):
            return self.sp.id_to_piece(idx)
        if default is KeyError:
            raise KeyError(f"{self._name}: index {idx} is out of range, {there_are(self.num_labels, 'label')}")
        return default

    def label_to_id(self, label: str, default: Any = KeyError) -> Any:
        index = self.sp.piece_to_id(label)  # of the unknown label, if there is none
        if self.sp.id_to_piece(index) == label:
            return index
        if default is KeyError:
            raise KeyError(f"{self._name}: there is no label {label!r}")
        return default

    def set_random_seed(self, seed: int) -> None:
        self._spm.set_random_generator_seed(seed % 2**32)

    def get_seq(self, sentence: str) -> list[int]:
        if self.unknown_label is not None and self.unknown_label in sentence:  # as a word, it stands for itself
            words = (_NO_PIECE if word == self.unknown_label else word for word in sentence.split())
            return self._pieces_of(" ".join(words))
        if self._unknown_labels.is_counting:  # the texts of unknown labels are what is written there
            pieces = self.sp.encode(sentence, out_type=str, enable_sampling=False)
            known = {piece for piece in pieces if self.sp.piece_to_id(piece) != self.unknown_label_id}
            self._unknown_labels.add(pieces, known=known)
        return self._pieces_of(sentence)

    def _pieces_of(self, text: str) -> list[int]:
        return [int(index) for index in self.sp.encode(text, out_type=int)]

    def get_seq_indices(self, seq: Sequence[str]) -> list[int]:
        return [int(self.sp.piece_to_id(label)) for label in seq]

    def _open(self, opts: Mapping[str, Any]) -> Any:
        if not opts.get("model_file") and not opts.get("model_proto"):
            raise ConfigError(f"{self._name}: give one of the options 'model_file' and 'model_proto'.")
        if opts.get("model_file") and not os.path.exists(opts["model_file"]):
            raise UserError(f"{self._name}: there is no such file.")
        try:
            return self._spm.SentencePieceProcessor(**opts)
        except (RuntimeError, OSError, ValueError) as exc:
            raise UserError(f"{self._name}: it is no SentencePiece model.") from exc

    def _nearest_labels(self, label: str) -> str:
        return ""

    @staticmethod
    def _optional_id(index: int) -> int | None:
        return index if index >= 0 else None


class HuggingFaceTokenizer(Vocabulary):
    """A tokenizer of the package `transformers`, from a folder or given as an object."""

    def __init__(
        self,
        *,
        huggingface_repo_dir: str | None = None,
        tokenizer: Any = None,
        bpe_dropout: float = 0.0,
        map_bos_to_eos: bool = False,
        text_preprocessing: Callable[[str], str] | None = None,
    ):
        """
        :param huggingface_repo_dir: folder of the tokenizer. Nothing is downloaded
        :param tokenizer: instead, the tokenizer, or a function that makes it
        :param bpe_dropout: probability to leave out a merge, if the tokenizer has merges
        :param map_bos_to_eos: the end of sentence stands for its begin as well
        :param text_preprocessing: applied to the text first
        """
        self.vocab_file = huggingface_repo_dir
        self.tokenizer = self._open(huggingface_repo_dir, tokenizer)
        self.text_preprocessing = text_preprocessing
        self.num_labels = len(self.tokenizer)
        self.seq_postfix = []
        self.unknown_label_id = self.tokenizer.unk_token_id
        self.unknown_label = self.tokenizer.unk_token
        self.eos_label_id = self.tokenizer.eos_token_id
        self.bos_label_id = self.eos_label_id if map_bos_to_eos else self.tokenizer.bos_token_id
        self.pad_label_id = self.tokenizer.pad_token_id
        self.control_symbol_ids = {}
        self.user_defined_symbol_ids = {}
        if bpe_dropout:
            self._set_bpe_dropout(bpe_dropout)

    @property
    def labels(self) -> list[str]:
        return [str(label) for label in self.tokenizer.convert_ids_to_tokens(list(range(self.num_labels)))]

    def id_to_label(self, idx: int, default: Any = KeyError) -> Any:
        if self.is_id_valid(idx):
            return self.tokenizer.convert_ids_to_tokens(idx)
        if default is KeyError:
            raise KeyError(f"{self._name}: index {idx} is out of range, {there_are(self.num_labels, 'label')}")
        return default

    def label_to_id(self, label: str, default: Any = KeyError) -> Any:
        index = self.tokenizer.get_vocab().get(label)
        if index is not None:
            return index
        if default is KeyError:
            raise KeyError(f"{self._name}: there is no label {label!r}")
        return default

    def is_id_valid(self, idx: int) -> bool:
        return 0 <= idx < self.num_labels

    def get_seq(self, sentence: str) -> list[int]:
        text = self.text_preprocessing(sentence) if self.text_preprocessing else sentence
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def get_seq_indices(self, seq: Sequence[str]) -> list[int]:
        return list(self.tokenizer.convert_tokens_to_ids(list(seq)))

    def get_seq_labels(self, seq: Sequence[int] | numpy.typing.NDArray[Any]) -> str:
        return str(self.tokenizer.decode([int(index) for index in seq]))

    def _open(self, repo_dir: str | None, tokenizer: Any) -> Any:
        if (repo_dir is None) == (tokenizer is None):
            raise ConfigError(f"{self._name}: give one of the options 'huggingface_repo_dir' and 'tokenizer'.")
        if tokenizer is not None:
            return tokenizer if hasattr(tokenizer, "convert_ids_to_tokens") else tokenizer()
        transformers = import_optional("transformers", needed_for="the vocabulary 'HuggingFaceTokenizer'")
        try:
            return transformers.AutoTokenizer.from_pretrained(repo_dir, local_files_only=True)
        except (OSError, ValueError) as exc:
            raise UserError(f"{self._name}: cannot load the tokenizer: {str(exc).splitlines()[0]}") from exc

    def _set_bpe_dropout(self, bpe_dropout: float) -> None:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        model = getattr(backend, "model", None)
        if model is None or not hasattr(model, "dropout"):
            raise ConfigError(f"{self._name}: option 'bpe_dropout': this tokenizer has no merges to leave out.")
        model.dropout = bpe_dropout
