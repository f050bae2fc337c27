"""What the task `check` ends with, for all backends."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.log import log
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import num_shown
from returnn.util.texts.counted import counted


def report_result(looked_at: str, errors: Sequence[str]) -> None:
    """
    Whoever checks a config waits for this, so it is on the terminal, also if the log is not.

    :param looked_at: what was looked at; warnings came before
    :param errors: that were found
    :raises ConfigError: if there are any, so that the exit status says so
    """
    warnings = f", {counted(num_shown(), 'warning')}, see {_place_of_log()}" if num_shown() else ""
    found = [f"{i + 1}. {error}" for i, error in enumerate(errors)] or [f"no errors{warnings}"]
    for line in (f"looked at: {looked_at}", *found):
        print(line, file=log.v1)
        if not log.is_on_terminal:
            print(line)
    if errors:
        log.flush()
        raise ConfigError(f"the check found {counted(len(errors), 'error')}, see above.")


def _place_of_log() -> str:
    if log.is_on_terminal:
        return "above"
    return "the log" if log.filename is None else repr(log.filename)
