"""
Texts that hardly fit to their vocabulary, such as lower case and upper case, or two languages.

What is missing becomes the unknown label: a model learns to say it, with an error near 0, and nothing fails. Of words,
a vocabulary lacks some in most texts; parts of words and characters make nearly all texts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Container, Sequence

from returnn.log import log
from returnn.util.texts.counted import counted

_USUAL_PARTS = {False: ((100, 0.5),), True: ((100, 0.2), (1000, 0.02))}  # of so many labels, this part is unknown
_NUM_EXAMPLES = 5


def hint_of_other_form(label: str, known: Container[str]) -> str:
    """
    :param label: which is not known
    :param known: those of the vocabulary
    :return: for people, if it is known with its accents written in another way, which looks the same; or else ""
    """
    for form in () if label.isascii() else ("NFC", "NFD", "NFKC"):
        if unicodedata.normalize(form, label) in known:
            return f"It has it in another Unicode form, {form}: unicodedata.normalize({form!r}, text) makes that."
    return ""


def hint_of_characters(label: str, known: Collection[str]) -> str:
    """
    :param label: which is not known
    :param known: those of the vocabulary
    :return: for people, if it is a word, but most labels have one character, all but special ones such as "</s>"
    """
    is_of_characters = sum(len(str(name)) == 1 for name in known) >= max(len(known) - 4, 5)
    if len(label) < 2 or not is_of_characters:
        return ""
    return 'Its labels are single characters: "class": "CharacterTargets" cuts texts into these.'


class UnknownLabels:
    """Counts what the first texts have that a vocabulary has not, and warns once."""

    def __init__(self, *, vocabulary: str, unknown_label: str, num_labels: int, has_parts_of_words: bool) -> None:
        """
        :param vocabulary: how it is called in messages
        :param unknown_label: of the vocabulary
        :param num_labels: of the vocabulary
        :param has_parts_of_words: whether its labels are put together to words
        """
        self._vocabulary = vocabulary
        self._unknown_label = unknown_label
        self._num_labels = num_labels
        self._limits = list(_USUAL_PARTS[has_parts_of_words])
        self._num_seen = 0
        self._num_unknown = 0
        self._has_other_form = False
        self._examples: dict[str, None] = {}  # a set in order

    @property
    def is_counting(self) -> bool:
        """Whether texts still matter."""
        return bool(self._limits)

    def add(self, labels: Sequence[str], *, known: Collection[str]) -> None:
        """
        :param labels: of a text
        :param known: those of the vocabulary
        """
        if not self.is_counting:
            return
        unknown = [label for label in labels if label not in known]
        self._num_seen += len(labels)
        self._num_unknown += len(unknown)
        if not self._has_other_form:
            self._look_for_other_form(unknown, known)
        if len(self._examples) < _NUM_EXAMPLES:
            self._examples.update(dict.fromkeys(unknown))
        while self._limits and self._num_seen >= self._limits[0][0]:
            _, usual = self._limits.pop(0)
            if self._num_unknown > usual * self._num_seen:
                self._warn(known)
                self._limits.clear()

    def _look_for_other_form(self, unknown: Sequence[str], known: Container[str]) -> None:
        for label in unknown:
            if hint := hint_of_other_form(label, known):
                text = f"{label!r} of the texts becomes {self._unknown_label!r}"
                log.print_warning(f"{self._vocabulary}: {text}. {hint}")
                self._has_other_form = True
                return

    def _warn(self, known: Collection[str]) -> None:
        question = f"It has {counted(self._num_labels, 'label')}; is it the one of these texts?"
        hint = next(filter(None, (hint_of_characters(label, known) for label in self._examples)), question)
        examples = ", ".join(f"{label!r:.50}" for label in list(self._examples)[:_NUM_EXAMPLES])
        log.print_warning(
            f"{self._vocabulary} has not {self._num_unknown} of the first {self._num_seen} labels of the texts "
            f"({self._num_unknown / self._num_seen:.1%}): {examples}. Each of them becomes {self._unknown_label!r}. "
            f"{hint}"
        )
