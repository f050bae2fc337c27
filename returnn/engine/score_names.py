"""
Names of scores, as the learning rate file has them: data set, kind, and name of the loss.

With PyTorch, all that a step marks is "dev_loss_NAME", also what is only an error; which ones are, the file has beside
them (`EpochData.as_error`). With TensorFlow, it is "dev_score_NAME" or "dev_error_NAME", and there is no name where
only one loss has that kind. Configs and files may have the one or the other: `find_score` finds each by both.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

_LOSS, _SCORE, _ERROR = "loss", "score", "error"
_FORM = re.compile(rf"(.+?)_({_LOSS}|{_SCORE}|{_ERROR})(?:_(.+))?")
EXP_SUFFIX = ":exp"  # behind the name of a loss: its exp


class _Name(NamedTuple):
    dataset: str
    word: str  # "score" or "error"; "loss" is one of both
    loss: str  # "" if it has no name

    def kind(self, errors: Collection[str]) -> str:
        """
        :param errors: names of losses that are only errors
        :return: "score" or "error"
        """
        if self.word != _LOSS:
            return self.word
        return _ERROR if self.loss in errors else _SCORE

    @property
    def distance_from_output(self) -> int:
        """The smaller it is, the more likely it is the main loss, where nothing else says which one that is."""
        if self.loss in ("", "output"):
            return 0
        return 1 if self.loss.startswith("output/") else 2

    def has_word_of(self, other: _Name) -> bool:
        """:return: whether both can be the same kind of score, by their words alone"""
        return self.word == other.word or _LOSS in (self.word, other.word)


def named_scores(dataset: str, means: Mapping[str, float], *, all_are_losses: bool) -> dict[str, float]:
    """
    :param dataset: such as "dev"
    :param means: by `loss:NAME` and `error:NAME`
    :param all_are_losses: how they are named, see above
    :return: for the learning rate file
    """
    result = {}
    for kind, word in ((_LOSS, _SCORE), (_ERROR, _ERROR)):
        of_kind = {key.partition(":")[2]: value for key, value in means.items() if key.startswith(f"{kind}:")}
        for loss, value in of_kind.items():
            if all_are_losses:
                key = f"{dataset}_{_LOSS}_{loss}"
            else:
                key = f"{dataset}_{word}_{loss}" if len(of_kind) > 1 else f"{dataset}_{word}"
            result[key] = value
    return result


def find_score(wanted: str, found: Iterable[str], errors: Collection[str] = ()) -> str | None:
    """
    :param wanted: name of a score, maybe as another backend has it, or without the name of its loss, or with it
    :param found: names that there are
    :param errors: names of losses that are only errors, if that is known
    :return: which one it is, if there is one
    """
    found = list(found)
    want = _parsed(wanted)
    if wanted in found or want is None:
        return wanted if wanted in found else None
    names = {key: name for key in sorted(found) if (name := _parsed(key)) and name.dataset == want.dataset}
    kind = want.kind(errors)
    if not want.loss:
        of_kind = [key for key, name in names.items() if name.kind(errors) == kind]
        return min(of_kind, key=lambda key: (names[key].distance_from_output, key), default=None)
    of_loss = [key for key, name in names.items() if name.loss == want.loss and name.has_word_of(want)]
    if of_loss:
        return min(of_loss, key=lambda key: names[key].kind(errors) != kind)
    nameless = [key for key, name in names.items() if not name.loss and name.has_word_of(want)]
    if errors:
        nameless = [key for key in nameless if names[key].kind(errors) == kind]
    return nameless[0] if len(nameless) == 1 else None


def default_scores(found: Iterable[str], errors: Collection[str] = ()) -> list[str]:
    """
    :param found: names that there are
    :param errors: names of losses that are only errors, if that is known
    :return: of these, the ones that decide which epoch is the best: those of "dev" before those of "train", losses
        before errors; the first one counts: that of the layer "output", or of one in it, if it has any
    """
    found = sorted(found)
    for dataset in ("dev", "train"):
        for kind in (_SCORE, _ERROR):
            names = {key: name for key in found if (name := _parsed(key)) and name.dataset == dataset}
            if keys := [key for key, name in names.items() if name.kind(errors) == kind]:
                return sorted(keys, key=lambda key: (names[key].distance_from_output, key))
    return found


def new_names(old: Iterable[str], new: Collection[str], errors: Collection[str]) -> dict[str, str]:
    """
    :param old: names in a file, maybe those that scores of PyTorch had in earlier versions
    :param new: names of now
    :param errors: names of losses that are only errors, of these
    :return: what scores with old names are called now
    """
    losses = {key: name for key in new if (name := _parsed(key)) and name.word == _LOSS}
    result = {}
    for key in old if losses else ():
        name = _parsed(key)
        if name is None or name.word == _LOSS:
            continue
        same = [
            new_key
            for new_key, other in losses.items()
            if (other.dataset, other.kind(errors)) == (name.dataset, name.word) and name.loss in ("", other.loss)
        ]
        if len(same) == 1:
            result[key] = same[0]
    return result


def loss_of_score(key: str) -> str | None:
    """:return: the name of the loss in that of a score, if there is one"""
    name = _parsed(key)
    return name.loss.removesuffix(EXP_SUFFIX) or None if name is not None else None


@functools.lru_cache(maxsize=1000)
def _parsed(key: str) -> _Name | None:
    found = _FORM.fullmatch(key)
    return None if found is None else _Name(found[1], found[2], found[3] or "")
