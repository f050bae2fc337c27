"""The automaton of a sentence: over its words or letters, for CTC, and for the auto segmentation criterion (ASG)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.compat.fsa.edge import Edge
from returnn.util.errors import UserError


class Graph:
    """A sentence, and the automata that were made of it."""

    def __init__(self, lemma: str | Sequence[str]) -> None:
        """
        :param lemma: words, separated by spaces, or as a list
        """
        self.filename: str | None = None
        self.lemma = lemma if isinstance(lemma, str) else " ".join(lemma)
        self.lem_list = self.lemma.split() if isinstance(lemma, str) else list(lemma)
        self.lem_edges = _chain(self.lem_list)
        self.edges: list[Edge] = []
        self.num_states = -1
        self.edges_ctc: list[Edge] = []
        self.num_states_ctc = -1
        self.edges_asg: list[Edge] = []
        self.num_states_asg = -1
        self.edges_hmm: list[Edge] = []
        self.num_states_hmm = -1
        self.edges_word: list[Edge] = []
        self.num_states_word = -1

    def is_empty(self) -> bool:
        """:return: whether there is no word"""
        return not self.lem_list

    @staticmethod
    def make_single_state_graph(num_states: int, edges: Sequence[Edge]) -> tuple[int, list[Edge]]:
        """
        :param num_states: number of states
        :param edges: between them
        :return: 1, and the same edges, each of them from the only state into it
        """
        single: dict[Any, Edge] = {}
        for edge in edges:
            single.setdefault(edge.label, Edge(0, 0, edge.label, edge.weight))
        return min(num_states, 1), list(single.values())


def _chain(labels: Sequence[Any]) -> list[Edge]:
    return [Edge(i, i + 1, label) for i, label in enumerate(labels)]


def _letters(fsa: Graph, num_labels: int, label_conversion: bool) -> list[Any]:
    """:return: letters of all words; as numbers below `num_labels` if that is wanted"""
    letters = [letter for word in fsa.lem_list for letter in word]
    if not label_conversion:
        return letters
    numbers = [ord(letter) for letter in letters]
    if any(number >= num_labels for number in numbers):
        raise UserError(f"letter {chr(max(numbers))!r} is number {max(numbers)}, but there are {num_labels} labels.")
    return numbers


class Ctc:
    """The automaton of CTC over the letters of a sentence."""

    def __init__(self, fsa: Graph, num_labels: int = 256, label_conversion: bool = False) -> None:
        """
        :param fsa: the sentence, which gets `edges_ctc` and `num_states_ctc`
        :param num_labels: number of labels without blank, whose number is that
        :param label_conversion: labels are numbers; otherwise letters, and `Edge.BLANK`
        """
        self.fsa = fsa
        self.num_labels = num_labels
        self.label_conversion = label_conversion
        self.final_states: list[int] = []

    def run(self) -> None:
        """Makes the automaton. State `2 * i` is the one with `i` letters and then blank, or at the beginning."""
        letters = _letters(self.fsa, self.num_labels, self.label_conversion)
        blank = self.num_labels if self.label_conversion else Edge.BLANK
        edges = []
        for i in range(len(letters) + 1):
            edges.append(Edge(2 * i, 2 * i, blank))
            if i > 0:
                edges.append(Edge(2 * i - 1, 2 * i - 1, letters[i - 1]))
                edges.append(Edge(2 * i - 1, 2 * i, blank))
            if i < len(letters):
                edges.append(Edge(2 * i, 2 * i + 1, letters[i]))
            if 0 < i < len(letters) and letters[i - 1] != letters[i]:
                edges.append(Edge(2 * i - 1, 2 * i + 1, letters[i]))
        last = 2 * len(letters)
        self.final_states = [last] if not letters else [last - 1, last]
        self.fsa.edges_ctc = sorted(edges)
        self.fsa.num_states_ctc = last + 1


class Asg:
    """
    The automaton of Collobert et al. 2016, "Wav2Letter": without blank. Letters that are there several times in a row
    become one, and a label which says how often.
    """

    def __init__(
        self, fsa: Graph, num_labels: int = 256, asg_repetition: int = 2, label_conversion: bool = False
    ) -> None:
        """
        :param fsa: the sentence, which gets `edges_asg` and `num_states_asg`
        :param num_labels: number of labels without those for repetitions, which are the next ones
        :param asg_repetition: a letter can be there so many times for each label
        :param label_conversion: labels are numbers; otherwise letters, and numbers for repetitions
        """
        if asg_repetition < 2:
            raise UserError(f"asg_repetition has to be at least 2, not {asg_repetition}.")
        self.fsa = fsa
        self.num_labels = num_labels
        self.asg_repetition = asg_repetition
        self.label_conversion = label_conversion
        self.separator = False

    def run(self) -> None:
        """Makes the automaton: a chain, in which each label can stay."""
        labels: list[Any] = []
        letters = _letters(self.fsa, self.num_labels, self.label_conversion)
        start = 0
        while start < len(letters):
            end = start + 1
            while end < len(letters) and letters[end] == letters[start] and end - start < self.asg_repetition:
                end += 1
            labels.append(letters[start])
            if end - start > 1:
                labels.append(self.num_labels + end - start - 2 if self.label_conversion else end - start)
            start = end
        loops = [Edge(i + 1, i + 1, label) for i, label in enumerate(labels)]
        self.fsa.edges_asg = sorted(_chain(labels) + loops)
        self.fsa.num_states_asg = len(labels) + 1
