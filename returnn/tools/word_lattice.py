"""
Word lattices in the standard lattice format of HTK (HTK Book 3.4, chapter 20), and their search with a language model.

Nodes and links are lines of fields `NAME=VALUE`; words stand at links or at the nodes where they end.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from returnn.util.errors import UserError

Words = tuple[str, ...]
LogProbs = Callable[[Sequence[Words], Sequence[Sequence[str]]], Sequence[Sequence[float]]]
"""Histories, and for each the words which can follow -> log probabilities of these."""

NO_WORDS = ("!NULL", "<eps>", "!SENT_START", "!SENT_END", "<s>", "</s>")
_FIELD = re.compile(r"(\w+)=(\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|\S+)")


@dataclass(frozen=True)
class Link:
    """From a node to a later one."""

    start: int
    end: int
    word: str | None  # None: no word
    acoustic: float  # natural log
    language: float  # of the model that made the lattice


@dataclass
class Lattice:
    """Links of an acyclic graph, whose nodes are sorted: each after all those before it."""

    name: str
    nodes: list[int]
    links: dict[int, list[Link]] = field(default_factory=dict)  # by the node where they start

    @property
    def final(self) -> list[int]:
        """Nodes where no link starts."""
        return [node for node in self.nodes if not self.links.get(node)]


def parse_lattice(lines: Iterable[str], *, name: str) -> Lattice:
    """
    :param lines: of the file
    :param name: of the lattice, if it does not say its own (`UTTERANCE`), and in errors
    :raises UserError: if it is no lattice
    """
    header: dict[str, str] = {}
    words: dict[int, str | None] = {}
    raw_links: list[dict[str, str]] = []
    for line in lines:
        fields = {key: _unquoted(value) for key, value in _FIELD.findall(line.partition("#")[0])}
        if "I" in fields:
            words[_int(fields, "I", name)] = fields.get("W", fields.get("WORD"))
        elif "J" in fields:
            raw_links.append(fields)
        else:
            header.update(fields)
    if not words or not raw_links:
        raise UserError(f"lattice {name!r} has no nodes or no links; it has to be in the format of HTK (SLF).")
    factor = math.log(float(header.get("base", math.e)))
    links: dict[int, list[Link]] = defaultdict(list)
    for fields in raw_links:
        start, end = (_int(fields, key, name) for key in ("S", "E"))
        if start not in words or end not in words:
            raise UserError(
                f"lattice {name!r}, link {fields['J']}: there is no node {start if start not in words else end}."
            )
        word = fields.get("W", fields.get("WORD", words[end]))
        scores = [_float(fields, key, name) * factor for key in ("a", "l")]
        links[start].append(Link(start, end, None if word in NO_WORDS else word, *scores))
    return Lattice(header.get("UTTERANCE", name), _sorted(list(words), links, name), dict(links))


def _unquoted(text: str) -> str:
    return text[1:-1] if text[0] == text[-1] and text[0] in "\"'" and len(text) > 1 else text


def _int(fields: dict[str, str], key: str, name: str) -> int:
    if not fields.get(key, "").isdigit():
        raise UserError(f"lattice {name!r}: {key}={fields.get(key)} is no number of a node or link.")
    return int(fields[key])


def _float(fields: dict[str, str], key: str, name: str) -> float:
    try:
        return float(fields.get(key, 0.0))
    except ValueError as exc:
        raise UserError(f"lattice {name!r}, link {fields['J']}: {key}={fields[key]} is no number.") from exc


def _sorted(nodes: list[int], links: dict[int, list[Link]], name: str) -> list[int]:
    """:return: each node after those before it"""
    missing = dict.fromkeys(nodes, 0)
    for starting in links.values():
        for link in starting:
            missing[link.end] += 1
    ready = [node for node in nodes if not missing[node]]
    for node in ready:
        for link in links.get(node, ()):
            missing[link.end] -= 1
            if not missing[link.end]:
                ready.append(link.end)
    if len(ready) < len(nodes):
        raise UserError(f"lattice {name!r} has a cycle.")
    return ready


@dataclass(frozen=True)
class Scales:
    """What the score of a path is made of: weighted natural logs."""

    acoustic: float = 1.0
    language: float = 1.0  # of the new model
    old_language: float = 0.0  # of the one in the lattice
    per_word: float = 0.0


def best_paths(
    lattice: Lattice, log_probs: LogProbs, *, scales: Scales, beam: int, end: str
) -> list[tuple[float, Words]]:
    """
    :param log_probs: of the language model
    :param beam: so many histories are kept at each node, the best ones; the same words have one entry
    :param end: the word of the end of a sentence for the language model
    :return: score and words of the best paths, the best first
    """
    at_node: dict[int, dict[Words, float]] = defaultdict(dict)
    incoming = {link.end for links in lattice.links.values() for link in links}
    for node in lattice.nodes:
        if node not in incoming:
            at_node[node][()] = 0.0
    found: dict[Words, float] = {}
    for node in lattice.nodes:
        ranked = sorted(at_node.pop(node, {}).items(), key=lambda item: (-item[1], item[0]))[:beam]
        if not ranked:
            continue
        links = lattice.links.get(node, [])
        following = sorted({link.word for link in links if link.word is not None}) if links else [end]
        histories = [history for history, _ in ranked]
        rows = log_probs(histories, [following] * len(histories)) if following else [[]] * len(histories)
        for (history, score), row in zip(ranked, rows, strict=True):
            model = dict(zip(following, row, strict=True))
            if not links:
                _keep_best(found, history, score + scales.language * model[end])
            for link in links:
                more = scales.acoustic * link.acoustic + scales.old_language * link.language
                if link.word is not None:
                    more += scales.language * model[link.word] + scales.per_word
                words = history if link.word is None else (*history, link.word)
                _keep_best(at_node[link.end], words, score + more)
    return sorted(((score, words) for words, score in found.items()), key=lambda item: (-item[0], item[1]))[:beam]


def _keep_best(scores: dict[Words, float], words: Words, score: float) -> None:
    scores[words] = max(score, scores.get(words, -math.inf))
