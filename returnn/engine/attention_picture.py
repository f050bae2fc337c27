"""Attention weights of one sequence as a picture. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from returnn.util.system.picture import new_figure, save_figure

_MAX_LABELS = 60  # of an axis, so that they can be read
_INCHES_PER_LABEL = 0.3
_INCHES_PER_CHAR = 0.09
_MAX_CHARS_SIDE_BY_SIDE = 2  # longer labels below the picture stand upright, so that they do not overlap


@dataclass(frozen=True)
class PictureAxis:
    """One side of a picture."""

    name: str  # e.g. "letters"
    labels: Sequence[str] | None  # of each position; None: they are numbered


def draw_attention(
    filename: str, weights: numpy.ndarray, *, source: PictureAxis, target: PictureAxis, title: str = ""
) -> None:
    """
    :param filename: of the picture; its suffix is the format
    :param weights: (target, source), or (head, target, source), from 0 to 1
    :param source: what is attended to, from left to right
    :param target: where from, from top to bottom
    :param title: above
    :raises MissingPackageError: without matplotlib
    :raises UserError: if it cannot be written
    """
    heads = weights if weights.ndim == 3 else weights[None]
    num_heads, num_target, num_source = heads.shape
    width = 1.5 + _INCHES_PER_LABEL * min(num_source, _MAX_LABELS) + _room_for_labels(target)
    height = 1.2 + _INCHES_PER_LABEL * min(num_target, _MAX_LABELS) + _room_for_labels(source)
    figure = new_figure(max(width, 3.0) * num_heads, max(height, 2.5), needed_for="pictures of attention")
    for i, ax in enumerate(figure.subplots(1, num_heads, squeeze=False)[0]):
        ax.imshow(heads[i], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        is_short = _longest(source) <= _MAX_CHARS_SIDE_BY_SIDE
        _label(ax.set_xlabel, ax.set_xticks, source, num_source, rotation=0 if is_short else 90)
        _label(ax.set_ylabel, ax.set_yticks, target, num_target)
        if num_heads > 1:
            ax.set_title(f"head {i}")
    figure.suptitle(title, parse_math=False)
    save_figure(figure, filename)


def _longest(axis: PictureAxis) -> int:
    """:return: number of characters"""
    return max(map(len, axis.labels or ()), default=0)


def _room_for_labels(axis: PictureAxis) -> float:
    """:return: inches for labels that are longer than usual"""
    return _INCHES_PER_CHAR * max(_longest(axis) - _MAX_CHARS_SIDE_BY_SIDE, 0)


def _label(set_name: Any, set_ticks: Any, axis: PictureAxis, size: int, **text_options: Any) -> None:
    set_name(axis.name)
    if axis.labels is not None and size <= _MAX_LABELS:
        set_ticks(range(size), list(axis.labels), **text_options)
