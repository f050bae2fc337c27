"""What the task `check` ends with, for all backends."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.log import log
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import num_shown
from returnn.util.texts.counted import counted


def report_result(looked_at: str, errors: Sequence[str]) -> None:
    """
    :param looked_at: what was looked at; warnings came before
    :param errors: that were found
    :raises ConfigError: if there are any, so that the exit status says so
    """
    print(f"looked at: {looked_at}", file=log.v1)
    for i, error in enumerate(errors):
        print(f"{i + 1}. {error}", file=log.v1)
    if errors:
        log.flush()
        raise ConfigError(f"the check found {counted(len(errors), 'error')}, see above.")
    warnings = f", {counted(num_shown(), 'warning')}, see above" if num_shown() else ""
    print(f"no errors{warnings}", file=log.v1)
