"""
Hypotheses of sequences, as text, and files with them.

A layer after `decide` has one hypothesis for each sequence, any other layer with a beam has a list of pairs: score and
text, the best one first.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from returnn.datasets.util.vocabulary_base import WORD_PREFIX
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.files.atomic_file import open_atomic

Hypotheses: TypeAlias = str | list[tuple[float, str]]
HypothesesPerLayer: TypeAlias = "Hypotheses | dict[str, Hypotheses]"

_FEW_TEXTS = 0.1  # of all


def write_hypotheses(
    filename: str, results: Mapping[str, HypothesesPerLayer], file_format: str, *, has_prefixes: bool = False
) -> None:
    """
    :param filename: the file; it is complete or not there. With the ending ".gz", it is compressed
    :param results: by tag
    :param file_format: one of `FILE_FORMATS`
    :param has_prefixes: see `words_of`
    :raises ConfigError: if there is no such format, or if it cannot have hypotheses of several layers
    """
    check_file_format(file_format)
    if file_format in _FORMATS_OF_WORDS:
        results = {tag: with_words(hyps, has_prefixes=has_prefixes) for tag, hyps in results.items()}
    text = "".join(FILE_FORMATS[file_format](results))
    data = text.encode("utf8")
    with open_atomic(filename, "wb") as file:
        file.write(gzip.compress(data, mtime=0) if filename.endswith(".gz") else data)


def check_file_format(name: str) -> None:
    """:raises ConfigError: if there is no such format"""
    check_known("format", name, FILE_FORMATS, where="option 'search_output_file_format'")


def read_hypotheses(filename: str) -> dict[str, HypothesesPerLayer]:
    """
    :param filename: written with a format that has tags: "py", "py-words", "json", "tagged"
    :return: by tag
    :raises UserError: if it is something else
    """
    data = Path(filename).read_bytes()
    text = (gzip.decompress(data) if filename.endswith(".gz") else data).decode("utf8")
    try:
        if not text.startswith("{"):
            return {tag: rest for tag, _, rest in (line.partition(" ") for line in text.splitlines())}
        if text.startswith('{"seq_tag"'):
            return {entry["seq_tag"]: _from_json(entry["hyps"]) for entry in map(json.loads, text.splitlines())}
        return dict(ast.literal_eval(text))
    except (ValueError, SyntaxError, KeyError, TypeError) as exc:
        raise UserError(f"{filename!r} has no hypotheses: {type(exc).__name__}: {exc}.") from exc


def words_of(text: str, *, has_prefixes: bool = False) -> str:
    """
    :param text: labels of a sequence
    :param has_prefixes: whether they are of a vocabulary where "▁" is before each word. That cannot be seen where all
        of them go on with a word, as in "d u": one word of SentencePiece, or two words
    :return: with subwords put together, of byte pair encoding ("@@ ") or of SentencePiece ("▁" before a word)
    """
    if has_prefixes or WORD_PREFIX in text:
        return text.replace(" ", "").replace(WORD_PREFIX, " ").strip()
    return f"{text} ".replace("@@ ", "").rstrip()


def words_of_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """
    :param texts: of the same labels, whose vocabulary is not known
    :return: `words_of` each of them. As all have the same labels, "▁" in some tells of the others, but not if
        these are few: it can also be a character of a text
    """
    with_prefix = sum(WORD_PREFIX in text for text in texts.values())
    has_prefixes = with_prefix > _FEW_TEXTS * len(texts)
    return {tag: words_of(text, has_prefixes=has_prefixes) for tag, text in texts.items()}


def with_words(hypotheses: HypothesesPerLayer, *, has_prefixes: bool = False) -> HypothesesPerLayer:
    """:return: the same, with `words_of` all texts"""
    return _map_texts(lambda text: words_of(text, has_prefixes=has_prefixes), hypotheses)


def empty_hypotheses(hypotheses: HypothesesPerLayer) -> HypothesesPerLayer:
    """:return: of the same form, with nothing in it"""
    if isinstance(hypotheses, dict):
        return {layer: "" if isinstance(of_layer, str) else [(0.0, "")] for layer, of_layer in hypotheses.items()}
    return "" if isinstance(hypotheses, str) else [(0.0, "")]


def best_hypothesis(hypotheses: HypothesesPerLayer) -> str:
    """
    :return: text of the best one
    :raises ConfigError: if there are several layers
    """
    if isinstance(hypotheses, dict):
        layers = ", ".join(map(repr, hypotheses))
        raise ConfigError(
            f"option 'search_output_file_format': lines of text cannot have several layers, {layers}.\n"
            "  Possible: 'py', 'py-words', 'json', or one 'search_output_layer'."
        )
    return hypotheses[0][1] if isinstance(hypotheses, list) else hypotheses


def _txt(results: Mapping[str, HypothesesPerLayer]) -> list[str]:
    return [f"{best_hypothesis(hyps)}\n" for hyps in results.values()]


def _tagged(results: Mapping[str, HypothesesPerLayer]) -> list[str]:
    return [f"{tag} {best_hypothesis(hyps)}\n" for tag, hyps in results.items()]


def _py(results: Mapping[str, HypothesesPerLayer]) -> list[str]:
    return ["{\n", *(f"{tag!r}: {_py_value(hyps)},\n" for tag, hyps in results.items()), "}\n"]


def _py_value(hyps: HypothesesPerLayer) -> str:
    if not isinstance(hyps, list):
        return repr(hyps)
    return "[\n" + "".join(f"({score!r}, {text!r}),\n" for score, text in hyps) + "]"


def _json(results: Mapping[str, HypothesesPerLayer]) -> list[str]:
    return [json.dumps({"seq_tag": tag, "hyps": hyps}, ensure_ascii=False) + "\n" for tag, hyps in results.items()]


FILE_FORMATS: dict[str, Callable[[Mapping[str, HypothesesPerLayer]], list[str]]] = {
    "txt": _txt,  # a line for each sequence: the best hypothesis
    "words": _txt,  # the same, with subwords put together
    "tagged": _tagged,  # the same, after the tag, as Kaldi and sclite have it
    "py": _py,  # a dict from tags to text, or to all hypotheses with their scores
    "py-words": _py,  # the same, with subwords put together
    "json": _json,  # a line for each sequence: {"seq_tag": ..., "hyps": ...}
}
_FORMATS_OF_WORDS = ("words", "tagged", "py-words")


def _map_texts(func: Callable[[str], str], hyps: HypothesesPerLayer) -> HypothesesPerLayer:
    if isinstance(hyps, dict):
        return {name: _map_texts(func, value) for name, value in hyps.items()}  # type: ignore[misc]
    if isinstance(hyps, list):
        return [(score, func(text)) for score, text in hyps]
    return func(hyps)


def _from_json(hyps: Any) -> HypothesesPerLayer:
    if isinstance(hyps, dict):
        return {name: _from_json(value) for name, value in hyps.items()}  # type: ignore[misc]
    return [(score, text) for score, text in hyps] if isinstance(hyps, list) else hyps
