"""What functions of a config decide in each step: the learning rate, and how many steps an update waits for."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from returnn.config import Config
from returnn.engine.learning_rate_control import check_dynamic_learning_rate, wrong_dynamic_rate
from returnn.util.errors import ConfigError


@dataclass(frozen=True)
class StepTime:
    """When a step is. Its fields are arguments of the functions."""

    global_train_step: int = 0  # number of the step, from 0, over all epochs
    epoch: int = 1
    epoch_continuous: float | None = None  # 2.5: with this step, half of the data of epoch 3 is done; None: not known


_TIME_ARGUMENTS = tuple(asdict(StepTime()))
_MORE_ARGUMENTS = ("epoch", "epoch_continuous")  # of functions for the learning rate, beside those with TensorFlow
_ACCUM = "option 'accum_grad_multiple_step'"


def check_step_rules(config: Config) -> None:
    """:raises ConfigError: if one of the functions cannot be called, see below"""
    check_dynamic_learning_rate(config.options.dynamic_learning_rate, more_arguments=_MORE_ARGUMENTS)
    function = config.options.accum_grad_multiple_step
    if not callable(function):
        return
    try:
        inspect.signature(function).bind(**dict.fromkeys(_TIME_ARGUMENTS))
    except TypeError as exc:
        raise ConfigError(
            f"{_ACCUM}: the function cannot be called, {exc}.\n"
            f"  It has to be as: def accum_grad_multiple_step(*, {', '.join(_TIME_ARGUMENTS)}, **kwargs)."
        ) from exc


def learning_rate_of_step(
    option: Mapping[str, float] | Callable[..., float] | None, time: StepTime, *, learning_rate: float, network: Any
) -> float:
    """
    :param option: `dynamic_learning_rate`: a function; or a dict: within each `interval` of steps, the factor of the
        learning rate falls from 1 to `decay`, exponentially
    :param time: of the step
    :param learning_rate: of the epoch
    :param network: the model
    :raises ConfigError: if the function returns no number, or one that is not finite
    """
    if option is None:
        return learning_rate
    if callable(option):
        return _as_rate(option(learning_rate=learning_rate, network=network, **asdict(time)), time)
    interval = int(option["interval"])
    return learning_rate * float(option["decay"]) ** ((time.global_train_step % interval) / interval)


def _as_rate(value: Any, time: StepTime) -> float:
    when = f"in training step {time.global_train_step}"
    if isinstance(value, str):
        raise wrong_dynamic_rate(value, when=when)
    try:
        rate = float(value)  # also a scalar of numpy or PyTorch
    except (TypeError, ValueError, RuntimeError) as exc:
        raise wrong_dynamic_rate(value, when=when) from exc
    if not math.isfinite(rate):
        raise wrong_dynamic_rate(rate, when=when)
    return rate


def num_accumulated_steps(option: int | Callable[..., int], time: StepTime) -> int:
    """
    :param option: `accum_grad_multiple_step`: a number, or a function
    :param time: of the step
    :return: an update is due when so many steps are collected
    :raises ConfigError: if the function returns no number
    """
    number = option(**asdict(time)) if callable(option) else option
    if isinstance(number, bool) or not isinstance(number, int):
        raise ConfigError(f"{_ACCUM}: the function has to return a number of steps, not {number!r}.")
    return max(number, 1)
