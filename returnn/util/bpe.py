"""
Byte pair encoding (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909): words become sequences of labels.

`StandardBytePairEncoder` applies learned merges, as `subword-nmt apply-bpe` does. `SamplingBytePairEncoder` needs the
labels alone, and draws one of the ways to write a word with them. A label that does not end its word is marked, by
a postfix such as `@@`; or else a label that starts a word has a prefix such as `▁`. `BpeOpts` says which.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy

from returnn.util.errors import UserError
from returnn.util.files.text_file import iter_lines

BpePostMergeSymbol = "@@"
_END_OF_WORD = "</w>"


@dataclass(frozen=True)
class BpeOpts:
    """How labels show the borders of words. Give one of the two."""

    label_postfix_merge_symbol: str | None = None
    word_prefix_symbol: str | None = None

    def __post_init__(self) -> None:
        if bool(self.label_postfix_merge_symbol) == bool(self.word_prefix_symbol):
            raise UserError(
                "BPE: give one of 'label_postfix_merge_symbol' (e.g. '@@') and 'word_prefix_symbol' (e.g. '▁'),\n"
                f"  not {self.label_postfix_merge_symbol!r} and {self.word_prefix_symbol!r}."
            )


class StandardBytePairEncoder:
    """Splits words by a file of merges, the codes, as `subword-nmt learn-bpe` writes it."""

    def __init__(
        self, bpe_codes_file: str, labels: Collection[str] | None = None, special_labels: Collection[str] = ()
    ):
        """
        :param bpe_codes_file: a merge per line, `left right`, after an optional `#version: 0.2`. Can be gzipped
        :param labels: the vocabulary. Labels outside of it are split further, back along their merges
        :param special_labels: such as "<unk>": as words of a text, they stay as they are
        :raises UserError: if a line of the file is no merge
        """
        self.labels = labels
        self._version, pairs = _read_codes(bpe_codes_file)
        self._ranks: dict[tuple[str, str], int] = {}
        for rank, pair in enumerate(pairs):
            self._ranks.setdefault(pair, rank)
        self._parts_of = {left + right: (left, right) for left, right in reversed(self._ranks)}
        self._cache: dict[str, list[str]] = {label: [label] for label in special_labels}

    def merged_labels(self) -> list[str]:
        """:return: what each of the merges makes"""
        return [_to_label(left + right) for left, right in self._ranks]

    def segment_sentence(self, sentence: str) -> list[str]:
        """:return: labels of all words. They are not always in the vocabulary: single characters can be unknown"""
        return [label for word in sentence.split() for label in self._segment_word(word)]

    def _segment_word(self, word: str) -> list[str]:
        if word not in self._cache:
            symbols = self._merge(self._initial_symbols(word))
            if self.labels is not None:
                labels = self.labels
                symbols = [part for symbol in symbols for part in self._split_unknown(symbol, labels)]
            self._cache[word] = [_to_label(symbol) for symbol in symbols]
        return self._cache[word]

    def _initial_symbols(self, word: str) -> list[str]:
        if self._version < (0, 2):
            return [*word, _END_OF_WORD]
        return [*word[:-1], word[-1] + _END_OF_WORD]

    def _merge(self, symbols: list[str]) -> list[str]:
        last = len(self._ranks)
        while len(symbols) > 1:
            best = min(itertools.pairwise(symbols), key=lambda pair: self._ranks.get(pair, last))
            if best not in self._ranks:
                break
            symbols = _merge_pair(symbols, best)
        if len(symbols) > 1 and symbols[-1] == _END_OF_WORD:  # version 0.1 has it as a symbol of its own
            symbols = [*symbols[:-2], symbols[-2] + _END_OF_WORD]
        return symbols

    def _split_unknown(self, symbol: str, labels: Collection[str]) -> Iterator[str]:
        parts = self._parts_of.get(symbol)
        if parts is None and self._version < (0, 2) and symbol.endswith(_END_OF_WORD):
            left, right = self._parts_of.get(symbol.removesuffix(_END_OF_WORD), ("", ""))
            parts = (left, right + _END_OF_WORD) if left else None
        if parts is None or parts[1] == _END_OF_WORD or _to_label(symbol) in labels:
            yield symbol
            return
        for part in parts:
            yield from self._split_unknown(part, labels)


def _read_codes(filename: str) -> tuple[tuple[int, ...], list[tuple[str, str]]]:
    version: tuple[int, ...] = (0, 1)
    pairs: list[tuple[str, str]] = []
    for line_nr, line in enumerate(iter_lines(filename), start=1):
        if line_nr == 1 and line.startswith("#version:"):
            version = tuple(int(number) for number in line.removeprefix("#version:").strip().split("."))
            continue
        parts = line.strip("\r\n ").split(" ")
        if parts == [""]:
            continue
        if len(parts) != 2:
            raise UserError(f"BPE codes {filename!r}, line {line_nr}: expected two symbols, got {line[:80]!r}.")
        pairs.append((parts[0], parts[1]))
    return version, pairs


def _merge_pair(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    i = 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def _to_label(symbol: str) -> str:
    if symbol.endswith(_END_OF_WORD):
        return symbol.removesuffix(_END_OF_WORD)
    return symbol + BpePostMergeSymbol


class PrefixTree:
    """All labels as a tree over their characters. A node stands for the characters from the root to it."""

    def __init__(self, *, prefix: str = "", opts: BpeOpts):
        self.prefix = prefix
        self.opts = opts
        self.arcs: dict[str, PrefixTree] = {}
        self.finished = False  # a label ends here, and a word can
        self.bpe_finished = False  # a label ends here, and the word goes on

    def add(self, postfix: str) -> PrefixTree:
        """
        :param postfix: label, from this node on
        :return: the node where it ends
        """
        merge_symbol = self.opts.label_postfix_merge_symbol
        goes_on = merge_symbol is None or postfix.endswith(merge_symbol)
        characters = postfix.removesuffix(merge_symbol) if merge_symbol else postfix
        node = self
        for char in characters:
            if char not in node.arcs:
                node.arcs[char] = PrefixTree(prefix=node.prefix + char, opts=self.opts)
            node = node.arcs[char]
        if goes_on:
            node.bpe_finished = True
        if merge_symbol is None or not goes_on:
            node.finished = True
        return node


@dataclass
class Hyp:
    """A split of the first characters of a word: whole labels, and the label that is being read."""

    bpe_sym_history: list[str]
    cur_node: PrefixTree


@dataclass
class HypInPos:
    """As `Hyp`; `pos` characters of the word have been read."""

    bpe_sym_history: list[str]
    cur_node: PrefixTree
    pos: int


class CharSyncSearch:
    """Finds all ways to write a word with the labels. There can be exponentially many."""

    def __init__(self, bpe: PrefixTree, word: str, word_pos: int = 0):
        self.bpe = bpe
        self.opts = bpe.opts
        self.word = _word_to_search(word, bpe.opts)
        self.word_pos = word_pos
        self.hyps: list[Hyp] = [Hyp(bpe_sym_history=[], cur_node=bpe)]
        self.final_bpe_seqs: list[list[str]] | None = None

    def search(self) -> list[list[str]]:
        """:return: list of splits, each a list of labels"""
        while self.word_pos < len(self.word):
            self._expand(self.word[self.word_pos])
            self.word_pos += 1
        self.final_bpe_seqs = [
            [*hyp.bpe_sym_history, hyp.cur_node.prefix] for hyp in self.hyps if hyp.cur_node.finished
        ]
        return self.final_bpe_seqs

    def _expand(self, char: str) -> None:
        self.hyps = [
            Hyp(bpe_sym_history=history, cur_node=node.arcs[char])
            for hyp in self.hyps
            for history, node in _next_nodes(hyp.bpe_sym_history, hyp.cur_node, self.bpe)
            if char in node.arcs
        ]


class DepthFirstSearch:
    """Finds one way to write a word with the labels. Prefers long labels, or what the sampler decides."""

    def __init__(self, bpe: PrefixTree, word: str, sampler: Callable[[], bool] | None = None):
        """
        :param sampler: called where a label can end and can also go on; True: it ends
        """
        self.bpe = bpe
        self.opts = bpe.opts
        self.word = _word_to_search(word, bpe.opts)
        self.sampler = sampler
        self.hyps: list[HypInPos] = [HypInPos(bpe_sym_history=[], cur_node=bpe, pos=0)]
        self.final_bpe_seq: list[str] | None = None

    def search(self) -> list[str] | None:
        """:return: labels, or None if the labels cannot make the word"""
        seen: set[tuple[int, int]] = set()  # from the same node and position, a second try ends the same
        while self.hyps:
            hyp = self.hyps.pop()
            if (id(hyp.cur_node), hyp.pos) in seen:
                continue
            seen.add((id(hyp.cur_node), hyp.pos))
            if hyp.pos == len(self.word):
                if hyp.cur_node.finished:
                    self.final_bpe_seq = [*hyp.bpe_sym_history, hyp.cur_node.prefix]
                    return self.final_bpe_seq
                continue
            self._expand(hyp)
        return None

    def _expand(self, hyp: HypInPos) -> None:
        char = self.word[hyp.pos]
        ways = [
            HypInPos(bpe_sym_history=history, cur_node=node.arcs[char], pos=hyp.pos + 1)
            for history, node in _next_nodes(hyp.bpe_sym_history, hyp.cur_node, self.bpe)
            if char in node.arcs
        ]
        if len(ways) > 1 and self.sampler and self.sampler():
            ways.reverse()
        self.hyps.extend(reversed(ways))  # the last one is tried first


def _next_nodes(history: list[str], node: PrefixTree, root: PrefixTree) -> Iterator[tuple[list[str], PrefixTree]]:
    """The ways to go on: read more of the same label, or end it and begin another one."""
    yield history, node
    if node.bpe_finished:
        yield [*history, node.prefix + (node.opts.label_postfix_merge_symbol or "")], root


def _word_to_search(word: str, opts: BpeOpts) -> str:
    return (opts.word_prefix_symbol or "") + word


class SamplingBytePairEncoder:
    """Draws one of the splits of each word. No merges are needed, only the labels."""

    def __init__(
        self,
        *,
        labels: Collection[str],
        breadth_prob: float,
        rnd: numpy.random.RandomState,
        unknown_label: str | None = None,
        special_labels: Collection[str] = (),
        opts: BpeOpts,
    ):
        """
        :param breadth_prob: probability to end a label where it could go on. 0: long labels, 1: short ones
        :param unknown_label: for words that the labels cannot make
        :param special_labels: such as "<unk>": as words of a text, they stay as they are
        """
        self._special_labels = frozenset(special_labels)
        self.labels = labels
        self.breadth_prob = breadth_prob
        self.rnd = rnd
        self.unknown_label = unknown_label
        self.opts = opts
        self._tree = PrefixTree(opts=opts)
        for label in labels:
            self._tree.add(label)

    def get_bpe_split_for_word(self, word: str) -> list[str] | None:
        """:return: labels, or None if the labels cannot make the word"""
        return DepthFirstSearch(self._tree, word, sampler=self._ends_label).search()

    def segment_sentence(self, sentence: str) -> list[str]:
        """
        :return: labels of all words
        :raises UserError: if the labels cannot make a word, and there is no unknown label
        """
        return [label for word in sentence.split() for label in self._segment_word(word)]

    def _segment_word(self, word: str) -> list[str]:
        if word in self._special_labels:
            return [word]
        labels = self.get_bpe_split_for_word(word)
        if labels is not None:
            return labels
        if self.unknown_label is None:
            raise UserError(f"BPE: the labels cannot make the word {word!r}, and there is no 'unknown_label'.")
        return [self.unknown_label]

    def _ends_label(self) -> bool:
        return bool(self.rnd.random_sample() < self.breadth_prob)
