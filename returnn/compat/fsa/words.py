"""Automata over words with their pronunciations: hidden Markov models of sentences, all words, n-grams."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from returnn.compat.fsa.edge import Edge
from returnn.compat.fsa.graph import Graph
from returnn.datasets.util.allophone import StateTying
from returnn.datasets.util.lexicon import Lexicon
from returnn.util.errors import UserError, check_known

ALLOPHONES, STATES, STATES_WITH_LOOPS, TIED_STATES = 3, 4, 5, 6


def load_lexicon(lexicon_name: str = "recog.150k.final.lex.gz", pickleflag: bool = False) -> Lexicon:
    """
    :param lexicon_name: Bliss lexicon, XML, can be gzipped
    :param pickleflag: a pickle beside it would be used; it is read fast enough without
    """
    return Lexicon(lexicon_name)


def load_state_tying(state_tying_name: str = "state-tying.txt") -> StateTying:
    """:return: numbers of the states of allophones, from a text file with a line for each"""
    return StateTying(state_tying_name)


class Hmm:
    """
    The hidden Markov model of a sentence, by `depth`: 1: words, with silence between them; 2: phones; 3: with the
    phones around them; 4: states of these; 5: states can stay; 6: numbers of the state tying.

    `lexicon` and, for depth 6, `state_tying` are set before `run`.
    """

    def __init__(
        self, fsa: Graph, depth: int = 6, allo_num_states: int = 3, state_tying_conversion: bool = False
    ) -> None:
        """
        :param fsa: the sentence, which gets `edges_hmm` and `num_states_hmm`
        :param depth: how far to go
        :param allo_num_states: states of each phone; silence has one
        :param state_tying_conversion: at depth 6, labels are numbers; otherwise names of the states of allophones
        """
        self.fsa = fsa
        self.depth = depth
        self.allo_num_states = allo_num_states
        self.state_tying_conversion = state_tying_conversion
        self.lexicon: Any = None
        self.state_tying: Any = None
        self.phon_dict: dict[str, list[str]] = {}
        self._edges: list[Edge] = []
        self._num_states = 0

    def run(self) -> None:
        """
        Makes the automaton.

        :raises UserError: if a word is not in the lexicon, or a state not in the state tying
        """
        self._edges, self._num_states = [], 1
        self._add_silence(0)
        state = 0
        for index, word in enumerate(self.fsa.lem_list):
            state = self._add_word(state, word, index)
            self._add_silence(state)
        if self.depth >= TIED_STATES:
            for edge in self._edges:
                edge.label = self._tied(edge)
        self.fsa.edges_hmm = sorted(self._edges)
        self.fsa.num_states_hmm = self._num_states

    def _new_state(self) -> int:
        self._num_states += 1
        return self._num_states - 1

    def _add(self, source: int, target: int, label: str, **about: Any) -> Edge:
        edge = Edge(source, target, label, weight=about.pop("score", 0.0))
        for name, value in about.items():
            setattr(edge, name, value)
        self._edges.append(edge)
        return edge

    def _add_silence(self, state: int) -> None:
        """Silence can last as long as it likes between words, and be left out: a loop."""
        self._add(state, state, Edge.SIL, allo_idx=0)

    def _add_word(self, state: int, word: str, index: int) -> int:
        """:return: the state behind the word"""
        end = self._new_state()
        if self.depth <= 1:
            self._add(state, end, word, idx_word_in_sentence=index)
            return end
        if self.lexicon is None:
            raise UserError("set `lexicon` first, e.g. by `load_lexicon`.")
        check_known("word", word, self.lexicon.lemmas, where="lexicon")
        for pronunciation in self.lexicon.lemmas[word]["phons"]:
            phones = pronunciation["phon"].split()
            self.phon_dict.setdefault(word, []).append(pronunciation["phon"])
            self._add_phones(state, end, phones, float(pronunciation["score"]), index)
        return end

    def _add_phones(self, state: int, end: int, phones: list[str], score: float, index: int) -> None:
        num_states = self.allo_num_states if self.depth >= STATES else 1
        for i, phone in enumerate(phones):
            for part in range(num_states):
                is_last = i == len(phones) - 1 and part == num_states - 1
                target = end if is_last else self._new_state()
                about = {
                    "idx_word_in_sentence": index,
                    "idx_phon_in_word": i,
                    "phon_at_word_begin": i == 0,
                    "phon_at_word_end": i == len(phones) - 1,
                    "allo_idx": part,
                }
                if self.depth >= ALLOPHONES:
                    about["label_prev"] = phones[i - 1] if i > 0 else ""
                    about["label_next"] = phones[i + 1] if i + 1 < len(phones) else ""
                is_first = i == 0 and part == 0
                self._add(state, target, phone, score=score if is_first else 0.0, **about)
                if self.depth >= STATES_WITH_LOOPS and not is_last:
                    self._add(target, target, phone, **about)
                elif self.depth >= STATES_WITH_LOOPS:  # others end there as well, so it cannot stay there
                    before = self._new_state()
                    self._add(state, before, phone, score=score if is_first else 0.0, **about)
                    self._add(before, before, phone, **about)
                    self._add(before, target, phone, **about)
                state = target

    def _tied(self, edge: Edge) -> Any:
        if edge.label == Edge.SIL:
            name = "[SILENCE]{#+#}@i@f.0"
        else:
            context = f"{{{edge.label_prev or '#'}+{edge.label_next or '#'}}}"
            ends = ("@i" if edge.phon_at_word_begin else "") + ("@f" if edge.phon_at_word_end else "")
            name = f"{edge.label}{context}{ends}.{edge.allo_idx}"
        if not self.state_tying_conversion:
            return name
        if self.state_tying is None:
            raise UserError("set `state_tying` first, e.g. by `load_state_tying`.")
        numbers: Mapping[str, int] = getattr(self.state_tying, "allo_map", self.state_tying)
        check_known("state of an allophone", name, numbers, where="state tying")
        return numbers[name]


class AllPossibleWordsFsa:
    """Any word of a lexicon, any number of times: one state. `lexicon` is set before `run`."""

    def __init__(self, fsa: Graph) -> None:
        """
        :param fsa: gets `edges_word` and `num_states_word`
        """
        self.fsa = fsa
        self.lexicon: Any = None

    def run(self) -> None:
        """Makes the automaton."""
        if self.lexicon is None:
            raise UserError("set `lexicon` first, e.g. by `load_lexicon`.")
        self.fsa.edges_word = [Edge(0, 0, word) for word in sorted(self.lexicon.lemmas)]
        self.fsa.num_states_word = 1


class Ngram:
    """
    Words with a history of up to `n - 1` of them: a state for each history. `lemma_list` or `lexicon`, and, if they are
    not all equal, `ngram_scores` (negative log probability by the tuple of words) are set before `run`.
    """

    def __init__(self, n: int) -> None:
        """
        :param n: number of words of an n-gram, at least 1
        """
        if n < 1:
            raise UserError(f"n-gram: n has to be at least 1, not {n}.")
        self.n = n
        self.lexicon: Any = None
        self.lemma_list: list[str] = []
        self.ngram_list: list[tuple[str, ...]] = []
        self.ngram_scores: Mapping[tuple[str, ...], float] | Callable[[tuple[str, ...]], float] | None = None
        self.edges: list[Edge] = []
        self.num_states = 0

    def run(self) -> None:
        """Makes the automaton. A history that is not full yet has fewer words."""
        words = self.lemma_list or sorted(getattr(self.lexicon, "lemmas", ()))
        if not words:
            raise UserError("n-gram: set `lemma_list` or `lexicon` first.")
        self.lemma_list = list(words)
        histories = [h for size in range(self.n) for h in itertools.product(words, repeat=size)]
        states = {history: state for state, history in enumerate(histories)}
        self.ngram_list = [(*history, word) for history in histories for word in words]
        self.edges = []
        for ngram in self.ngram_list:
            target = states[ngram[-self.n + 1 :] if self.n > 1 else ()]
            self.edges.append(Edge(states[ngram[:-1]], target, ngram[-1], self._score(ngram)))
        self.num_states = len(states)

    def _score(self, ngram: tuple[str, ...]) -> float:
        if self.ngram_scores is None:
            return math.log(len(self.lemma_list))
        if callable(self.ngram_scores):
            return self.ngram_scores(ngram)
        return self.ngram_scores.get(ngram, math.inf)
