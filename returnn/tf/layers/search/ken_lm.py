"""Scores of a count-based language model, word by word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.values.constant import zeros_like_template
from returnn.tf.layers.values.ranges import number_of_step
from returnn.tf.util import ken_lm
from returnn.util.errors import ConfigError
from returnn.util.files.near_files import check_file
from returnn.util.not_specified import NotSpecified
from returnn.util.texts.counted import counted


class KenLmStateLayer(_ConcatInputLayer):
    """
    Puts its inputs together to a text, and scores each of them by what was there before, with KenLM: natural log.

    Source [..., T], labels or strings; output [..., T], float. Inside of a loop, over its frames: source [...], output
    [...]. A label becomes its text and a space; strings are put together as they are. The end of a sentence is the
    word "</s>", like any other. Needs the package `kenlm`.
    """

    layer_class = "kenlm"
    recurrent = True

    def __init__(
        self,
        lm_file: str | Callable[[], str],
        vocab_file: str | None = None,
        vocab_unknown_label: str = "UNK",
        bpe_merge_symbol: str | None = None,
        axis: Any = NotSpecified,
        input_step_offset: int = 0,
        dense_output: bool = False,
        debug: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param lm_file: ARPA file, or binary file of KenLM; or function that gives its name
        :param vocab_file: texts of the labels, if the source is sparse, or for `dense_output`
        :param vocab_unknown_label: label in there for unknown words
        :param bpe_merge_symbol: such as "@@", at the end of a subword if the word goes on. A word that is not complete
            yet counts as an unknown one
        :param axis: T. Default: the time dim, or the loop
        :param input_step_offset: the frames before this one are left out
        :param dense_output: not the score of the input, but of each label that could come next: [..., T, labels]
        :param debug: print texts and scores
        """
        super().__init__(**kwargs)
        if isinstance(lm_file, str):
            check_file(lm_file, where=f"{self.where()}: option 'lm_file'")
        check_file(vocab_file, where=f"{self.where()}: option 'vocab_file'")
        ken_lm.check_package()
        self.lm_file = lm_file
        self.vocab_file = vocab_file
        self.vocab_unknown_label = vocab_unknown_label
        self.bpe_merge_symbol = bpe_merge_symbol
        self.axis = "T" if axis is NotSpecified else axis
        self.input_step_offset = input_step_offset
        self.dense_output = dense_output
        self.debug = debug
        self._loaded: ken_lm.KenLm | None = None

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T], or [..., T, labels]"""
        labels = self._labels(source)
        tokens = self._tokens(source, labels)
        axis, is_frame = self.sequence_dim_of(source, self.axis, option="axis")
        before, after = self._texts_of_frame(tokens) if is_frame else self._texts(tokens, axis)
        if not self.dense_output:
            return self._scores(before, after)
        label_dim = source.sparse_dim or self.new_dim("labels", len(labels), kind=Dim.Types.Feature)
        return self._scores_of_labels(after, labels, label_dim)

    def _labels(self, source: Tensor) -> list[str]:
        """:return: text of each label; none if there is no vocabulary"""
        if self.vocab_file is None:
            if source.dtype != "string" or self.dense_output:
                why = "with 'dense_output'" if source.dtype == "string" else f"as the source {source} has no strings"
                raise ConfigError(f"{self.where()}: the option 'vocab_file' is required, {why}.")
            return []
        unknown = {} if self.vocab_unknown_label == "UNK" else {"unknown_label": self.vocab_unknown_label}
        vocab = Vocabulary.create_vocab(vocab_file=self.vocab_file, **unknown)  # "UNK" need not be there
        dim = source.sparse_dim
        if dim is not None and dim.dimension != vocab.num_labels:
            raise ConfigError(
                f"{self.where()}: option 'vocab_file': {self.vocab_file!r} has {counted(vocab.num_labels, 'label')}, "
                f"but the source {source} has {dim.dimension}."
            )
        return [f"{label} " for label in vocab.labels]

    @staticmethod
    def _tokens(source: Tensor, labels: Sequence[str]) -> Tensor:
        """:return: [..., T], strings"""
        tokens = source.copy_template(dtype="string").copy_with_roles(sparse_dim=None)
        if source.raw_tensor is not None:
            is_text = source.dtype == "string"
            tokens.raw_tensor = source.raw_tensor if is_text else tf.gather(tf.constant(labels), source.raw_tensor)
        return tokens

    def _texts_of_frame(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """:return: [...]: text before and after this frame of a loop"""
        template = tokens.copy_template()
        before = self.previous_state("text", template, initial=lambda: zeros_like_template(template))
        after = tokens.copy_template()
        if get_selected_backend() != "template":
            if self.input_step_offset:
                tokens = rf.where(rf.compare(number_of_step(self), "<", self.input_step_offset), "", tokens)
            after.raw_tensor = tf.strings.join([before.copy_compatible_to_dims_raw(tokens.dims), tokens.raw_tensor])
        self.new_state("text", after)
        return before, after

    def _texts(self, tokens: Tensor, axis: Dim) -> tuple[Tensor, Tensor]:
        """:return: [..., T]: text before and after each frame"""
        number = tokens.get_axis_from_description(axis) if axis in tokens.dims else None
        if number is None:
            tokens = rf.expand_dim(tokens, axis)
            number = tokens.get_axis_from_description(axis)
        before, after = tokens.copy_template(), tokens.copy_template()
        if get_selected_backend() == "template":
            return before, after
        raw = tf.transpose(tokens.raw_tensor, [number, *(i for i in range(len(tokens.dims)) if i != number)])
        step = tf.reshape(tf.range(tf.shape(raw)[0]), [-1] + [1] * (len(tokens.dims) - 1))
        raw = tf.where(step < self.input_step_offset, "", raw)
        first = tf.fill(tf.shape(raw)[1:], "")
        texts = tf.scan(lambda text, token: tf.strings.join([text, token]), raw, initializer=first)
        back = [*range(1, number + 1), 0, *range(number + 1, len(tokens.dims))]
        after.raw_tensor = tf.transpose(texts, back)
        before.raw_tensor = tf.transpose(tf.concat([first[None], texts[:-1]], axis=0), back)
        return before, after

    def _scores(self, before: Tensor, after: Tensor) -> Tensor:
        """:return: [...]: score of the second text, without that of the first one"""
        out = after.copy_template(dtype="float32")
        if get_selected_backend() != "template":
            score = self._score(after.raw_tensor)
            out.raw_tensor = score - self._score(before.copy_compatible_to_dims_raw(after.dims))
        return out

    def _scores_of_labels(self, text: Tensor, labels: Sequence[str], label_dim: Dim) -> Tensor:
        """:return: [..., labels]: score of each label behind the text"""
        out = text.copy_template(dtype="float32")._insert_dim(label_dim, len(text.dims))
        out = out.copy_with_roles(feature_dim=label_dim)
        if get_selected_backend() != "template":
            raw, texts = text.raw_tensor, tf.constant(labels)
            scores = ken_lm.ken_lm_abs_score_bpe_strings_dense(self._model(), self.bpe_merge_symbol, raw, texts)
            out.raw_tensor = scores - self._score(raw)[..., None]
        return out

    def _score(self, text: tf.Tensor) -> tf.Tensor:
        score = ken_lm.ken_lm_abs_score_bpe_strings(self._model(), self.bpe_merge_symbol, text)
        if not self.debug:
            return score
        with tf.control_dependencies([tf.print(self.where(), text, score, summarize=-1)]):
            return tf.identity(score)

    def _model(self) -> ken_lm.KenLm:
        if self._loaded is None:
            self._loaded = ken_lm.ken_lm_load(self.lm_file() if callable(self.lm_file) else self.lm_file)
        return self._loaded
