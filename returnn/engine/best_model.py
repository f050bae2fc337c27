"""Option `use_last_best_model`: an epoch of training goes on from the best epoch before, not from the last one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from returnn.config import Config
from returnn.config.option_types import options_as
from returnn.engine.learning_rate_control import LearningRateControl


@dataclass(frozen=True)
class BestModelOptions:
    """
    The keys of the option.

    :param modulo: only every so many epochs
    :param first_epoch: earlier ones do not count
    :param only_last_epochs: only so many epochs before count
    :param filter_score: epochs with a score above do not count
    :param only_last_n: of those which count, only so many last ones do
    :param min_score_dist: they have to be better than the last one by that much
    """

    modulo: int = 1
    first_epoch: int = 1
    only_last_epochs: int | None = None
    filter_score: float = math.inf
    only_last_n: int = -1
    min_score_dist: float = 0.0

    def best_epoch(self, control: LearningRateControl, *, last_epoch: int, first_epoch: int) -> int | None:
        """
        :param control: has the scores
        :param last_epoch: up to this one, inclusive
        :param first_epoch: from this one on, in any case
        """
        return control.get_last_best_epoch(
            last_epoch,
            first_epoch=max(first_epoch, self.first_epoch),
            only_last_epochs=self.only_last_epochs,
            filter_score=self.filter_score,
            only_last_n=self.only_last_n,
            min_score_dist=self.min_score_dist,
        )


def best_model_options(config: Config) -> BestModelOptions | None:
    """
    :return: None if the option is not set
    :raises ConfigError: if it is neither True nor a dict of the known keys
    """
    option = config.options.use_last_best_model
    if not option and option != {}:
        return None
    if option is True:
        return BestModelOptions()
    return options_as(BestModelOptions, option, where="option 'use_last_best_model'")
