"""Says which parameters are not those of a trained model, for all backends."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.log import log
from returnn.util.texts.counted import counted, some_of


def warn_of_initial_values(names: Sequence[str], *, filename: str) -> None:
    """
    For `load_ignore_missing_vars`: nobody has trained these parameters, so that a result that needs them means nothing.

    :param names: of parameters of the model that are not in a checkpoint; some
    :param filename: of the checkpoint
    """
    what = (
        "is not in it and keeps its initial value" if len(names) == 1 else "are not in it and keep their initial values"
    )
    log.print_warning(
        f"checkpoint {filename!r}: {counted(len(names), 'parameter')} of the model {what} "
        f"('load_ignore_missing_vars'): {some_of(names)}."
    )
