"""From the states of alignments to labels."""

from __future__ import annotations

from typing import TextIO

from returnn.datasets.util.allophone import StateTying
from returnn.util.errors import UserError
from returnn.util.files.text_file import iter_lines
from returnn.util.texts.counted import counted


def read_allophones(filename: str) -> list[str]:
    """
    :param filename: an allophone per line; lines that begin with "#" are comments
    :return: by index
    """
    return [line.strip() for line in iter_lines(filename) if line.strip() and not line.startswith("#")]


class AllophoneLabeling:
    """From allophones and states of alignments to labels: classes of a state tying, or phones."""

    def __init__(
        self,
        silence_phone: str,
        allophone_file: str,
        phoneme_file: str | None = None,
        state_tying_file: str | None = None,
        verbose_out: TextIO | None = None,
    ):
        """
        :param silence_phone: e.g. "si"
        :param allophone_file: an allophone per line
        :param phoneme_file: a phone per line; the labels are then phones
        :param state_tying_file: lines `ALLOPHONE.STATE CLASS`; the labels are then classes
        :param verbose_out: file to write to how many of each there are
        :raises UserError: if there is none or both of the last two, or they do not fit
        """
        if (phoneme_file is None) == (state_tying_file is None):
            raise UserError("allophone labeling: give one of the options 'phoneme_file' and 'state_tying_file'.")
        self.allophone_file = allophone_file
        self.allophones = read_allophones(allophone_file)
        self.allophones_idx = {allophone: i for i, allophone in enumerate(self.allophones)}
        self.sil_allo_state_id = self.allophones_idx.get(f"{silence_phone}{{#+#}}@i@f")
        if self.sil_allo_state_id is None:
            raise UserError(f"allophone labeling: {allophone_file!r} has no silence '{silence_phone}{{#+#}}@i@f'.")
        self.state_tying: dict[str, int] | None = None
        self.phoneme_idxs: dict[str, int] | None = None
        if state_tying_file:
            tying = StateTying(state_tying_file)
            self.state_tying = tying.allo_map
            self.num_labels = tying.num_classes
        else:
            phonemes = read_allophones(str(phoneme_file))
            self.phoneme_idxs = {phoneme: i for i, phoneme in enumerate(phonemes)}
            self.num_labels = len(phonemes)
        self.sil_label_idx = self.get_label_idx(self.sil_allo_state_id, 0)
        if verbose_out is not None:
            count = f"{counted(len(self.allophones), 'allophone')}, {counted(self.num_labels, 'label')}"
            print(f"{allophone_file}: {count}, {self.sil_label_idx} is silence", file=verbose_out)

    def get_label_idx(self, allo_idx: int, state_idx: int) -> int:
        """
        :param allo_idx: of the allophone
        :param state_idx: in it
        :return: label
        :raises UserError: if there is none
        """
        allophone = self.allophones[allo_idx]
        if self.state_tying is not None:
            name, labels = f"{allophone}.{state_idx}", self.state_tying
        else:
            name, labels = allophone.partition("{")[0], self.phoneme_idxs or {}
        if name not in labels:
            raise UserError(f"allophone labeling: there is no label for {name!r}.")
        return labels[name]

    def get_label_idx_by_allo_state_idx(self, allo_state_idx: int) -> int:
        """
        :param allo_state_idx: number of the allophone plus number of allophones times the state
        :return: label
        """
        state_idx, allo_idx = divmod(allo_state_idx, len(self.allophones))
        return self.get_label_idx(allo_idx, state_idx)
