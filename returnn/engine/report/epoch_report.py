"""What a person gets after each epoch: the table of the last epochs in the log, and the learning curve as a picture."""

from __future__ import annotations

import sys

from returnn.config import Config
from returnn.engine.learning_rate_control import LearningRateControl
from returnn.engine.report.epoch_table import DURATION_KEY, epoch_table
from returnn.engine.report.learning_curve import learning_curve_filename, update_learning_curve
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


def report_epoch(config: Config, control: LearningRateControl, epoch: int) -> None:
    """
    :param config: its option `learning_curve_file`
    :param control: knows the scores of all epochs
    :param epoch: that has ended
    """
    best_epoch = control.get_last_best_epoch(last_epoch=epoch)
    if log.verbose[3]:
        columns = terminal_size()[0]
        table = epoch_table(
            control.epoch_data,
            best_epoch=best_epoch,
            measure=control.get_error_key(epoch),
            columns=columns if columns > 0 else _COLUMNS_OF_FILES,
            ascii_only=not (sys.stdout.encoding or "").lower().startswith("utf"),
        )
        print(table, end="", file=log.v3)
    update_learning_curve(learning_curve_filename(config), control.epoch_data, best_epoch=best_epoch)
