"""`learning_curve.png`: scores, errors and learning rates over the epochs, as a picture. Needs matplotlib."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from returnn.config import Config
from returnn.engine.learning_rate_file import EpochData
from returnn.engine.report.epoch_table import score_keys
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.python.optional_import import import_optional
from returnn.util.system.picture import new_figure, save_figure

FILE_NAME = "learning_curve.png"
_MAX_PANELS = 6
_SECONDS_BETWEEN = 10.0


def learning_curve_filename(config: Config) -> str | None:
    """
    :param config: its option `learning_curve_file`; None there is for none
    :return: the picture; by default beside the learning rate file, or else beside the model files
    """
    if config.has("learning_curve_file"):
        return config.options.learning_curve_file or None
    beside = config.options.learning_rate_file or config.options.model
    return os.path.join(os.path.dirname(beside), FILE_NAME) if beside else None


class LearningCurve:
    """
    The picture of a training that runs.

    To draw it takes about a second, which can be more than an epoch of a small training: it is drawn after an epoch if
    that has not been done for ten seconds, and when the run ends.
    """

    def __init__(self, filename: str | None) -> None:
        """
        :param filename: of the picture; the type is that of its suffix; None: nothing is done
        """
        self._filename = filename
        self._drawn_at = time.monotonic()
        self._waiting: tuple[Mapping[int, EpochData], int | None] | None = None

    def update(self, epochs: Mapping[int, EpochData], *, best_epoch: int | None = None) -> None:
        """
        An epoch has ended.

        :param epochs: by number
        :param best_epoch: is marked
        """
        self._waiting = (epochs, best_epoch)
        if time.monotonic() - self._drawn_at >= _SECONDS_BETWEEN:
            self.finish()

    def finish(self) -> None:
        """
        Draws what is not drawn yet. A training goes on without the picture: if matplotlib is not there, or the file
        cannot be written, that is said once.
        """
        if not self._filename or self._waiting is None:
            return
        epochs, best_epoch = self._waiting
        self._waiting = None
        try:
            draw_learning_curve(self._filename, epochs, best_epoch=best_epoch)
        except UserError as exc:
            log.print_warning(" ".join(str(exc).split()))
        self._drawn_at = time.monotonic()


def draw_learning_curve(filename: str, epochs: Mapping[int, EpochData], *, best_epoch: int | None = None) -> None:
    """
    :param filename: of the picture; it is complete or as it was
    :param epochs: by number
    :param best_epoch: is marked
    :raises MissingPackageError: without matplotlib
    :raises UserError: if it cannot be written
    """
    finished = {epoch: data for epoch, data in sorted(epochs.items()) if data.error}
    panels = _panels(finished)
    figure = new_figure(7.0, 2.2 * (len(panels) + 1), needed_for=FILE_NAME)
    axes = figure.subplots(len(panels) + 1, 1, sharex=True, squeeze=False)[:, 0]
    for ax, (title, keys) in zip(axes, panels.items(), strict=False):
        for key in keys:
            _plot(ax, {epoch: data.error.get(key) for epoch, data in finished.items()}, label=key.partition("_")[0])
        ax.set_ylabel(title)
        ax.legend(loc="upper right")
    _plot(axes[-1], {epoch: data.learning_rate for epoch, data in finished.items()}, label="learning rate")
    axes[-1].set_ylabel("learning rate")
    axes[-1].set_xlabel("epoch")
    axes[-1].xaxis.get_major_locator().set_params(integer=True)
    for ax in axes:
        ax.grid(alpha=0.3)
        if best_epoch is not None:
            ax.axvline(best_epoch, color="gray", linestyle=":", linewidth=1)
    save_figure(figure, filename)


def _panels(epochs: Mapping[int, EpochData]) -> dict[str, list[str]]:
    """:return: for each kind of score its keys, one for each data set"""
    panels: dict[str, list[str]] = {}
    for key in score_keys(epochs):
        panels.setdefault(key.partition("_")[2] or key, []).append(key)
    return dict(list(panels.items())[:_MAX_PANELS])


def _plot(ax: Any, values: Mapping[int, Any], *, label: str) -> None:
    points = [(epoch, value) for epoch, value in values.items() if isinstance(value, (int, float))]
    marker = "." if len(points) <= 30 else None
    ax.plot([epoch for epoch, _ in points], [value for _, value in points], label=label, marker=marker)
    if points and min(value for _, value in points) > 0:
        _make_logarithmic(ax.set_yscale, ax.yaxis)


def _make_logarithmic(set_scale: Callable[[str], None], axis: Any) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, written as plain numbers."""
    ticker = import_optional("matplotlib.ticker", needed_for=FILE_NAME)
    set_scale("log")
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(ticker.NullFormatter())
