"""Which epochs of a training are the best."""

from __future__ import annotations

import math
from collections.abc import Mapping

from returnn.util.errors import UserError, check_known

_PREFERRED = ("dev_error", "dev_score", "devtrain_error", "devtrain_score", "train_error", "train_score")


def best_epochs(scores: Mapping[int, Mapping[str, float]], key: str | None = None) -> tuple[str, list[int]]:
    """
    :param scores: by epoch and name; smaller is better
    :param key: name of the score to compare; by default an error on held-out data, as far as there is one
    :return: the name; the epochs that have this score, the best first
    :raises UserError: if there is no such score
    """
    names = list(dict.fromkeys(name for by_name in scores.values() for name in by_name))
    if not names:
        raise UserError("there are no scores of any epoch yet.")
    if key is None:
        key = next((name for wanted in _PREFERRED for name in names if name.startswith(wanted)), names[0])
    check_known("score", key, names, where="option '--key'")
    values = {epoch: by_name[key] for epoch, by_name in scores.items() if key in by_name}
    return key, sorted(values, key=lambda epoch: (not math.isfinite(values[epoch]), values[epoch], epoch))
