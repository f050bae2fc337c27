"""
`Updater`: the update of all parameters.

Gradients of the objective -> what `returnn.torch.optim.gradients` does to them -> the optimizer -> decoupled weight
decay of single parameters. With `accum_grad_multiple_step`, everything after the gradients waits until enough steps are
collected, or the epoch ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.run.non_finite import NonFiniteError
from returnn.log import log
from returnn.torch.optim.gradients import (
    GradientOptions,
    filter_non_finite_,
    gradients_of,
    norm_of,
    process_gradients_,
)
from returnn.torch.optim.mixed_precision import make_grad_scaler
from returnn.torch.optim.optimizer_choice import MULTIPLIER, choose_optimizer
from returnn.torch.optim.optimizer_state import load_state_of_optimizer, state_of_optimizer
from returnn.torch.optim.step_rules import StepTime, check_step_rules, learning_rate_of_step, num_accumulated_steps
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted, some_of


class Updater:
    """The optimizer, and what belongs to it."""

    def __init__(
        self, config: Config, model: Any, parameters: Mapping[str, torch.nn.Parameter], *, device: torch.device
    ) -> None:
        """
        :param config: all options are read from here
        :param model: what `get_model` returned
        :param parameters: all that there are, by name
        :param device: where they are
        :raises ConfigError: if there is nothing to train, or an option makes no sense
        """
        self.config = config
        self.model = model
        self.parameters = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        if not self.parameters:
            raise ConfigError("training: the model has no trainable parameters.\n  Use task 'eval'.")
        self.learning_rate = config.options.learning_rate  # of the epoch
        self.effective_learning_rate = self.learning_rate  # of the last step
        self.learning_rate_factor = 1.0  # of all steps
        choice = choose_optimizer(config.options.optimizer)
        print(f"Create optimizer {choice}.", file=log.v3)
        self.optimizer = choice.create(self.parameters, model, self.learning_rate)
        self.scaler = make_grad_scaler(config, device)
        self._options = GradientOptions.from_config(config)
        check_step_rules(config)
        self._time = StepTime()
        self._num_collected = 0
        self._stops_on_non_finite = config.options.stop_on_nonfinite_train_score
        self._num_allowed_invalid = config.options.num_allowed_consec_invalid_gradient_steps
        self._num_invalid = 0  # updates in a row that were left out
        self._has_checked_use = False

    # Learning rate.

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of the epoch."""
        self.learning_rate = learning_rate

    def _set_rate_of_step(self) -> None:
        rate = learning_rate_of_step(
            self.config.options.dynamic_learning_rate,
            self._time,
            learning_rate=self.learning_rate * self.learning_rate_factor,
            network=self.model,
        )
        self.effective_learning_rate = rate
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get(MULTIPLIER, 1.0)

    # Steps.

    def set_time(self, time: StepTime) -> None:
        """:param time: of the step to come"""
        self._time = time

    @property
    def has_collected(self) -> bool:
        """Whether there are gradients that wait for an update."""
        return self._num_collected > 0

    @property
    def is_next_update(self) -> bool:
        """Whether the next step updates the parameters, not only collects gradients."""
        return self._num_collected + 1 >= self._num_accum_steps

    @property
    def _num_accum_steps(self) -> int:
        return num_accumulated_steps(self.config.options.accum_grad_multiple_step, self._time)

    def step(self, objective: torch.Tensor, time: StepTime) -> dict[str, float]:
        """
        Updates the parameters, or collects gradients for that.

        :param objective: scalar to minimize
        :param time: when it is
        :return: what is to be told about the step, by name
        :raises NonFiniteError: if objective or gradients are not finite; the parameters are those of before
        """
        self.set_time(time)
        self.collect([objective])
        return self.update_if_due()

    def collect(self, objectives: Iterable[torch.Tensor]) -> None:
        """
        The gradients of a step.

        :param objectives: scalars, made one after the other, whose sum is to be minimized
        :raises NonFiniteError: if one is not finite
        """
        if not self._num_collected:
            self.optimizer.zero_grad(set_to_none=True)
        for objective in objectives:
            self._check_objective(objective)
            (objective if self.scaler is None else self.scaler.scale(objective)).backward()
        self._check_use()
        self._num_collected += 1

    def update_if_due(self) -> dict[str, float]:
        """
        Updates the parameters, if enough steps are collected.

        :return: see `step`
        """
        if self._num_collected < self._num_accum_steps:
            return {}
        return self.update()

    def update(self) -> dict[str, float]:
        """
        Updates the parameters with the gradients that were collected, if there are any.

        :return: see `step`
        """
        if not self._num_collected:
            return {}
        self._num_collected = 0
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        gradients = gradients_of(self.parameters)
        if self._options.filters_non_finite:
            filter_non_finite_(gradients)
        details = {}
        with torch.no_grad():
            if self.config.options.log_grad_norm:
                details["grad_norm"] = float(norm_of(gradients))
            if not self._may_update(gradients):
                return details
            process_gradients_(gradients, self._options)
        self._set_rate_of_step()
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if self.config.options.decouple_constraints:
            self._decay()
        return details

    def forget_gradients(self) -> None:
        """Leaves out what was collected."""
        self._num_collected = 0
        self.optimizer.zero_grad(set_to_none=True)

    def _check_objective(self, objective: torch.Tensor) -> None:
        if not objective.requires_grad:
            raise ConfigError(
                f"training: the losses depend on none of the {counted(len(self.parameters), 'parameter')}, so none "
                "can change."
            )
        if self._stops_on_non_finite and not bool(torch.isfinite(objective)):
            raise NonFiniteError("the loss is not finite")

    def _may_update(self, gradients: Mapping[str, torch.Tensor]) -> bool:
        """
        :return: False if the update is to be left out
        :raises NonFiniteGradient: if gradients are not finite, and that is not allowed any more
        """
        if not self._stops_on_non_finite and self._num_allowed_invalid is None:
            return True
        if self.scaler is not None and self.scaler.get_scale() >= 1.0:
            return True  # infinite gradients may come from the scale; then the scaler leaves out the step
        if bool(torch.isfinite(norm_of(gradients))):
            self._num_invalid = 0
            return True
        self._num_invalid += 1
        allowed = self._num_allowed_invalid or 0
        if self._num_invalid <= allowed:
            log.print_warning(
                f"training step {self._time.global_train_step}: a gradient is not finite, so there is no update"
                f" ({self._num_invalid} in a row, of {allowed} that are allowed)"
            )
            self.forget_gradients()
            if self.scaler is not None:
                self.scaler.update()
            return False
        wrong = [name for name, gradient in gradients.items() if not bool(torch.isfinite(gradient).all())]
        text = f"It is that of {some_of(wrong, 3)}." if wrong else "Each one alone is finite, but not the norm of all."
        self.forget_gradients()
        raise NonFiniteGradient(text)

    def _check_use(self) -> None:
        """Tells once which parameters the losses do not depend on."""
        if self._has_checked_use:
            return
        self._has_checked_use = True
        unused = [name for name, parameter in self.parameters.items() if parameter.grad is None]
        if unused:
            print(f"The losses do not depend on {counted(len(unused), 'parameter')}: {', '.join(unused)}.", file=log.v2)

    @torch.no_grad()
    def _decay(self) -> None:
        """Gradient descent on the L2 constraints of single parameters, with `decouple_constraints_factor`."""
        factor = self.config.options.decouple_constraints_factor
        for param in self.model.parameters() if isinstance(self.model, rf.Module) else ():
            if param.weight_decay and param.trainable:
                param.raw_tensor.mul_(1.0 - 2.0 * factor * param.weight_decay)

    # State.

    def collected(self) -> tuple[dict[str, torch.Tensor], int]:
        """:return: gradients that were collected, by name of the parameter; from how many steps"""
        return (gradients_of(self.parameters) if self._num_collected else {}), self._num_collected

    def restore_collected(self, gradients: Mapping[str, torch.Tensor], num_collected: int) -> None:
        """Goes on with what `collected` returned."""
        for name, parameter in self.parameters.items():
            parameter.grad = gradients.get(name)
        self._num_collected = num_collected

    def state(self) -> dict[str, Any]:
        """:return: of optimizer and scaler, for a checkpoint"""
        state = state_of_optimizer(self.optimizer, self.parameters)
        if self.scaler is not None:
            state["grad_scaler"] = self.scaler.state_dict()
        return state

    def state_tensors(self) -> dict[str, torch.Tensor]:
        """:return: what the optimizer keeps for each parameter, by `optimizer.PARAMETER.NAME`"""
        return {
            f"optimizer.{name}.{key}": value
            for name, parameter in self.parameters.items()
            for key, value in self.optimizer.state.get(parameter, {}).items()
            if isinstance(value, torch.Tensor)
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """
        :param state: what `state` returned, of the same model and optimizer
        :raises ConfigError: if it is of others
        """
        load_state_of_optimizer(self.optimizer, self.parameters, state)
        if self.scaler is not None and "grad_scaler" in state:
            self.scaler.load_state_dict(state["grad_scaler"])


class NonFiniteGradient(NonFiniteError):
    """A gradient is not finite, though the loss is."""
