"""Warnings about learning rates: options that nobody has set, that have no effect, or that name scores of no loss."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from returnn.config import Config
from returnn.engine.epochs import Epochs
from returnn.engine.learning_rate_control import LearningRateControl, constant_around_pretraining, rates_by_epoch
from returnn.engine.score_names import loss_of_score
from returnn.util.errors import nearest_hint


def unset_learning_rate_text(config: Config) -> str | None:
    """
    :return: a warning where nobody has said how large steps are, in all epochs or in the first ones. They are too large
        then for most optimizers
    """
    optimizer = config.opt_typed_value("optimizer")
    own = optimizer if isinstance(optimizer, Mapping) else {}
    takes_one = "adadelta" in str(own.get("class", optimizer)).lower() or config.options.adadelta
    names = ("learning_rates", "dynamic_learning_rate")
    if takes_one or "learning_rate" in own or config.has("learning_rate"):
        return None
    default = f"{config.options.learning_rate:g}"
    if not any(config.has(name) for name in names):
        return f"the option 'learning_rate' is not set, so it is {default}; with Adam, 0.001 is usual."
    of_epochs = rates_by_epoch(config.options.learning_rates)
    if not of_epochs or 1 in of_epochs:  # then there is one before each epoch
        return None
    there = f"and 'learning_rate' is not set, so it is {default} before."
    return f"the option 'learning_rates' begins with epoch {min(of_epochs)}, {there}"


def unused_learning_rates_text(config: Config) -> str | None:
    """:return: a warning if `learning_rates` has others than the constant ones of `constant_around_pretraining`"""
    options = config.options
    if not options.pretrain or not options.learning_rates:
        return None
    epochs, rates = Epochs(config), rates_by_epoch(options.learning_rates)
    constant = {epoch: constant_around_pretraining(config, epochs, epoch) for epoch in rates if epoch <= epochs.final}
    if all(rate in (None, rates[epoch]) for epoch, rate in constant.items()):
        return None
    of_pretraining = "learning_rate" if options.pretrain_learning_rate is None else "pretrain_learning_rate"
    default = f"{options.learning_rate:g}" + ("" if config.has("learning_rate") else ", as it is not set")
    return (
        f"the option 'learning_rates' does not count in pretraining, where {of_pretraining!r} does, and in epoch "
        f"{epochs.first_after_pretrain}, the first one after it, where 'learning_rate' does ({default}).\n"
        "  'use_learning_rate_control_always = True' lets it count there, too."
    )


def kept_learning_rate_text(config: Config, control: LearningRateControl, epoch: int) -> str | None:
    """
    :param config: in which `learning_rate` may have changed since the training began
    :param control: with what was recorded
    :param epoch: that comes next
    :return: a warning if the new one has no effect, as each epoch goes on from the rate of the one before
    """
    decides = control.need_error_info and epoch not in control.default_learning_rates
    if not decides or not config.has("learning_rate") or config.options.pretrain:  # after that, it has an effect again
        return None
    recorded = {e: data.learning_rate for e, data in control.epoch_data.items() if data.learning_rate is not None}
    of_config = control.default_learning_rate
    if min(recorded, default=epoch) >= epoch:
        return None
    first, rate = min(recorded), control.get_learning_rate_for_epoch(epoch)
    if first in control.default_learning_rates or of_config in (rate, recorded[first]):
        return None
    return (
        f"option 'learning_rate': {of_config:g} is for the first epoch, which had {recorded[first]:g}. By"
        f" {config.options.learning_rate_control!r}, epoch {epoch} has {rate:g}.\n"
        f"  'learning_rates = {{{epoch}: {of_config:g}}}' sets another one."
    )


def unknown_measure_text(config: Config, names: Collection[str]) -> str | None:
    """
    :param names: that losses can have
    :return: a warning if `learning_rate_control_error_measure` has only scores of losses that are not there
    """
    measures = config.options.learning_rate_control_error_measure or ()
    losses = [loss for measure in measures if (loss := loss_of_score(measure))]
    if not losses or len(losses) < len(measures) or any(name in names for name in losses):
        return None
    return (
        f"option 'learning_rate_control_error_measure': there is no {losses[0]!r} that could have a loss.\n"
        f"  {nearest_hint(losses[0], names)}"
    )
