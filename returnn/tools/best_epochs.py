"""Which epochs of a training are the best."""

from __future__ import annotations

import math

from returnn.engine.learning_rate_control import LearningRateControl
from returnn.engine.score_names import find_score
from returnn.util.errors import UserError, check_known


def best_epochs(control: LearningRateControl, key: str | None = None) -> tuple[str, list[int]]:
    """
    :param control: of the training, with scores by epoch and name; smaller is better
    :param key: name of the score to compare; by default that by which the training itself goes
    :return: the name; the epochs that have this score, the best first; of equal ones the latest, as in the training
    :raises UserError: if there is no such score
    """
    scores = {epoch: data.error for epoch, data in control.epoch_data.items() if data.error}
    if not scores:
        raise UserError("there are no scores of any epoch yet.")
    names = list(dict.fromkeys(name for by_name in scores.values() for name in by_name))
    last = max(scores)
    if key is None:
        key = control.get_error_key(last)
    else:
        key = find_score(key, names, control.epoch_data[last].as_error) or key
    check_known("score", key, names, where="option '--key'")
    assert key is not None
    values = {epoch: by_name[key] for epoch, by_name in scores.items() if key in by_name}
    return key, sorted(values, key=lambda epoch: (not math.isfinite(values[epoch]), values[epoch], -epoch))
