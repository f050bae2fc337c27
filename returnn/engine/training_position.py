"""
`TrainingPosition`: where a training is, inside of an epoch. Together with the values of all variables, it is all that
is needed to go on there as if nothing had happened.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from returnn.util.errors import UserError
from returnn.util.numbers.global_random import GlobalRandomState
from returnn.util.texts.counted import counted

_FORMAT = 2


class PositionError(UserError):
    """The training cannot go on at a position: it is damaged, or network, data or options are other ones by now."""


@dataclass(frozen=True)
class BatchPosition:
    """Between two batches of an epoch."""

    num_batches: int = 0  # behind it
    checksum: int = 0  # of these: which frames of which sequences they have

    def check(self, other: BatchPosition) -> None:
        """
        :param other: of the same epoch of the data, gone over anew
        :raises PositionError: if the batches are other ones
        """
        if other != self:
            raise PositionError(
                f"The epoch does not begin with the same {counted(self.num_batches, 'batch')} as before:"
                " the data or its options have changed."
            )


@dataclass(frozen=True)
class TrainingPosition:
    """After a step of an epoch. Scores are sums so far, as in `returnn.engine.run.scores.Scores`."""

    epoch: int
    first_train_step: int  # the number of all steps of the epochs before
    num_steps: int  # of this epoch
    num_seqs: int
    batches: BatchPosition
    elapsed_s: float
    score_sums: dict[str, float]  # "loss:NAME" or "error:NAME"
    score_frames: dict[str, float]  # by NAME
    random_state: GlobalRandomState
    last_model: int = 0  # the last epoch that had a model file then; 0: none
    num_workers: int = 1  # that train together

    def __str__(self) -> str:
        return f"epoch {self.epoch}, step {self.num_steps}"

    def as_text(self) -> str:
        """:return: for a file"""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain["batches"] = dataclasses.asdict(self.batches)
        plain["random_state"] = self.random_state.as_plain()
        return json.dumps({"format": _FORMAT, **plain})

    @classmethod
    def from_text(cls, text: str) -> TrainingPosition:
        """
        :param text: what `as_text` gave
        :raises PositionError: if it is something else
        """
        try:
            plain: dict[str, Any] = json.loads(text)
            if plain.pop("format") != _FORMAT:
                raise PositionError("It was written by another version of the toolkit.")
            plain["batches"] = BatchPosition(**plain["batches"])
            plain["random_state"] = GlobalRandomState.from_plain(plain["random_state"])
            return cls(**plain)
        except PositionError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            raise PositionError("The position in it is damaged.") from exc
