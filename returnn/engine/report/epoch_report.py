"""What a person gets after each epoch: the table of the last epochs in the log, and the learning curve as a picture."""

from __future__ import annotations

import sys

from returnn.config import Config
from returnn.engine.learning_rate_control import LearningRateControl
from returnn.engine.report.epoch_table import DURATION_KEY, epoch_table
from returnn.engine.report.learning_curve import LearningCurve, learning_curve_filename
from returnn.log import log
from returnn.util.system.terminal import terminal_size

_COLUMNS_OF_FILES = 120


def note_duration(control: LearningRateControl, epoch: int, duration_s: float) -> None:
    """
    :param control: keeps it, in its file too
    :param epoch: that was trained
    :param duration_s: of the training alone
    """
    control.epoch_data[epoch].meta[DURATION_KEY] = round(duration_s, 1)


class EpochReport:
    """Reports the epochs of a training."""

    def __init__(self, config: Config, control: LearningRateControl) -> None:
        """
        :param config: its option `learning_curve_file`
        :param control: knows the scores of all epochs
        """
        self._control = control
        self._curve = LearningCurve(learning_curve_filename(config))

    def epoch(self, epoch: int) -> None:
        """
        :param epoch: that has ended
        """
        best_epoch = self._control.get_last_best_epoch(last_epoch=epoch)
        if log.verbose[3]:
            columns = terminal_size()[0]
            table = epoch_table(
                self._control.epoch_data,
                best_epoch=best_epoch,
                measure=self._control.get_error_key(epoch),
                columns=columns if columns > 0 else _COLUMNS_OF_FILES,
                ascii_only=not (sys.stdout.encoding or "").lower().startswith("utf"),
            )
            print(table, end="", file=log.v3)
        self._curve.update(self._control.epoch_data, best_epoch=best_epoch)

    def finish(self) -> None:
        """The run ends: the picture is complete."""
        self._curve.finish()
