"""
Pictures of what is in a data set: audio, features, the labels under them, and how long its sequences are.

A picture is made of panels, one above the other. Labels of each frame stand below their frames; others, such as those
of a text, stand at equal distances, as nothing is known of when they are.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from returnn.datasets.core.dataset import Dataset
from returnn.datasets.util.signal import stft
from returnn.util.system.picture import new_figure, save_figure
from returnn.util.texts.counted import counted

_WIDTH = 12.0  # in inches, as the heights below
_TITLE_HEIGHT = 0.6
_MAX_LABELS = 60  # of a sequence, so that they can be read; more are a curve of their numbers
_MAX_CHARS = 120  # of labels side by side; more stand upright
_MIN_SAMPLES = 1024  # of audio, so that a spectrogram says something
_WINDOW = 512  # samples of a frame of the spectrogram
_FRAMES = 1000  # of a spectrogram, about
_DYNAMIC_RANGE_DB = 80.0
_SUFFIXES = (".png", ".svg", ".pdf", ".jpg", ".jpeg")


@dataclass(frozen=True)
class Panel:
    """A part of a picture: what draws it, on axes of matplotlib."""

    name: str
    draw: Callable[[Any], None]
    height: float = 1.8


@dataclass(frozen=True)
class Section:
    """What belongs together, such as a sequence: below its title."""

    title: str
    panels: Sequence[Panel]

    @property
    def height(self) -> float:
        """In inches."""
        return _TITLE_HEIGHT + sum(panel.height for panel in self.panels)


def section_of_seq(dataset: Dataset, seq_idx: int, keys: Sequence[str]) -> Section:
    """
    :param dataset: with this sequence loaded
    :param seq_idx: its number
    :param keys: data keys that are drawn
    :return: audio and features, then labels
    """
    data = {key: numpy.atleast_1d(dataset.get_data(seq_idx, key)) for key in keys}
    labels = [key for key in keys if _are_labels(dataset, key, data[key])]
    others = [key for key in keys if key not in labels]
    panels = [panel for key in others for panel in _panels_of_frames(key, data[key])]
    frames = {len(data[key]) for key in others}
    panels += [
        _panel_of_labels(key, data[key], dataset.labels.get(key), of_frames=len(data[key]) in frames) for key in labels
    ]
    return Section(dataset.get_tag(seq_idx), panels)


def section_of_lengths(lengths: dict[str, list[int]]) -> Section:
    """
    :param lengths: of the sequences, by data key
    :return: a histogram for each key
    """
    return Section("lengths of sequences", [_panel_of_lengths(key, values) for key, values in lengths.items()])


def write_sections(filename: str, sections: Sequence[Section]) -> None:
    """
    :param filename: of the picture; its suffix is the format
    :param sections: one below the other
    :raises MissingPackageError: without matplotlib
    """
    heights = [section.height for section in sections]
    figure = new_figure(_WIDTH, sum(heights), needed_for="pictures of data")
    parts = figure.subfigures(len(sections), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, section in zip(parts, sections, strict=True):
        part.suptitle(section.title, parse_math=False)
        ratios = [panel.height for panel in section.panels]
        all_axes = part.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0] if ratios else ()
        for axes, panel in zip(all_axes, section.panels, strict=True):
            axes.set_ylabel(panel.name)
            panel.draw(axes)
    save_figure(figure, filename)


@dataclass
class DataPictures:
    """
    Collects sequences, and then writes what they look like.

    :param path: a file, for one picture of all, or a folder, with a picture for each sequence and one of the lengths
    :param keys: data keys that are drawn
    :param num_seqs: how many sequences are drawn, from the first on. The lengths are those of all
    """

    path: str
    keys: Sequence[str]
    num_seqs: int
    _seqs: dict[int, Section] = field(default_factory=dict)
    _lengths: dict[str, list[int]] = field(default_factory=dict)

    def add(self, dataset: Dataset, seq_idx: int) -> None:
        """
        :param dataset: with this sequence loaded
        :param seq_idx: its number
        """
        for key in self.keys:
            data = dataset.get_data(seq_idx, key)
            if data.ndim > 0:
                self._lengths.setdefault(key, []).append(len(data))
        if len(self._seqs) < self.num_seqs:
            self._seqs[seq_idx] = section_of_seq(dataset, seq_idx, self.keys)

    def write(self) -> list[str]:
        """:return: names of the files. None without sequences"""
        pictures = {f"{seq_idx}.png": [section] for seq_idx, section in self._seqs.items()}
        if self._lengths:
            pictures["lengths.png"] = [section_of_lengths(self._lengths)]
        if self.path.lower().endswith(_SUFFIXES):
            files = {self.path: list(itertools.chain(*pictures.values()))} if pictures else {}
        else:
            files = {os.path.join(self.path, name): sections for name, sections in pictures.items()}
        for filename, sections in files.items():
            write_sections(filename, sections)
        return list(files)


def _are_labels(dataset: Dataset, key: str, data: numpy.ndarray) -> bool:
    return data.ndim == 1 and (data.dtype.kind in "OSU" or dataset.is_data_sparse(key))


def _panels_of_frames(key: str, data: numpy.ndarray) -> list[Panel]:
    """:return: of audio or another curve, if there is one value per frame; else of features"""
    features = data.reshape(len(data), -1) if len(data) else numpy.zeros((0, 1))
    if features.shape[1] != 1:
        return [Panel(key, lambda axes: _draw_features(axes, features))]
    curve = features[:, 0].astype("float32")
    panels = [Panel(key, lambda axes: _draw_curve(axes, curve), height=1.4)]
    if len(curve) >= _MIN_SAMPLES:
        panels.append(Panel("frequency /\nsample rate", lambda axes: _draw_spectrogram(axes, curve)))
    return panels


def _draw_features(axes: Any, features: numpy.ndarray) -> None:
    extent = (0, max(len(features), 1), -0.5, features.shape[1] - 0.5)
    axes.imshow(features.T, aspect="auto", origin="lower", interpolation="nearest", extent=extent)


def _draw_curve(axes: Any, curve: numpy.ndarray) -> None:
    axes.plot(numpy.arange(len(curve)) + 0.5, curve, linewidth=0.6)
    axes.set_xlim(0, max(len(curve), 1))


def _draw_spectrogram(axes: Any, audio: numpy.ndarray) -> None:
    step = max(_WINDOW // 4, len(audio) // _FRAMES)
    decibel = 20 * numpy.log10(numpy.abs(stft(audio, n_fft=_WINDOW, step=step)) + 1e-10)
    loudest = decibel.max()
    extent = (0, len(audio), 0.0, 0.5)
    axes.imshow(decibel.T, aspect="auto", origin="lower", extent=extent, vmin=loudest - _DYNAMIC_RANGE_DB, vmax=loudest)


def _panel_of_labels(key: str, labels: numpy.ndarray, names: Sequence[str] | None, *, of_frames: bool) -> Panel:
    """
    :param key: of the data
    :param labels: (frames,), or (labels,)
    :param names: of the labels
    :param of_frames: whether there is one for each frame above; equal ones that follow each other are then one
    """
    runs = [(label, len(list(group))) for label, group in itertools.groupby(labels.tolist())] if of_frames else []
    parts = runs or [(label, 1) for label in labels.tolist()]
    if len(parts) > _MAX_LABELS and labels.dtype.kind not in "OSU":
        return Panel(key, lambda axes: _draw_label_curve(axes, labels), height=1.0)
    texts = [_name_of(label, names) for label, _ in parts]
    is_upright = sum(map(len, texts)) > _MAX_CHARS
    height = 0.5 + (0.09 * max(map(len, texts), default=0) if is_upright else 0.0)
    return Panel(key, lambda axes: _draw_labels(axes, texts, [n for _, n in parts], is_upright), height=height)


def _name_of(label: Any, names: Sequence[str] | None) -> str:
    is_known = names is not None and isinstance(label, int) and 0 <= label < len(names)
    return names[label] if names is not None and is_known else str(label)


def _draw_label_curve(axes: Any, labels: numpy.ndarray) -> None:
    axes.stairs(labels, baseline=None)
    axes.set_xlim(0, len(labels))


def _draw_labels(axes: Any, texts: Sequence[str], num_frames: Sequence[int], is_upright: bool) -> None:
    end = 0
    for i, (text, num) in enumerate(zip(texts, num_frames, strict=True)):
        axes.axvspan(end, end + num, color=("#dbe7f3", "#f3ead6")[i % 2])
        rotation = 90 if is_upright else 0
        axes.text(end + num / 2, 0.5, text, ha="center", va="center", rotation=rotation, fontsize=8, parse_math=False)
        end += num
    axes.set(xlim=(0, max(end, 1)), ylim=(0, 1), yticks=())


def _panel_of_lengths(key: str, lengths: Sequence[int]) -> Panel:
    mean = sum(lengths) / len(lengths)
    text = f"{counted(len(lengths), 'sequence')}, {min(lengths)} to {max(lengths)}, mean {mean:.1f}"

    def draw(axes: Any) -> None:
        axes.hist(lengths, bins=min(50, max(lengths) - min(lengths) + 1))
        axes.set_title(text, fontsize=9)

    return Panel(key, draw, height=2.0)
