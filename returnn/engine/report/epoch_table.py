"""The table after each epoch: learning rates, scores and durations of the last epochs, the best one marked."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from returnn.engine.learning_rate_file import EpochData
from returnn.engine.score_names import EXP_SUFFIX
from returnn.util.texts.counted import counted
from returnn.util.texts.human_readable import hms

DURATION_KEY = "epoch_train_time_secs"  # of `EpochData.meta`
_MAX_EPOCHS = 10
_DATASET_ORDER = ("train", "dev", "eval")
BEST_MARK = "*"
_CONSOLE = Console(file=io.StringIO(), width=10_000, color_system=None)  # to measure


def epoch_table(
    epochs: Mapping[int, EpochData],
    *,
    best_epoch: int | None,
    measure: str | None = None,
    columns: int = 120,
    ascii_only: bool = False,
) -> str:
    """
    :param epochs: by number
    :param best_epoch: is marked, and shown also if it is not one of the last
    :param measure: what makes an epoch the best, e.g. "dev_error"
    :param columns: scores are left out, the last ones first, until the table is not wider; how many, it says
    :param ascii_only: whether lines are made of ASCII characters
    :return: the text, with a line feed at the end
    """
    all_keys = keys = score_keys(epochs, measure=measure)
    while True:
        table = _table(epochs, keys, best_epoch, box.ASCII if ascii_only else box.SIMPLE_HEAD)
        if not keys or Measurement.get(_CONSOLE, _CONSOLE.options, table).minimum <= columns:
            break
        keys = keys[:-1]
    captions = [] if best_epoch is None else [f"{BEST_MARK} best {(measure or 'score').replace('_', ' ')}"]
    if len(keys) < len(all_keys):
        captions.append(f"{counted(len(all_keys) - len(keys), 'other score')} left out, for the width")
    table.caption = "; ".join(captions) or None
    return _render(table, columns)


def score_keys(epochs: Mapping[int, EpochData], *, measure: str | None = None) -> list[str]:
    """
    :param epochs: by number
    :param measure: comes first, then the same of other data sets
    :return: the names of all scores that are numbers, by kind and data set. Those that follow from others come last
    """
    keys = {key for data in epochs.values() for key, value in data.error.items() if isinstance(value, (int, float))}
    kind_of_measure = (measure or "").partition("_")[2]

    def position(key: str) -> tuple[bool, bool, bool, str, int, str]:
        dataset, _, kind = key.partition("_")
        order = _DATASET_ORDER.index(dataset) if dataset in _DATASET_ORDER else len(_DATASET_ORDER)
        is_derived = kind.endswith(EXP_SUFFIX)
        return key != measure, kind != kind_of_measure, is_derived, kind, order, dataset

    return sorted(keys, key=position)


def _shown_epochs(epochs: Mapping[int, EpochData], best_epoch: int | None) -> list[int]:
    """:return: the last ones that have scores, and the best one before them"""
    finished = [epoch for epoch in sorted(epochs) if epochs[epoch].error]
    last = finished[-_MAX_EPOCHS:]
    return [best_epoch, *last] if best_epoch in finished and best_epoch not in last else last  # type: ignore[list-item]


def _table(epochs: Mapping[int, EpochData], keys: Sequence[str], best_epoch: int | None, lines: box.Box) -> Table:
    table = Table(box=lines, caption_justify="left")
    for header in ["epoch", "learning_rate", *keys, "time"]:
        table.add_column(header.replace("_", "\n", 1), justify="right", no_wrap=True)
    for epoch in _shown_epochs(epochs, best_epoch):
        mark = BEST_MARK if epoch == best_epoch else " "
        table.add_row(f"{epoch}{mark}", *_cells(epochs[epoch], keys))
    return table


def _cells(data: EpochData, keys: Sequence[str]) -> list[str]:
    rate = "" if data.learning_rate is None else f"{data.learning_rate:.4g}"
    scores = [f"{data.error[key]:.4f}" if isinstance(data.error.get(key), (int, float)) else "" for key in keys]
    duration = data.meta.get(DURATION_KEY)
    return [rate, *scores, "" if duration is None else hms(duration)]


def _render(table: Table, columns: int) -> str:
    file = io.StringIO()
    Console(file=file, width=columns, color_system=None).print(table)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines() if line.strip())
