"""
Which checkpoints to keep: option `cleanup_old_models`.

It is True, or a dict: `keep_last_n` newest ones (default 2), `keep_best_n` best ones by each score of a held-out set
(default 4), and the epochs in `keep`. The default of `keep` depends on the last epoch that has a model, see
`CleanupPolicy`: 4, 5, 8, 10 of a short training, and 20, 40, 80, 160, 240, ... of a long one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from returnn.util.errors import ConfigError, check_known

_KEYS = ("keep_last_n", "keep_best_n", "keep")

# Up to this last epoch: each epoch that is a multiple of the one number, or the other one times 1, 2, 4, 8, ...
_DEFAULT_KEEP = ((10, 4, 5), (50, 20, 5), (100, 40, 10), (math.inf, 80, 20))


@dataclass(frozen=True)
class CleanupPolicy:
    """
    Which checkpoints stay.

    :param keep_last_n: so many last epochs
    :param keep_best_n: so many best epochs, by each score of `dev` and of other data that is not for training
    :param keep: these epochs. By default, it depends on the last epoch that has a model:

        - up to 10: multiples of 4, and 5, 10
        - up to 50: multiples of 20, and 5, 10, 20, 40
        - up to 100: multiples of 40, and 10, 20, 40, 80
        - more: multiples of 80, and 20, 40, 80, 160, ...

        and the initial model (epoch 0), which is only there if it is wanted
    """

    keep_last_n: int = 2
    keep_best_n: int = 4
    keep: frozenset[int] | None = None

    def epochs_to_keep(self, epochs: Iterable[int], scores: Mapping[int, Mapping[str, float]]) -> set[int]:
        """
        :param epochs: those that have a checkpoint
        :param scores: epoch -> name -> value, e.g. "dev_score"; smaller is better
        :return: some of the epochs
        """
        epochs = sorted(epochs)
        kept = set(epochs[-self.keep_last_n :] if self.keep_last_n else ())
        kept |= {epoch for epoch in epochs if self._is_listed(epoch, last_epoch=epochs[-1])}
        for key in _held_out_keys(scores):
            kept |= set(self._best({epoch: scores[epoch][key] for epoch in epochs if key in scores.get(epoch, {})}))
        return kept

    def _is_listed(self, epoch: int, *, last_epoch: int) -> bool:
        if self.keep is not None:
            return epoch in self.keep
        step, doubled = next((step, doubled) for limit, step, doubled in _DEFAULT_KEEP if last_epoch <= limit)
        times, rest = divmod(epoch, doubled)
        return epoch % step == 0 or (rest == 0 and times.bit_count() == 1)

    def _best(self, values: Mapping[int, float]) -> list[int]:
        """:return: the earlier epoch first where values are equal"""
        ranked = sorted(values, key=lambda epoch: (not math.isfinite(values[epoch]), values[epoch], epoch))
        return ranked[: self.keep_best_n]


def superfluous_epochs(
    checkpoints: Mapping[int, str], policy: CleanupPolicy, scores: Mapping[int, Mapping[str, float]]
) -> list[int]:
    """
    :param checkpoints: epoch -> name without suffix. The newest one stays in any case: training continues from it
    :param scores: as in `CleanupPolicy.epochs_to_keep`
    :return: which are to be deleted
    """
    kept = policy.epochs_to_keep(checkpoints, scores) | {max(checkpoints, default=0)}
    return [epoch for epoch in sorted(checkpoints) if epoch not in kept]


def cleanup_policy(option: bool | Mapping[str, object] | None) -> CleanupPolicy | None:
    """
    :param option: `cleanup_old_models` of the config
    :return: None if nothing is to be deleted
    :raises ConfigError: if the option is something else
    """
    if not option and not isinstance(option, Mapping):
        return None
    if option is True:
        return CleanupPolicy()
    if not isinstance(option, Mapping):
        raise ConfigError(f"option 'cleanup_old_models' is {option!r}.\n  It has to be True, False or a dict.")
    for key in option:
        check_known("key", key, _KEYS, where="option 'cleanup_old_models'")
    for key in ("keep_last_n", "keep_best_n"):
        if not _is_count(option.get(key, 0)):
            raise ConfigError(
                f"option 'cleanup_old_models': {key!r} is {option[key]!r}.\n  It has to be a number from 0."
            )
    keep = option.get("keep")
    if keep is not None and not (isinstance(keep, (list, tuple, set, frozenset)) and all(map(_is_count, keep))):
        raise ConfigError(f"option 'cleanup_old_models': 'keep' is {keep!r}.\n  It has to be a list of epochs.")
    return CleanupPolicy(**{**option, "keep": None if keep is None else frozenset(keep)})


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _held_out_keys(scores: Mapping[int, Mapping[str, float]]) -> list[str]:
    """:return: names of scores that tell epochs apart; those of the training data only if there are no others"""
    keys = sorted({key for values in scores.values() for key in values})
    held_out = [key for key in keys if not key.startswith("train_")] or keys
    return [key for key in held_out if len({values[key] for values in scores.values() if key in values}) > 1]
