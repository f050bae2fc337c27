"""
One training step's update of all parameters, as a single op of the graph.

Gradients of the objective -> what `gradient_steps` does to them -> optimizers -> decoupled constraints, and
`extra_updates` -> the number of the step grows by 1. With `accum_grad_multiple_step`, everything after the gradients
waits until enough steps are collected. Parameters with a `CustomUpdate` are changed by that instead, in each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import tensorflow as tf

from returnn.config import Config
from returnn.engine.run.worker_options import WorkerOptions
from returnn.log import log
from returnn.tf.optimizers.accumulate import add_to_accumulator, apply_every, new_accumulator
from returnn.tf.updater import debug, gradient_steps
from returnn.tf.updater.finite_gradients import NonFiniteGradients, checks_of_gradients, find_non_finite_gradients
from returnn.tf.updater.gradient_options import GradientOptions, VariableOptions
from returnn.tf.updater.gradient_steps import VariableGradient
from returnn.tf.updater.learning_rate import learning_rate_of_step
from returnn.tf.updater.loss_scale import LossScale, LossScaleOptions
from returnn.tf.updater.network_protocol import LayerDemands, TrainedNetwork, demands_of_layers
from returnn.tf.updater.objective_gradients import gradients_of_objective
from returnn.tf.updater.optimizer_choice import OptimizerChoice, choose_optimizer
from returnn.tf.util.collectives import current_group, sum_gradients
from returnn.tf.util.parameters.custom_update import CustomUpdate
from returnn.util.errors import ConfigError, check_known
from returnn.util.texts.counted import counted

_SCOPE = "optimize"  # of all variables that are made here; part of their names in checkpoints


@dataclass(frozen=True)
class OptimizerKey:
    """Variables with equal keys share an optimizer."""

    choice: OptimizerChoice
    num_accum_steps: int


class Updater:
    """Builds the op of the update, and keeps what belongs to it: optimizers, learning rate, number of the step."""

    def __init__(
        self,
        config: Config,
        network: TrainedNetwork | None = None,
        initial_learning_rate: float = 1.0,
        *,
        objective: tf.Tensor | None = None,
        global_train_step_var: tf.Variable | None = None,
    ):
        """
        :param config: all options are read from here
        :param network: with parameters and losses
        :param initial_learning_rate: see `set_learning_rate`
        :param objective: scalar to minimize; by default that of the network
        :param global_train_step_var: int64, number of the step, from 0; by default that of the network
        """
        self.config = config
        self.network = network
        self.initial_learning_rate = initial_learning_rate
        self.loss = objective
        self.use_locking = config.options.optimizer_use_locking
        self.decouple_constraints = config.options.decouple_constraints
        self.log_grad_norm = bool(config.options.log_grad_norm)
        self.log_grad_norm_tensor: tf.Tensor | None = None
        self.optim_meta_losses_dict: dict[str, tf.Tensor] = {}
        self._stops_on_non_finite = config.options.stop_on_nonfinite_train_score
        self._workers = WorkerOptions.from_config(config) or WorkerOptions()
        self._gradient_options = GradientOptions.from_config(config)
        self._loss_scale_options = LossScaleOptions.from_config(config)
        if config.options.deterministic_train:
            tf.config.experimental.enable_op_determinism()

        if global_train_step_var is None:
            global_train_step_var = network.global_train_step_var if network else _new_step_variable()
        self.global_train_step_var = global_train_step_var
        self.global_train_step = global_train_step_var.read_value()
        self.learning_rate_var = tf.compat.v1.Variable(
            initial_learning_rate, name="learning_rate", trainable=False, dtype=tf.float32, use_resource=True
        )
        self._new_learning_rate = tf.compat.v1.placeholder(tf.float32, (), name="new_learning_rate")
        self._assign_learning_rate = self.learning_rate_var.assign(self._new_learning_rate, read_value=False)
        self.learning_rate = self.get_current_step_learning_rate()

        self.trainable_vars: list[tf.Variable] = []
        self.optimizers: dict[OptimizerKey, object] = {}
        self._default_key: OptimizerKey | None = None
        self._accumulators: dict[object, tf.Variable] = {}
        self._loss_scale: LossScale | None = None
        self._demands: LayerDemands | None = None
        self.reset_optim_op()

    # Learning rate.

    def set_learning_rate(self, value: float, session: tf.compat.v1.Session) -> None:
        """Sets the learning rate for the steps to come."""
        session.run(self._assign_learning_rate, {self._new_learning_rate: value})

    def get_current_step_learning_rate(self) -> tf.Tensor:
        """:return: float32 scalar, with `dynamic_learning_rate`"""
        learning_rate = self.learning_rate_var.read_value()
        group = current_group()
        if group is not None and self._workers.scale_lr:
            learning_rate *= group.size
        return learning_rate_of_step(
            self.config.options.dynamic_learning_rate,
            learning_rate=learning_rate,
            global_train_step=self.global_train_step,
            network=self.network,
        )

    # The op.

    def set_trainable_vars(self, trainable_vars: Sequence[tf.Variable]) -> None:
        """:param trainable_vars: what is to be updated"""
        if [var.ref() for var in trainable_vars] == [var.ref() for var in self.trainable_vars]:
            return
        self.trainable_vars = list(trainable_vars)
        self.reset_optim_op()

    def reset_optim_op(self) -> None:
        """Forgets the op, because something has changed that it depends on. Optimizers keep their variables."""
        self.optim_op: tf.Operation | None = None
        self.optimizer_init_vars_op: tf.Operation | None = None
        self.optimizer_vars: list[tf.Variable] = []
        self.all_vars: list[tf.Variable] = []
        self._items: list[VariableGradient] = []
        self.all_grads: list[tf.Tensor | tf.IndexedSlices | None] = []
        self.var_grads: dict[object, tf.Tensor | tf.IndexedSlices] = {}
        self.vars_by_tag: dict[str, list[tf.Variable]] = {}
        self._demands = None

    def get_optim_op(self, callback_on_new: Callable[[], object] | None = None) -> tf.Operation:
        """
        :param callback_on_new: called if the op is made now
        :return: op that updates everything by one step
        """
        if self.optim_op is None:
            self.create_optim_op()
            if callback_on_new:
                callback_on_new()
        return self.optim_op

    def create_optim_op(self) -> None:
        """Makes `optim_op`. :raises ConfigError: if there is nothing to update"""
        if not self.trainable_vars:
            raise ConfigError("training: the network has no trainable parameters.\n  Use task 'eval', or add a layer.")
        if self.loss is None:
            self.loss = self.network.get_objective()
        with tf.compat.v1.variable_scope(_SCOPE):
            if self._loss_scale is None and self._loss_scale_options is not None:
                self._loss_scale = LossScale(self._loss_scale_options)
            apply_op = self.get_apply_grads_op(self.loss, self.trainable_vars)
            self._collect_optimizer_vars()
            with tf.control_dependencies([apply_op]):
                updates = [apply_op, *self._extra_updates()]
                updates += [] if self._loss_scale is None else [self._loss_scale.update()]
            updates += tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
            updates += self.network.get_post_control_dependencies() if self.network else []
            with tf.control_dependencies([*updates, self.global_train_step]):
                next_step = self.global_train_step_var.assign_add(1, read_value=False)
            self.optim_op = tf.group(*updates, next_step, name="optim_op")

    def init_optimizer_vars(self, session: tf.compat.v1.Session) -> None:
        """Sets everything that the optimizers keep to its initial value."""
        self.get_optim_op()
        session.run(self.optimizer_init_vars_op)

    def get_end_of_training_op(self) -> tf.Operation | None:
        """:return: op that sets parameters to their running average (`use_ema`); None if no optimizer keeps one"""
        optimizers = [opt for opt in self.optimizers.values() if getattr(opt, "use_ema", False)]
        return tf.group(*(opt.overwrite_with_average() for opt in optimizers)) if optimizers else None

    def get_apply_grads_op(self, loss: tf.Tensor, var_list: Sequence[tf.Variable]) -> tf.Operation:
        """
        :param loss: scalar
        :param var_list: what is to be updated
        :return: op that computes the gradients and updates the variables
        :raises ConfigError: if the loss depends on none of them
        """
        custom = [(var, CustomUpdate.of_var(var)) for var in var_list]
        var_list = [var for var, update in custom if update is None]
        self.create_all_needed_optimizers(var_list)
        self._set_vars_by_tag(var_list)
        items = self._gradients(loss, var_list) if var_list else []
        self._items = items
        with tf.control_dependencies([loss, *self._numeric_checks(loss, items)]):
            updates = [update.update_var(var) for var, update in custom if update is not None]
            for num_steps, group in groupby(sorted(items, key=_num_accum_steps), key=_num_accum_steps):
                updates.append(self._apply_or_collect(list(group), num_steps))
        return tf.group(*updates)

    def find_non_finite_gradients(
        self, session: tf.compat.v1.Session, feed: Mapping[tf.Tensor, object]
    ) -> NonFiniteGradients | None:
        """
        :param session: with the parameters as they were before the step
        :param feed: of the step
        :return: where gradients of the step are not finite
        """
        layers = self.network.get_all_layers_deep() if self.network else ()
        return find_non_finite_gradients(self._items, layers, session, feed)

    # Optimizers.

    def create_all_needed_optimizers(self, train_vars: Sequence[tf.Variable]) -> None:
        """Creates those that are not there yet, and what they keep for these variables."""
        variables: dict[OptimizerKey, list[tf.Variable]] = {}
        for var in train_vars:
            variables.setdefault(self._optimizer_key(self._options_of(var)), []).append(var)
        for key in variables:
            self._get_optimizer(key)

    def get_default_optimizer(self) -> object:
        """:return: that of the variables whose layer asks for no other"""
        return self.get_default_optimizer_item(auto_create_new=True)[1]

    def get_default_optimizer_item(self, auto_create_new: bool) -> tuple[OptimizerKey, object]:
        """
        :param auto_create_new: make it if there is none yet
        :return: its key in `optimizers`, and the optimizer
        """
        key = self._optimizer_key(VariableOptions(self._gradient_options))
        if key not in self.optimizers and not auto_create_new:
            raise KeyError(f"There is no default optimizer yet, {key.choice}.")
        return key, self._get_optimizer(key)

    def filter_var_list_per_optimizer_key(
        self, var_list: Sequence[tf.Variable], opt_key: OptimizerKey
    ) -> list[tf.Variable]:
        """:return: those of the variables that belong to that optimizer"""
        return [var for var in var_list if self._optimizer_key(self._options_of(var)) == opt_key]

    def get_slot(self, var: tf.Variable, name: str) -> tf.Variable | None:
        """:return: what an optimizer keeps for the variable under that name, e.g. "m"; None if there is none"""
        slots = (optimizer.get_slot(var, name) for optimizer in self.optimizers.values())
        return next((slot for slot in slots if slot is not None), None)

    def get_slot_names_per_optimizer(self) -> dict[OptimizerKey, list[str]]:
        """:return: e.g. ["m", "v"] for each optimizer"""
        return {key: list(optimizer.get_slot_names()) for key, optimizer in self.optimizers.items()}

    def _optimizer_key(self, options: VariableOptions) -> OptimizerKey:
        if options.optimizer is None and self._default_key is not None:
            choice = self._default_key.choice
        else:
            choice = choose_optimizer(self.config, options.optimizer, where=options.where)
        key = OptimizerKey(choice, options.gradient.num_accum_steps())
        if options.optimizer is None and self._default_key is None:
            self._default_key = key
        return key

    def _get_optimizer(self, key: OptimizerKey) -> object:
        if key not in self.optimizers:
            print(f"Create optimizer {key.choice}.", file=log.v3)
            self.optimizers[key] = key.choice.create(self.learning_rate)
        return self.optimizers[key]

    def _collect_optimizer_vars(self) -> None:
        kept = [var for optimizer in self.optimizers.values() for var in optimizer.variables()]
        scale = [] if self._loss_scale is None else self._loss_scale.variables
        self.optimizer_vars = [*kept, *self._accumulators.values(), *scale]
        self.optimizer_init_vars_op = tf.group(*(var.initializer for var in self.optimizer_vars))
        if self.config.options.debug_save_updater_vars:
            print("Variables of the updater, saved with the model:", file=log.v1)
            for var in self.optimizer_vars:
                print(f"  {var.op.name} {var.shape.as_list()}", file=log.v1)
        if self.network:
            known = {var.ref() for var in self.network.extra_vars_to_save}
            self.network.extra_vars_to_save.extend(var for var in self.optimizer_vars if var.ref() not in known)
            self.network.reset_saver()

    # Gradients.

    def _get_demands(self) -> LayerDemands:
        if self._demands is None:
            layers = self.network.get_all_layers_deep() if self.network else ()
            self._demands = demands_of_layers(layers, self._gradient_options)
        return self._demands

    def _options_of(self, var: tf.Variable) -> VariableOptions:
        return self._get_demands().options.get(var.ref(), VariableOptions(self._gradient_options))

    def _set_vars_by_tag(self, var_list: Sequence[tf.Variable]) -> None:
        self.vars_by_tag = {}
        for var in var_list:
            for tag in self._options_of(var).tags:
                self.vars_by_tag.setdefault(tag, []).append(var)

    def _gradients(self, loss: tf.Tensor, var_list: Sequence[tf.Variable]) -> list[VariableGradient]:
        """:return: those that take part in every step, also where the update waits for more of them"""
        scale = self._loss_scale
        factors = [self._loss_scale_of(var) for var in var_list]
        grads, meta_losses = gradients_of_objective(loss if scale is None else scale.scaled(loss), var_list, factors)
        if scale is not None:
            if meta_losses:
                raise ConfigError(
                    f"option 'grad_scaler': the loss {meta_losses[0].name!r} is about gradients, so it has no scale.\n"
                    "  Use tf_amp = 'bfloat16', which needs no scale."
                )
            grads = [None if grad is None else scale.unscaled(grad) for grad in grads]
        self.optim_meta_losses_dict.update((meta.name, meta.value) for meta in meta_losses)
        self.all_vars, self.all_grads = list(var_list), grads
        self.var_grads = {v.ref(): g for v, g in zip(var_list, grads, strict=True) if g is not None}
        unused = [var.op.name for var, grad in zip(var_list, grads, strict=True) if grad is None]
        if len(unused) == len(var_list):
            raise ConfigError(
                f"training: the losses depend on none of the {counted(len(unused), 'parameter')}, so none can change."
            )
        if unused:
            print(f"The losses do not depend on {counted(len(unused), 'parameter')}: {', '.join(unused)}.", file=log.v2)
        if self._workers.reduce_type == "grad":
            grads = sum_gradients(grads, var_list, mean=self._workers.combine == "mean")
        items = [
            VariableGradient(var, grad, self._options_of(var))
            for var, grad in zip(var_list, grads, strict=True)
            if grad is not None
        ]
        items = gradient_steps.maximize_norm(gradient_steps.without_repeated_rows(items))
        self._add_norm(items)
        debug.add_gradient_summaries(items)
        items = gradient_steps.filter_not_finite(items)
        if scale is not None:
            scale.look_at(items)
        return items

    def _loss_scale_of(self, var: tf.Variable) -> float:
        optimizer = self.optimizers[self._optimizer_key(self._options_of(var))]
        return getattr(optimizer, "loss_scale_factor", None) or 1.0

    def _add_norm(self, items: Sequence[VariableGradient]) -> None:
        has_maximized = any(item.options.gradient.maximize_grad_norm for item in items)
        if not (self.log_grad_norm or has_maximized):
            return
        norm = gradient_steps.norm_of(items)
        if self.log_grad_norm:
            self.log_grad_norm_tensor = norm
        self.optim_meta_losses_dict["grad_norm"] = norm

    def _numeric_checks(self, loss: tf.Tensor, items: Sequence[VariableGradient]) -> list[tf.Operation]:
        if self.config.options.debug_add_check_numerics_ops:
            return debug.check_numerics_ops([loss, *(gradient_steps.values_of(item.grad) for item in items)])
        with tf.control_dependencies([loss]):  # whose own check comes first
            if not self._stops_on_non_finite:
                return []
            return checks_of_gradients(
                items, unless=None if self._loss_scale is None else self._loss_scale.can_shrink()
            )

    # Update.

    def _apply_or_collect(self, items: Sequence[VariableGradient], num_steps: int) -> tf.Operation:
        if num_steps == 1 and self._loss_scale is None:
            return self._apply(items)
        for optimizer, variables in self._by_optimizer(items):
            if hasattr(optimizer, "create_slots"):
                optimizer.create_slots([item.var for item in variables])
        if num_steps == 1:
            return self._loss_scale.apply_if_finite(lambda: self._apply(items))
        if self._loss_scale is not None:
            items = self._loss_scale.zero_if_not_finite(items)
        totals = [replace(item, grad=self._accumulate(item, num_steps)) for item in items]
        return apply_every(
            num_steps, self.global_train_step, lambda: self._apply(totals), after=[item.grad for item in totals]
        )

    def _accumulate(self, item: VariableGradient, num_steps: int) -> tf.Tensor:
        ref, var = item.var.ref(), item.var
        if ref not in self._accumulators:
            self._accumulators[ref] = new_accumulator(var)
        return add_to_accumulator(item.grad, var, self._accumulators[ref], self.global_train_step, num_steps)

    def _apply(self, items: Sequence[VariableGradient]) -> tf.Operation:
        items = gradient_steps.process_gradients(items, self.vars_by_tag)
        updates = [
            optimizer.apply_gradients([(item.grad, item.var) for item in group])
            for optimizer, group in self._by_optimizer(items)
        ]
        if self.decouple_constraints:
            with tf.control_dependencies(updates):
                updates += self._decay([item.var for item in items])
        return tf.group(*updates)

    def _by_optimizer(self, items: Sequence[VariableGradient]) -> list[tuple[object, list[VariableGradient]]]:
        groups: dict[OptimizerKey, list[VariableGradient]] = {}
        for item in items:
            groups.setdefault(self._optimizer_key(item.options), []).append(item)
        return [(self.optimizers[key], group) for key, group in groups.items()]

    def _decay(self, variables: Sequence[tf.Variable]) -> list[tf.Operation]:
        """:return: gradient descent on the L2 constraints, with learning rate `decouple_constraints_factor`"""
        factor = self.config.options.decouple_constraints_factor
        l2 = self._get_demands().l2
        return [
            var.assign_sub(2.0 * factor * l2[var.ref()] * var.read_value(), self.use_locking, read_value=False)
            for var in variables
            if l2.get(var.ref())
        ]

    def _extra_updates(self) -> list[tf.Operation]:
        """:return: ops of `extra_updates`: name of a parameter -> function of it that makes an op"""
        functions = self.config.options.extra_updates or {}
        variables = {var.op.name: var for var in self.trainable_vars}
        for name in functions:
            check_known("parameter", name, variables, where="option 'extra_updates'")
        return [tf.group(function(var=variables[name])) for name, function in functions.items()]


def _num_accum_steps(item: VariableGradient) -> int:
    return item.options.gradient.num_accum_steps()


def _new_step_variable() -> tf.Variable:
    return tf.compat.v1.Variable(0, name="global_step", trainable=False, dtype=tf.int64, use_resource=True)
