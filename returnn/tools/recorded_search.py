"""What `search_scores` recorded, to be shown: labels with the scores of their steps, and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy

from returnn.datasets.hdf import HDFDataset
from returnn.tools.search_scores import LABELS, REFERENCE, REFERENCE_SCORES, SCORES, SIZES_PREFIX
from returnn.util.errors import UserError
from returnn.util.system.picture import new_figure
from returnn.util.texts.counted import there_are

_BPE_MARK = "@@"


@dataclass(frozen=True)
class ScoredLabels:
    """A hypothesis."""

    labels: list[str]
    scores: numpy.ndarray  # (labels,), of each step alone, natural log
    ends: list[int]  # number of the frame behind each label, counted in labels or, with positions, in frames
    total: float  # of all steps, also of those that are not shown

    def merged(self) -> ScoredLabels:
        """:return: with subwords of byte pair encoding put together; their scores are added"""
        labels, scores, ends = [""], [0.0], [0]
        for label, score, end in zip(self.labels, self.scores, self.ends, strict=True):
            labels[-1] += label.removesuffix(_BPE_MARK)
            scores[-1] += float(score)
            ends[-1] = end
            if not label.endswith(_BPE_MARK):
                labels.append("")
                scores.append(0.0)
                ends.append(0)
        if not labels[-1]:
            labels, scores, ends = labels[:-1], scores[:-1], ends[:-1]
        return ScoredLabels(labels, numpy.array(scores), ends, self.total)

    def without(self, label: str) -> ScoredLabels:
        """:return: without the last label, if it is this one"""
        if not self.labels or self.labels[-1] != label:
            return self
        return ScoredLabels(self.labels[:-1], self.scores[:-1], self.ends[:-1], self.total)


@dataclass(frozen=True)
class RecordedSeq:
    """One sequence."""

    tag: str
    best: ScoredLabels
    reference: ScoredLabels | None
    weights: Mapping[str, numpy.ndarray]  # by name of the layer

    def map(self, function: Callable[[ScoredLabels], ScoredLabels]) -> RecordedSeq:
        """:return: with both hypotheses changed"""
        reference = None if self.reference is None else function(self.reference)
        return RecordedSeq(self.tag, function(self.best), reference, self.weights)


@dataclass(frozen=True)
class Positions:
    """Frames that labels belong to, from a choice which picks them."""

    choice: str
    factor: int = 1  # frames of the input for one of the choice
    extra_frames: int = 0


def recorded_seqs(
    filename: str, *, label_names: Sequence[str] | None, positions: Positions | None
) -> Iterator[RecordedSeq]:
    """
    :param filename: of the HDF file
    :param label_names: by index; None: numbers
    :param positions: of the labels; None: each label is a step
    :raises UserError: if it is another file
    """
    with h5py.File(filename) as file:
        known = list(file.get("targets/data", ()))
    if SCORES not in known:
        raise UserError(f"HDF file {filename!r}: it has no 'scores', so debug-dump-search-scores did not write it.")
    if positions is not None and positions.choice not in known:
        raise UserError(f"option '--pos_choice': the file has no {positions.choice!r}.\n  It has: {', '.join(known)}.")
    dataset = HDFDataset([filename])
    dataset.init_seq_order(1)
    for i in range(dataset.num_seqs):
        dataset.load_seqs(i, i + 1)
        data = {key: dataset.get_data(i, key) for key in [LABELS, *known]}
        weights = {
            key.removeprefix(SIZES_PREFIX): data[key.removeprefix(SIZES_PREFIX)].reshape(tuple(sizes))
            for key, sizes in data.items()
            if key.startswith(SIZES_PREFIX)
        }
        frames = None
        if positions is not None:
            frames = [int(x) * positions.factor + positions.extra_frames for x in data[positions.choice]]
        reference = None
        if REFERENCE in data:
            reference = _scored(data[REFERENCE], data[REFERENCE_SCORES], label_names, None)
        best = _scored(data[LABELS], data[SCORES], label_names, frames)
        yield RecordedSeq(dataset.get_tag(i), best, reference, weights)


def _scored(
    labels: numpy.ndarray, totals: numpy.ndarray, names: Sequence[str] | None, frames: list[int] | None
) -> ScoredLabels:
    size = min(len(labels), len(totals))
    steps = numpy.diff(totals[:size].astype("float64"), prepend=0.0)
    texts = [str(int(label)) if names is None else _name(names, int(label)) for label in labels[:size]]
    return ScoredLabels(texts, steps, (frames or list(range(1, size + 1)))[:size], float(steps.sum()))


def _name(names: Sequence[str], label: int) -> str:
    if label >= len(names):
        raise UserError(f"option '--lexicon': {there_are(len(names), 'label')}, but the file has {label}.")
    return names[label]


def describe_seq(seq: RecordedSeq) -> Iterator[str]:
    """:return: lines"""
    yield f"{seq.tag}:"
    for name, hyp in (("best", seq.best), ("reference", seq.reference)):
        if hyp is not None:
            steps = " ".join(f"{label}({score:.3f})" for label, score in zip(hyp.labels, hyp.scores, strict=True))
            yield f"  {name} {hyp.total:.3f}: {steps}"
    if seq.reference is not None and seq.reference.labels != seq.best.labels:
        kind = "model" if seq.best.total > seq.reference.total else "search"
        yield f"  error of the {kind}: the reference has the {'lower' if kind == 'model' else 'higher'} score"


def draw_seq(seq: RecordedSeq, alignment: Sequence[tuple[int, int, str]]) -> Any:
    """
    :param seq: what to draw
    :param alignment: first frame, frame behind, phone; may be empty
    :return: `matplotlib.figure.Figure`
    """
    num = 1 + len(seq.weights)
    figure = new_figure(max(6.0, 0.4 * len(seq.best.labels)), 2.5 * num, needed_for="option '--plot'")
    axes = figure.subplots(num, 1, squeeze=False)[:, 0]
    axes[0].set_title(seq.tag)
    axes[0].step(seq.best.ends, seq.best.scores, where="pre", label="best")
    for label, score, end in zip(seq.best.labels, seq.best.scores, seq.best.ends, strict=True):
        axes[0].annotate(label, (end, score), rotation=60)
    if seq.reference is not None:
        axes[0].step(seq.reference.ends, seq.reference.scores, where="pre", linestyle=":", label="reference")
    for start, end, phone in alignment:
        axes[0].axvline(start, linewidth=0.3)
        axes[0].annotate(phone, ((start + end) / 2, axes[0].get_ylim()[0]), fontsize=6)
    axes[0].set_ylabel("score of the step")
    axes[0].legend()
    for axis, (name, weights) in zip(axes[1:], seq.weights.items(), strict=True):
        shown = weights.reshape(weights.shape[0], -1, *weights.shape[2:]) if weights.ndim > 2 else weights
        shown = shown.mean(axis=tuple(range(2, shown.ndim))) if shown.ndim > 2 else shown
        axis.imshow(shown, aspect="auto", origin="lower", interpolation="nearest")
        axis.set_ylabel(name)
    return figure
