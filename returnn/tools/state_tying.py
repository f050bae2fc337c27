"""
State tyings: from the labels of a data set and what was said, or made by a rule.

A data set has a label per frame. Without silence and repetitions, these are the labels of the states of the words'
pronunciation, one after the other, so it is known which state has which label.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy

from returnn.datasets.core.dataset import Dataset
from returnn.datasets.util.allophone import AllophoneState
from returnn.datasets.util.bliss import iter_bliss
from returnn.datasets.util.lexicon import Lexicon, PhoneSeqGenerator
from returnn.util.errors import UserError
from returnn.util.texts.counted import counted

_LABELS_KEY = "classes"


@dataclass
class LabelsOfStates:
    """Which labels the states of allophones had."""

    counts: dict[str, Counter[int]] = field(default_factory=dict)  # by state, as RASR writes it
    num_seqs: int = 0
    skipped: dict[str, str] = field(default_factory=dict)  # tag -> reason

    def add(self, tag: str, states: Sequence[AllophoneState], labels: Sequence[int]) -> None:
        """
        :param tag: of the sequence
        :param states: of the pronunciation, without silence
        :param labels: of the frames, without silence
        """
        wanted = [label for label, _ in itertools.groupby(labels)]
        if len(wanted) != len(states):
            self.skipped[tag] = f"{counted(len(states), 'state')}, {counted(len(wanted), 'label')}"
            return
        self.num_seqs += 1
        for state, label in zip(states, wanted, strict=True):
            self.counts.setdefault(state.format(), Counter())[label] += 1

    def tying(self) -> dict[str, int]:
        """:return: state -> its most frequent label"""
        return {state: counts.most_common(1)[0][0] for state, counts in sorted(self.counts.items())}

    def num_ambiguous(self) -> int:
        """:return: states that had several labels"""
        return sum(len(counts) > 1 for counts in self.counts.values())


def labels_of_states(
    dataset: Dataset,
    texts: Mapping[str, str],
    generator: PhoneSeqGenerator,
    *,
    silence: int | None,
    show: Callable[[str, Sequence[AllophoneState], Sequence[int]], None],
) -> LabelsOfStates:
    """
    :param dataset: with a label per frame as "classes"
    :param texts: what was said, by tag
    :param generator: see `state_generator`
    :param silence: label of it
    :param show: is called with tag, states and labels
    :raises UserError: if there are no such labels, or no text
    """
    if _LABELS_KEY not in dataset.get_data_keys():
        raise UserError(f"{dataset.description}: it has no {_LABELS_KEY!r}, only {', '.join(dataset.get_data_keys())}.")
    found = LabelsOfStates()
    dataset.init_seq_order(1)
    seq_idx = 0
    while dataset.is_less_than_num_seqs(seq_idx):
        dataset.load_seqs(seq_idx, seq_idx + 1)
        tag = dataset.get_tag(seq_idx)
        if tag not in texts:
            raise UserError(f"option '--corpus': there is no segment {tag!r}, which the data set has.")
        states = _distinct(generator.generate_seq(texts[tag]))
        labels = [int(x) for x in numpy.asarray(dataset.get_data(seq_idx, _LABELS_KEY)) if int(x) != silence]
        show(tag, states, labels)
        found.add(tag, states, labels)
        seq_idx += 1
    return found


def texts_of_corpus(filename: str) -> dict[str, str]:
    """:return: text of each segment, by its name in full"""
    return {segment.name: segment.orth for segment in iter_bliss(filename)}


def state_generator(lexicon: str, *, num_states: int, context: int) -> PhoneSeqGenerator:
    """:return: gives the states of a text, each once, without silence, of the first pronunciation of each word"""
    return PhoneSeqGenerator(
        lexicon_file=lexicon,
        allo_num_states=num_states,
        allo_context_len=context,
        add_silence_beginning=0.0,
        add_silence_between_words=0.0,
        add_silence_end=0.0,
        repetition=0.0,
        silence_repetition=0.0,
        phon_pick_strategy="first",
    )


def states_of_words(generator: PhoneSeqGenerator, texts: Iterable[str]) -> list[AllophoneState]:
    """:return: all states that occur in some texts, in the order of their names"""
    states = {state.format(): state for text in texts for state in generator.generate_seq(text)}
    return [states[name] for name in sorted(states)]


def all_states(lexicon: Lexicon, *, num_states: int, context: int) -> Iterator[AllophoneState]:
    """:return: all that could occur, with every phone in every context, at all places of a word"""
    phones = sorted(lexicon.phonemes)
    free = [phone for phone in phones if lexicon.phonemes[phone]["variation"] != "none"]
    contexts = [()] + [c for size in range(1, context + 1) for c in itertools.product(free, repeat=size)]
    for phone in phones:
        own_contexts = contexts if phone in free else [()]
        for history, future, boundary in itertools.product(own_contexts, own_contexts, range(4)):
            for state in range(num_states if phone in free else 1):
                allophone = AllophoneState(id=phone, state=state)
                allophone.context_history, allophone.context_future = history, future
                allophone.boundary = boundary
                yield allophone


def tie(states: Iterable[AllophoneState], kind: str) -> dict[str, int]:
    """
    :param states: to be tied
    :param kind: one of `TYING_KINDS`
    :return: state -> class
    """
    key_of = TYING_KINDS[kind]
    classes: dict[tuple[object, ...], int] = {}
    return {state.format(): classes.setdefault(key_of(state), len(classes)) for state in states}


TYING_KINDS: dict[str, Callable[[AllophoneState], tuple[object, ...]]] = {
    "monophone": lambda state: (state.id, state.state),
    "monophone-no-state": lambda state: (state.id,),
    "monophone-eow": lambda state: (state.id, state.state, bool(state.boundary & 2)),
    "full": lambda state: (state.format(),),
}


def tying_text(tying: Mapping[str, int]) -> str:
    """:return: content of a file of a state tying"""
    return "".join(f"{state} {label}\n" for state, label in tying.items())


def _distinct(states: Sequence[AllophoneState]) -> list[AllophoneState]:
    return [state for state, _ in itertools.groupby(states)]
