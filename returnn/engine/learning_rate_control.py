"""
Decides about the learning rate of each epoch: constant, given by a list, or lower when the scores get no better.

The names in a config, `learning_rate_control = "newbob_multi_epoch"`, are those of `learning_rate_control_type`.
In pretraining and in the first epoch after it, the learning rate is constant, see `constant_around_pretraining`.
The learning rates and scores of all epochs are kept in the learning rate file, so that a training can go on.
"""

from __future__ import annotations

import inspect
import itertools
import math
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from returnn.config import Config
from returnn.engine.epochs import Epochs
from returnn.engine.learning_rate_file import EpochData, read_learning_rate_file, write_learning_rate_file
from returnn.engine.score_names import default_scores, find_score, new_names
from returnn.log import log
from returnn.util.errors import ConfigError, UserError, check_known

LearningRateChange = float | Callable[[float], float]  # a factor, or the new learning rate by the old one

DynamicLearningRate: TypeAlias = "Mapping[str, float] | Callable[..., Any] | None"
_DYNAMIC = "option 'dynamic_learning_rate'"
_DYNAMIC_FORM = "def dynamic_learning_rate(*, network, global_train_step, learning_rate, **kwargs)"
_DYNAMIC_ARGUMENTS = ("network", "global_train_step", "learning_rate")
_DYNAMIC_KEYS = ("interval", "decay")


# Where the arguments of the constructor stand in a config.
_OPTION_OF_ARGUMENT = {
    "filename": "learning_rate_file",
    "default_learning_rate": "learning_rate",
    "default_learning_rates": "learning_rates",
    "min_learning_rate": "min_learning_rate",
    "learning_rate_decay": "learning_rate_decay",
    "learning_rate_growth": "learning_rate_growth",
    "min_num_epochs_per_new_learning_rate": "learning_rate_control_min_num_epochs_per_new_lr",
    "error_measure_key": "learning_rate_control_error_measure",
    "relative_error_div_by_old": "newbob_relative_error_div_by_old",
    "relative_error_also_relative_to_learning_rate": "learning_rate_control_relative_error_relative_lr",
}


class LearningRateControl:
    """
    Base of all kinds. A derived class decides in `calc_learning_rate_for_epoch`, from the epochs before.

    Where a learning rate was set before, by the option `learning_rates`, by the learning rate file or by an earlier
    call, it stays.
    """

    need_error_info: ClassVar[bool] = True  # whether scores of the epochs are needed to decide
    EpochData = EpochData

    def __init__(
        self,
        default_learning_rate: float,
        min_learning_rate: float = 0.0,
        default_learning_rates: Mapping[int, float] | Sequence[float] | None = None,
        error_measure_key: str | Sequence[str] | None = None,
        relative_error_also_relative_to_learning_rate: bool = False,
        min_num_epochs_per_new_learning_rate: int = 0,
        relative_error_div_by_old: bool = False,
        learning_rate_decay: LearningRateChange = 1.0,
        learning_rate_growth: LearningRateChange = 1.0,
        filename: str | None = None,
    ):
        """
        :param default_learning_rate: of the first epoch
        :param min_learning_rate: it never gets lower
        :param default_learning_rates: by epoch; a list starts with epoch 1
        :param error_measure_key: what is compared, e.g. "dev_error"; the first of several that there is
        :param relative_error_also_relative_to_learning_rate: a change counts for more at a low learning rate
        :param min_num_epochs_per_new_learning_rate: it changes not before that many epochs
        :param relative_error_div_by_old: the change is relative to the earlier score, not to the later one
        :param learning_rate_decay: factor if the scores get no better, or a function from old to new learning rate
        :param learning_rate_growth: factor if the scores do get better, or a function from old to new learning rate
        :param filename: learning rate file, None for none
        """
        self.epoch_data: dict[int, EpochData] = {}
        self.default_learning_rate = default_learning_rate
        self.min_learning_rate = min_learning_rate
        self.default_learning_rates = rates_by_epoch(default_learning_rates)
        self.error_measure_key = error_measure_key
        self.relative_error_also_relative_to_learning_rate = relative_error_also_relative_to_learning_rate
        self.min_num_epochs_per_new_learning_rate = min_num_epochs_per_new_learning_rate
        self.relative_error_div_by_old = relative_error_div_by_old
        self.learning_rate_decay = learning_rate_decay
        self.learning_rate_growth = learning_rate_growth
        self.filename = filename
        self._has_said_which_counts = False
        self.is_written = True  # by this process; of several ones, the first one writes
        if filename and os.path.exists(filename):
            self.load()
        self._take_rates_of_config()

    def __repr__(self) -> str:
        measure = self.error_measure_key or "default"
        return (
            f"{type(self).__name__}(learning_rate={self.default_learning_rate!r}, decay={self.learning_rate_decay!r}, "
            f"growth={self.learning_rate_growth!r}, error_measure={measure!r}, epochs={len(self.epoch_data)})"
        )

    @classmethod
    def load_initial_kwargs_from_config(cls, config: Config) -> dict[str, Any]:
        """:return: arguments of the constructor"""
        return {argument: getattr(config.options, option) for argument, option in _OPTION_OF_ARGUMENT.items()}

    @classmethod
    def load_initial_from_config(cls, config: Config) -> LearningRateControl:
        """:return: a new one, with the options of the config"""
        return cls(**cls.load_initial_kwargs_from_config(config))

    def calc_learning_rate_for_epoch(self, epoch: int) -> float:
        """
        :param epoch: starts with 1
        :return: from what is known about the epochs before
        """
        raise TypeError(f"{type(self).__name__} has to define calc_learning_rate_for_epoch")

    def get_learning_rate_for_epoch(self, epoch: int) -> float:
        """
        :param epoch: starts with 1
        :return: its learning rate; it is decided now, if it was not before
        """
        assert epoch >= 1, "epochs start with 1"
        data = self.epoch_data.get(epoch)
        if data is not None and data.learning_rate is not None:
            return data.learning_rate
        learning_rate = self.calc_new_learning_rate_for_epoch(epoch)
        self.set_default_learning_rate_for_epoch(epoch, learning_rate)
        return learning_rate

    def set_default_learning_rate_for_epoch(self, epoch: int, learning_rate: float) -> None:
        """Sets the learning rate, if the epoch has none yet."""
        data = self.epoch_data.setdefault(epoch, EpochData())
        if data.learning_rate is None:
            data.learning_rate = learning_rate

    def calc_new_learning_rate_for_epoch(self, epoch: int) -> float:
        """:return: like `calc_learning_rate_for_epoch`, but within the limits that all kinds have"""
        num_epochs = self.min_num_epochs_per_new_learning_rate
        if num_epochs > 1:
            last = [self.epoch_data[e].learning_rate for e in self._last_epochs(epoch, num_epochs)]
            recent = last[-1] if last else None
            if recent is not None and (len(set(last)) > 1 or len(last) < num_epochs):
                return recent
        return max(self.calc_learning_rate_for_epoch(epoch), self.min_learning_rate)

    def calc_learning_rate_decay_or_grow(self, learning_rate: float, decay: bool, grow: bool | None = None) -> float:
        """
        :param learning_rate: of the last epoch
        :param decay: whether it gets lower
        :param grow: otherwise, whether it gets higher; by default, it does if it gets not lower
        """
        change: LearningRateChange = 1.0
        if decay:
            change = self.learning_rate_decay
        elif grow or grow is None:
            change = self.learning_rate_growth
        new = change(learning_rate) if callable(change) else learning_rate * change
        return max(new, self.min_learning_rate)

    def get_last_epoch(self, epoch: int) -> int | None:
        """:return: the last epoch before this one that something is known about"""
        epochs = self._last_epochs(epoch, 1)
        return epochs[0] if epochs else None

    def get_most_recent_learning_rate(self, epoch: int, exclude_current: bool = True) -> float:
        """
        :param epoch: that comes next
        :param exclude_current: whether that one itself does not count
        :return: of the last epoch before; the default if there is none
        """
        for other in self._last_epochs(epoch if exclude_current else epoch + 1, len(self.epoch_data))[::-1]:
            learning_rate = self.epoch_data[other].learning_rate
            if learning_rate is not None:
                return learning_rate
        return self.default_learning_rate

    def calc_relative_error(self, old_epoch: int, new_epoch: int) -> float | None:
        """:return: negative if the new epoch is better; None if one of the two has no score"""
        key, new_error = self.get_epoch_error_key_value(new_epoch)
        old_error = self.get_epoch_error_dict(old_epoch).get(key) if key else None
        if new_error is None or old_error is None:
            return None
        base = abs(old_error if self.relative_error_div_by_old else new_error)
        difference = new_error - old_error
        relative = difference / base if base else math.copysign(math.inf, difference) if difference else 0.0
        if self.relative_error_also_relative_to_learning_rate:
            learning_rate = self.get_most_recent_learning_rate(new_epoch, exclude_current=False)
            if learning_rate > 0:
                relative /= learning_rate / self.default_learning_rate
        return relative

    def set_epoch_error(self, epoch: int, error: Mapping[str, float], *, as_error: Collection[str] = ()) -> None:
        """
        :param epoch: that was trained or evaluated
        :param error: scores and errors, are added to those of before. Where the same had another name in the epochs
            before, these get the name of now
        :param as_error: names of losses that are only errors
        """
        data = self.epoch_data.setdefault(epoch, EpochData())
        data.error.update(error)
        data.note_errors(as_error)
        for other in self.epoch_data.values():
            if names := new_names(other.error, error, as_error):
                other.error = {names.get(key, key): value for key, value in other.error.items()}
                other.note_errors(as_error)

    def get_epoch_error_dict(self, epoch: int) -> dict[str, Any]:
        """:return: all scores and errors of the epoch"""
        data = self.epoch_data.get(epoch)
        return data.error if data is not None else {}

    def get_epoch_error_value(self, epoch: int) -> float | None:
        """:return: the score of the epoch, lower is better; None if there is none"""
        return self.get_epoch_error_key_value(epoch)[1]

    def get_epoch_error_key_value(self, epoch: int) -> tuple[str | None, float | None]:
        """:return: what counts as the score of the epoch, and the score"""
        key = self.get_error_key(epoch)
        return (None, None) if key is None else (key, self.get_epoch_error_dict(epoch)[key])

    def get_error_key(self, epoch: int) -> str | None:
        """
        :return: the key of the score that counts; None if there are no scores.
            A key such as "dev_error" stands also for "dev_error_output", and the reverse, as the names depend on
            the number of losses; and "dev_loss_ce" for "dev_score_ce", see `returnn.engine.score_names`.
        """
        found = self.get_epoch_error_dict(epoch)
        if not found:
            return None
        errors = self.epoch_data[epoch].as_error
        wanted = self.error_measure_key
        measures = [wanted] if isinstance(wanted, str) else list(wanted or ())
        for measure in measures:
            key = find_score(measure, found, errors)
            if key is not None:
                return key
        if measures and any(key.startswith("dev_") for key in found):
            wanted_text, found_text = (", ".join(map(repr, names)) for names in (measures, sorted(found)))
            log.print_warning(f"learning_rate_control_error_measure: {wanted_text} is not there, only {found_text}")
        keys = default_scores(found, errors)
        if len(keys) > 1 and not measures and not self._has_said_which_counts:
            self._has_said_which_counts = True
            print(
                f"of {', '.join(map(repr, keys))}, the first one says which epoch is the best one; another one by"
                " 'learning_rate_control_error_measure'",
                file=log.v2,
            )
        return keys[0]

    def get_last_best_epoch(
        self,
        last_epoch: int,
        first_epoch: int = 1,
        only_last_epochs: int | None = None,
        filter_score: float = math.inf,
        only_last_n: int = -1,
        min_score_dist: float = 0.0,
    ) -> int | None:
        """
        The arguments are those of the option `use_last_best_model`.

        :param last_epoch: up to this one, inclusive
        :param first_epoch: from this one on
        :param only_last_epochs: only that many epochs up to `last_epoch`
        :param filter_score: only epochs with a score that is not above
        :param only_last_n: of the epochs that remain, only the last ones
        :param min_score_dist: only epochs which are better than the last one by that much
        :return: the epoch with the lowest score, the latest of several; None if there is none
        """
        if only_last_epochs is not None:
            first_epoch = max(first_epoch, last_epoch - only_last_epochs + 1)
        scores = self._comparable_scores(first_epoch, last_epoch)
        recent = scores[-1][0] if scores else math.inf
        scores = [(score, epoch) for score, epoch in scores if score <= filter_score]
        if only_last_n >= 1:
            scores = scores[-only_last_n:]
        if min_score_dist > 0:
            scores = [(score, epoch) for score, epoch in scores if recent - score >= min_score_dist]
        return min(scores, key=lambda entry: (entry[0], -entry[1]))[1] if scores else None

    def load(self) -> None:
        """
        Reads the learning rate file. For epochs to come, the config counts, as it may have changed.

        :raises UserError: if it cannot be read
        """
        assert self.filename, "there is no learning rate file"
        self.epoch_data = read_learning_rate_file(self.filename)
        self._take_rates_of_config()

    def save(self) -> None:
        """
        Writes the learning rate file, if there is to be one.

        :raises UserError: if it cannot be written
        """
        if self.filename and self.is_written:
            write_learning_rate_file(self.filename, self.epoch_data)

    def _take_rates_of_config(self) -> None:
        for epoch, learning_rate in self.default_learning_rates.items():
            if not self.get_epoch_error_dict(epoch):
                self.epoch_data.pop(epoch, None)
            self.set_default_learning_rate_for_epoch(epoch, learning_rate)

    def _last_epochs(self, epoch: int, num_epochs: int) -> list[int]:
        """:return: the last ones before `epoch`"""
        epochs = sorted(other for other in self.epoch_data if other < epoch)
        return epochs[max(len(epochs) - num_epochs, 0) :]

    def _comparable_scores(self, first_epoch: int, last_epoch: int) -> list[tuple[float, int]]:
        """:return: finite scores with the same key as that of the last epoch, with their epochs"""
        entries = [(*self.get_epoch_error_key_value(e), e) for e in range(first_epoch, last_epoch + 1)]
        scores = [(key, score, e) for key, score, e in entries if score is not None and math.isfinite(score)]
        return [(score, e) for key, score, e in scores if key == scores[-1][0]]


class ConstantLearningRate(LearningRateControl):
    """What `learning_rates` has for the last epoch that it has one for; before that, the default learning rate."""

    need_error_info = False

    def calc_learning_rate_for_epoch(self, epoch: int) -> float:
        """:return: of the last epoch before in `learning_rates`, the default if there is none"""
        before = max((other for other in self.default_learning_rates if other < epoch), default=None)
        return self.default_learning_rate if before is None else self.default_learning_rates[before]


class NewbobRelative(LearningRateControl):
    """Lowers the learning rate if the last epoch, relative to the one before, is not better by a threshold."""

    def __init__(self, relative_error_threshold: float, **kwargs: Any):
        """
        :param relative_error_threshold: lower if the relative change of the score is above; usually below zero
        """
        super().__init__(**kwargs)
        self.relative_error_threshold = relative_error_threshold

    @classmethod
    def load_initial_kwargs_from_config(cls, config: Config) -> dict[str, Any]:
        """:return: arguments of the constructor"""
        kwargs = super().load_initial_kwargs_from_config(config)
        return {**kwargs, "relative_error_threshold": config.options.newbob_relative_error_threshold}

    def calc_learning_rate_for_epoch(self, epoch: int) -> float:
        """:return: that of the last epoch, or less"""
        learning_rate = self.get_most_recent_learning_rate(epoch)
        epochs = self._last_epochs(epoch, 2)
        relative_error = self.calc_relative_error(*epochs) if len(epochs) == 2 else None
        if relative_error is None:
            return learning_rate
        return self.calc_learning_rate_decay_or_grow(
            learning_rate, decay=relative_error > self.relative_error_threshold
        )


class NewbobAbs(LearningRateControl):
    """Lowers the learning rate if the last epoch is not better than the one before by a threshold."""

    def __init__(self, error_threshold: float, **kwargs: Any):
        """
        :param error_threshold: lower if the change of the score is above; usually below zero
        """
        super().__init__(**kwargs)
        self.error_threshold = error_threshold

    @classmethod
    def load_initial_kwargs_from_config(cls, config: Config) -> dict[str, Any]:
        """:return: arguments of the constructor"""
        kwargs = super().load_initial_kwargs_from_config(config)
        return {**kwargs, "error_threshold": config.options.newbob_error_threshold}

    def calc_learning_rate_for_epoch(self, epoch: int) -> float:
        """:return: that of the last epoch, or less"""
        learning_rate = self.get_most_recent_learning_rate(epoch)
        epochs = self._last_epochs(epoch, 2)
        key, new_error = self.get_epoch_error_key_value(epochs[-1]) if len(epochs) == 2 else (None, None)
        old_error = self.get_epoch_error_dict(epochs[0]).get(key) if key else None
        if new_error is None or old_error is None:
            return learning_rate
        return self.calc_learning_rate_decay_or_grow(learning_rate, decay=new_error - old_error > self.error_threshold)


class NewbobMultiEpoch(LearningRateControl):
    """Like `NewbobRelative`, with the mean of the relative changes over several epochs, and not after each epoch."""

    def __init__(
        self,
        num_epochs: int,
        update_interval: int,
        relative_error_threshold: float,
        relative_error_grow_threshold: float,
        **kwargs: Any,
    ):
        """
        :param num_epochs: over how many changes of the score the mean goes
        :param update_interval: in epochs
        :param relative_error_threshold: lower if the mean is above
        :param relative_error_grow_threshold: higher if the mean is below
        """
        super().__init__(**kwargs)
        self.num_epochs = num_epochs
        self.update_interval = update_interval
        self.relative_error_threshold = relative_error_threshold
        self.relative_error_grow_threshold = relative_error_grow_threshold

    @classmethod
    def load_initial_kwargs_from_config(cls, config: Config) -> dict[str, Any]:
        """:return: arguments of the constructor"""
        return {
            **super().load_initial_kwargs_from_config(config),
            "num_epochs": config.options.newbob_multi_num_epochs,
            "update_interval": config.options.newbob_multi_update_interval,
            "relative_error_threshold": config.options.newbob_relative_error_threshold,
            "relative_error_grow_threshold": config.options.newbob_relative_error_grow_threshold,
        }

    def calc_learning_rate_for_epoch(self, epoch: int) -> float:
        """:return: that of the last epoch, or less, or more"""
        learning_rate = self.get_most_recent_learning_rate(epoch)
        is_update_epoch = self.update_interval <= 1 or epoch % self.update_interval == 1  # epochs start with 1
        mean = self._mean_relative_error(epoch) if is_update_epoch else None
        if mean is None:
            return learning_rate
        return self.calc_learning_rate_decay_or_grow(
            learning_rate,
            decay=mean > self.relative_error_threshold,
            grow=mean < self.relative_error_grow_threshold,
        )

    def _mean_relative_error(self, epoch: int) -> float | None:
        """:return: over the last epochs; None if one of them has no score"""
        epochs = self._last_epochs(epoch, self.num_epochs + 1)  # as many changes as `num_epochs`
        errors = [self.calc_relative_error(old, new) for old, new in itertools.pairwise(epochs)]
        known = [error for error in errors if error is not None]
        return sum(known) / len(known) if known and len(known) == len(errors) else None


_TYPES: dict[str, type[LearningRateControl]] = {
    "constant": ConstantLearningRate,
    "newbob": NewbobRelative,
    "newbob_rel": NewbobRelative,
    "newbob_relative": NewbobRelative,
    "newbob_abs": NewbobAbs,
    "newbob_multi_epoch": NewbobMultiEpoch,
}


def learning_rate_control_type(type_name: str) -> type[LearningRateControl]:
    """
    :param type_name: the option `learning_rate_control`
    :raises ConfigError: if there is none of that name
    """
    check_known("learning rate control", type_name, _TYPES, where="option 'learning_rate_control'")
    return _TYPES[type_name]


def learning_rate_control_names() -> list[str]:
    """:return: possible values of the option `learning_rate_control`"""
    return list(_TYPES)


def load_learning_rate_control_from_config(config: Config) -> LearningRateControl:
    """:return: as the option `learning_rate_control` and those around it say"""
    return learning_rate_control_type(config.options.learning_rate_control).load_initial_from_config(config)


def demo() -> None:
    """
    `python -m returnn.learning_rate_control CONFIG`: what the options of a config would have made of the scores in
    its learning rate file. With the option `check_learning_rates`, it is an error if they made something else.

    :raises UserError: if a learning rate differs, and is to be checked
    """
    config = Config()
    config.load_file(sys.argv[1])
    config.parse_cmd_args(sys.argv[2:])
    log.init_by_config(config)
    control = load_learning_rate_control_from_config(config)
    print(control, file=log.v1)
    differ = []
    for epoch, learning_rate in recalculate(config, control).items():
        recorded = control.epoch_data[epoch].learning_rate
        print(f"epoch {epoch}: learning rate {learning_rate}, in the file {recorded}", file=log.v1)
        if recorded is not None and not math.isclose(learning_rate, recorded, rel_tol=1e-5):
            differ.append(epoch)
    if differ and config.options.check_learning_rates:
        raise UserError(f"Epoch {differ[0]} was trained with another learning rate than the config asks for.")


def recalculate(config: Config, control: LearningRateControl) -> dict[int, float]:
    """
    :param config: decides
    :param control: has the scores of the epochs
    :return: what the learning rates of these epochs would be
    """
    epochs = Epochs(config)
    kwargs = {**control.load_initial_kwargs_from_config(config), "filename": None}
    new = type(control)(**kwargs)
    for epoch, data in sorted(control.epoch_data.items()):
        rate = constant_around_pretraining(config, epochs, epoch)
        if rate is not None:
            new.set_default_learning_rate_for_epoch(epoch, rate)
        new.get_learning_rate_for_epoch(epoch)
        new.set_epoch_error(epoch, data.error, as_error=data.as_error)
    return {epoch: new.get_learning_rate_for_epoch(epoch) for epoch in sorted(control.epoch_data)}


def constant_around_pretraining(config: Config, epochs: Epochs, epoch: int) -> float | None:
    """
    All epochs of the pretraining have the learning rate `pretrain_learning_rate`, by default `learning_rate`. The first
    one after it begins with `learning_rate`. Neither `learning_rates` nor scores change that, unless
    `use_learning_rate_control_always` is set.

    :param config: its options
    :param epochs: which ones are pretraining
    :param epoch: starts with 1
    :return: None: the learning-rate control decides
    """
    options = config.options
    if options.use_learning_rate_control_always:
        return None
    if epochs.is_pretrain(epoch) and options.pretrain_learning_rate is not None:
        return options.pretrain_learning_rate
    is_constant = epochs.is_pretrain(epoch) or epochs.is_first_after_pretrain(epoch)
    return options.learning_rate if is_constant else None


def rates_by_epoch(learning_rates: Mapping[int, float] | Sequence[float] | None) -> dict[int, float]:
    """:return: of the option `learning_rates`; a list starts with epoch 1"""
    if isinstance(learning_rates, Mapping):
        if wrong := [epoch for epoch in learning_rates if not isinstance(epoch, int) or epoch < 1]:
            raise ConfigError(
                f"option 'learning_rates': {wrong[0]!r} is no epoch.\n  Its keys are numbers of epochs, from 1 on."
            )
        return dict(learning_rates)
    return dict(enumerate(learning_rates or (), start=1))


def check_dynamic_learning_rate(option: DynamicLearningRate, *, more_arguments: tuple[str, ...] = ()) -> None:
    """
    :param option: a function, or a dict: within each `interval` of steps, the factor of the learning rate falls from 1
        to `decay`, exponentially
    :param more_arguments: that the backend gives to the function
    :raises ConfigError: if the function cannot be called so, or the dict has other keys
    """
    if option is None:
        return
    if callable(option):
        try:
            inspect.signature(option).bind(**dict.fromkeys((*_DYNAMIC_ARGUMENTS, *more_arguments)))
        except TypeError as exc:
            raise ConfigError(
                f"{_DYNAMIC}: the function cannot be called, {exc}.\n  It has to be as: {_DYNAMIC_FORM}."
            ) from exc
        return
    for key in option:
        check_known("key", key, _DYNAMIC_KEYS, where=_DYNAMIC)
    for key in _DYNAMIC_KEYS:
        if not isinstance(option.get(key), (int, float)) or option[key] <= 0:
            raise ConfigError(f"{_DYNAMIC}: {key!r} is {option.get(key)!r}.\n  It has to be a number above 0.")


def wrong_dynamic_rate(value: object, *, when: str) -> ConfigError:
    """
    :param value: that the function returned
    :param when: at which step, or where
    :return: it is no learning rate
    """
    forgotten = " Each of its branches needs a `return`." if value is None else ""
    return ConfigError(f"{_DYNAMIC}: the function returned {value!r} {when}.\n  It has to be a number.{forgotten}")
