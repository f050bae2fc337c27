"""
Vocabularies of `extern_data`: which labels they have, as far as models can tell one from another.

A vocabulary that was made anew may have the same size and other labels. Then a model fits still, and everything that it
says is wrong. So a training notes a digest of the labels, see `KnownData`, and other tasks compare it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from returnn.config import Config
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.util.texts.counted import counted


@dataclass(frozen=True)
class LabelsIdentity:
    """The labels of one data key, in their order."""

    num_labels: int
    content: str  # digest

    def difference(self, now: LabelsIdentity) -> str | None:
        """:return: why they are others now; None if they are not"""
        if self.num_labels != now.num_labels:
            return f"it had {counted(self.num_labels, 'label', ',')}, and has {now.num_labels:,}"
        return None if self.content == now.content else f"it has as many labels, {now.num_labels:,}, but other ones"


def labels_of_config(config: Config) -> dict[str, LabelsIdentity]:
    """:return: by key of `extern_data`: those that have a vocabulary"""
    extern_data = config.options.extern_data
    found = {}
    for key, template in extern_data.items() if isinstance(extern_data, Mapping) else ():
        vocab = template.get("vocab") if isinstance(template, Mapping) else getattr(template, "vocab", None)
        if isinstance(vocab, Mapping):
            vocab = Vocabulary.create_vocab(**vocab)
        if isinstance(vocab, Vocabulary):
            text = "\n".join(map(str, vocab.labels))
            found[key] = LabelsIdentity(vocab.num_labels, hashlib.sha256(text.encode("utf8", "replace")).hexdigest())
    return found
