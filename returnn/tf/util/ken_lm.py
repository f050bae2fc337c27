"""
Count-based language models by KenLM (https://kheafield.com/code/kenlm/): scores of strings, in the graph.

The package `kenlm` is asked from Python, while the graph runs. States of what was asked before are kept, so that a
string which is one word longer costs one word.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.util.errors import ConfigError
from returnn.util.files.near_files import check_file
from returnn.util.python.optional_import import check_installed, import_optional

_NEEDED_FOR = "language models by KenLM"
_MAX_STATES = 100_000


def check_package() -> None:
    """:raises MissingPackageError: if there is no KenLM"""
    check_installed("kenlm", needed_for=_NEEDED_FOR)


class KenLm:
    """A language model."""

    def __init__(self, filename: str) -> None:
        """
        :param filename: ARPA file, or binary file of KenLM
        :raises ConfigError: if it cannot be read
        """
        self._kenlm = import_optional("kenlm", needed_for=_NEEDED_FOR)
        check_file(filename, where="KenLM")
        try:
            self._model = self._kenlm.Model(filename, self._quiet_config())
        except (OSError, RuntimeError) as exc:
            raise ConfigError(f"KenLM: {filename!r} cannot be read: {_reason(str(exc), filename)}") from exc
        self._known: dict[tuple[str, ...], tuple[Any, float]] = {}

    def score(self, words: Sequence[str]) -> float:
        """:return: natural log of the probability of the words behind the begin of a sentence"""
        path = tuple(words)
        num_known = next((n for n in range(len(path), 0, -1) if path[:n] in self._known), 0)
        state, score = self._known[path[:num_known]] if num_known else (self._begin(), 0.0)
        for i in range(num_known, len(path)):
            new_state = self._kenlm.State()
            score += self._model.BaseScore(state, path[i], new_state) * math.log(10)
            state = new_state
            if len(self._known) >= _MAX_STATES:
                self._known.clear()
            self._known[path[: i + 1]] = (state, score)
        return score

    def has(self, word: str) -> bool:
        """:return: whether the word is not an unknown one"""
        return word in self._model

    def _quiet_config(self) -> Any:
        config = self._kenlm.Config()
        config.show_progress = False
        config.arpa_complain = self._kenlm.ARPALoadComplain.NONE
        return config

    def _begin(self) -> Any:
        state = self._kenlm.State()
        self._model.BeginSentenceWrite(state)
        return state


def _reason(message: str, filename: str) -> str:
    """:return: what KenLM says in the round brackets behind the name of the file, without names of C++"""
    inner = re.fullmatch(rf"Cannot read model '{re.escape(filename)}' \((.*)\)", message, flags=re.DOTALL)
    return re.sub(r"^.* threw (\w+Exception)(\. | because )", r"\1: ", inner[1] if inner else message, flags=re.DOTALL)


@functools.cache
def ken_lm_load(filename: str) -> KenLm:
    """
    :param filename: ARPA file, or binary file of KenLM
    :return: the model; the same one for the same file
    """
    return KenLm(filename)


def words_of(text: str, bpe_merge_symbol: str | None = None) -> list[str]:
    """
    :param text: words, or subwords, separated by white space
    :param bpe_merge_symbol: such as "@@", at the end of a subword if the word goes on
    :return: words. One that is not complete keeps its symbol, so it is an unknown word.
    """
    if not bpe_merge_symbol:
        return text.split()
    words, begin = [], ""
    for part in text.split():
        if part.endswith(bpe_merge_symbol):
            begin += part.removesuffix(bpe_merge_symbol)
        else:
            words.append(begin + part)
            begin = ""
    return [*words, begin + bpe_merge_symbol] if begin else words


def ken_lm_abs_score_strings(handle: KenLm, strings: tf.Tensor) -> tf.Tensor:
    """
    :param handle: the model
    :param strings: (...): words, separated by white space. The end of a sentence "</s>" is a word like others
    :return: (...): natural log of the probability
    """
    return ken_lm_abs_score_bpe_strings(handle, None, strings)


def ken_lm_abs_score_bpe_strings(handle: KenLm, bpe_merge_symbol: str | None, strings: tf.Tensor) -> tf.Tensor:
    """
    :param handle: the model
    :param bpe_merge_symbol: see `words_of`
    :param strings: (...)
    :return: (...): natural log of the probability
    """

    def scores(texts: numpy.ndarray) -> numpy.ndarray:
        return _map(lambda text: handle.score(words_of(text, bpe_merge_symbol)), texts)

    result = tf.numpy_function(scores, [strings], tf.float32)
    result.set_shape(strings.shape)
    return result


def ken_lm_abs_score_bpe_strings_dense(
    handle: KenLm, bpe_merge_symbol: str | None, strings: tf.Tensor, labels: tf.Tensor
) -> tf.Tensor:
    """
    :param handle: the model
    :param bpe_merge_symbol: see `words_of`
    :param strings: (...)
    :param labels: (V,): each could come next
    :return: (..., V): natural log of the probability of the string with this label at its end
    """

    def scores(texts: numpy.ndarray, nexts: numpy.ndarray) -> numpy.ndarray:
        joined = numpy.array(texts, dtype=object)[..., None] + nexts
        return _map(lambda text: handle.score(words_of(text, bpe_merge_symbol)), joined)

    result = tf.numpy_function(scores, [strings, labels], tf.float32)
    result.set_shape(strings.shape.concatenate(labels.shape))
    return result


def _map(func: Callable[[str], float], texts: numpy.ndarray) -> numpy.ndarray:
    flat = numpy.asarray(texts, dtype=object).reshape(-1)
    values = [func(text.decode("utf8")) for text in flat]
    return numpy.array(values, dtype="float32").reshape(numpy.shape(texts))
