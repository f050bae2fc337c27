"""
`GraphRunner`: a model of the frontend, computed by graphs of TensorFlow.

`get_model`, `train_step` and `forward_step` are called once. They make a graph, and a session runs it for each batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.config.preloaded_file import preloaded_files
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.engine.data_identity import warn_of_labels_of_preloaded
from returnn.engine.frontend.batch_arrays import ArrayBatch, ArrayMaker
from returnn.engine.frontend.extern_data import extern_data_of_config
from returnn.engine.frontend.feeder import thread_feeder
from returnn.engine.frontend.functions import ModelFunctions
from returnn.engine.frontend.losses import LossPerSeq, check_objective, l2_losses, loss_tensors
from returnn.engine.frontend.outputs import OutputArray, output_arrays, output_tensors
from returnn.engine.frontend.preload import ValuesToPreload, check_fit
from returnn.engine.frontend.runner import Step
from returnn.engine.run.mixed_precision import amp_dtype
from returnn.engine.run.non_finite import WHAT_HELPS, NonFiniteError, text_about_parameter
from returnn.engine.run.unfinished import UnfinishedEpoch
from returnn.engine.training_position import PositionError, TrainingPosition
from returnn.tensor import Tensor, TensorDict
from returnn.tf import checkpoint as checkpoints
from returnn.tf.checkpoint.unfinished import Snapshot, UnfinishedCheckpoints, read_unfinished_values
from returnn.tf.checkpoint_rf import read_checkpoint, values_by_path, variable_name
from returnn.tf.distributed.shared_parameters import SharedParameters
from returnn.tf.distributed.workers import Workers, init_workers, is_collective_error
from returnn.tf.engine.passes.non_finite import NON_FINITE_LOSS, checked_objective, first_non_finite_variable
from returnn.tf.engine.session.device import computes_on_host, session_options
from returnn.tf.engine.session.graph_ops import feed_without_others, gradients_op
from returnn.tf.engine_rf.losses_of_all import factors_of_all
from returnn.tf.engine_rf.step_graph import GraphInputs, StepGraph, as_fetches, noted_effects, noted_results
from returnn.tf.engine_rf.trained_params import ModelAsNetwork
from returnn.tf.frontend_low_level.raw_random import run_seed_feed
from returnn.tf.updater import Updater
from returnn.tf.updater.finite_gradients import NON_FINITE_GRADIENT
from returnn.tf.util.collectives import share_of_constraints
from returnn.tf.util.op_error import op_error_text
from returnn.tf.util.parameters.assign import assign_values
from returnn.util.errors import ConfigError, UserError
from returnn.util.files.checkpoint_files import CheckpointError

tf1 = tf.compat.v1
_STEP_NAME = "global_step"
_TRAIN_OP = "train_op"
_RATE = "learning_rate"
_PER_SEQ = "per_seq/"


class GraphRunner:
    """See `returnn.engine.frontend.runner.ModelRunner`."""

    checkpoints = checkpoints
    unfinished = UnfinishedCheckpoints()
    all_scores_are_losses = False

    def __init__(self, config: Config) -> None:
        """:param config: options"""
        self.config = config
        is_training = config.options.task == "train"
        self.processes: Workers | None = init_workers(config, session_options(config)) if is_training else None
        self._shared: SharedParameters | None = None  # with the other workers
        self.functions = ModelFunctions(config)
        self.templates: TensorDict = extern_data_of_config(config)
        self.model: Any = None  # by build, as all of these
        self.parameters: dict[str, rf.Parameter] = {}
        self.session: tf.compat.v1.Session = None  # type: ignore[assignment]
        self.updater: Updater | None = None
        self._graph: tf.Graph = None  # type: ignore[assignment]
        self._inputs: GraphInputs = None  # type: ignore[assignment]
        self._global_step: tf.Variable = None  # type: ignore[assignment]
        self._losses: StepGraph | None = None
        self._outputs: tuple[StepGraph, dict[str, Tensor]] | None = None
        self._per_seq: dict[str, Any] | None = None
        self._marked: dict[str, rf.Loss] = {}
        self._all_variables: dict[str, tf.Variable] = {}
        self._all_values: dict[str, tf.Tensor] = {}  # of these
        self._writer: checkpoints.CheckpointWriter | None = None
        self._preloaded = preloaded_files(config.options.preload_from_files, ValuesToPreload)
        self._num_steps = 0
        self._last_rate = config.options.learning_rate

    @property
    def train_step(self) -> int:
        """Number of training steps so far."""
        return self._num_steps

    @property
    def num_params(self) -> int:
        """Number of entries of all parameters."""
        return sum(int(numpy.prod([dim.size for dim in param.dims])) for param in self.parameters.values())

    @property
    def is_on_host(self) -> bool:
        """Whether it is computed on CPUs."""
        return computes_on_host(self.config)

    # Model and parameters.

    def build(self, *, epoch: int, filename: str | None, is_training: bool, is_own: bool, step: int = 0) -> None:
        """Makes the graph of the model, and a session with its parameters, see `ModelRunner`."""
        own = session_options(self.config) if self.processes is None else self.processes.session_options()
        options = {**own, **(self.config.options.tf_session_opts or {})}
        values = read_checkpoint(filename) if filename is not None else {}
        self._num_steps = int(values.get(_STEP_NAME, step)) if is_own else 0
        self.close()
        self._losses = self._outputs = self._per_seq = self._writer = None
        tf1.reset_default_graph()
        tf1.disable_eager_execution()
        tf1.set_random_seed(self.config.options.random_seed)
        rf.select_backend_tf()
        self._graph = tf1.get_default_graph()
        self._inputs = GraphInputs(self.templates)
        self._global_step = tf1.Variable(0, name=_STEP_NAME, trainable=False, dtype=tf.int64, use_resource=True)
        with self._float_dtype():
            self.model = self.functions.make_model(epoch=epoch, step=self._num_steps)
        if not isinstance(self.model, rf.Module):
            raise ConfigError(
                f"option 'get_model': the function returned a {type(self.model).__name__}.\n"
                "  It has to return an rf.Module, for backend = 'tensorflow'."
            )
        self.parameters = dict(self.model.named_parameters())
        for param in self.parameters.values():
            assert param.raw_tensor is not None  # a variable is made when it is first asked for
        if is_training:
            self._add_training()
        self._start_session(options)
        self._set_values(values, filename, is_training=is_training, is_own=is_own)
        if self.processes is not None:
            self._shared = self._shared_parameters(self.processes)
            self._shared.begin(self._all_variables)

    def _shared_parameters(self, workers: Workers) -> SharedParameters:
        variables = {name: param.raw_tensor for name, param in self.parameters.items()}
        trained = [variables[name] for name, param in self.parameters.items() if param.trainable]
        return SharedParameters(workers, self.session, trained=lambda: trained, saved=lambda: [*variables.values()])

    def _add_training(self) -> None:
        losses = self._loss_graph()
        check_objective(rf.get_run_ctx().losses)
        with self._float_dtype():
            objective: Any = rf.get_run_ctx().total_loss(factors=factors_of_all(self._marked))
            if not self.config.options.decouple_constraints:
                constraints: Any = l2_losses(self.model)
                objective = objective + share_of_constraints(constraints)
        raw = tf.convert_to_tensor(objective.raw_tensor if isinstance(objective, Tensor) else objective)
        if self.config.options.stop_on_nonfinite_train_score:
            raw = checked_objective(raw)
        network = ModelAsNetwork(self.parameters, raw, self._global_step)
        self.updater = Updater(self.config, network, self.config.options.learning_rate, objective=raw)  # type: ignore[arg-type]
        self.updater.set_trainable_vars(network.get_trainable_params())
        self.updater.get_optim_op()
        assert losses.fetches

    def _start_session(self, options: Mapping[str, Any]) -> None:
        try:
            proto = tf1.ConfigProto(**options)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"option 'tf_session_opts': {exc}") from exc
        target = "" if self.processes is None else self.processes.session_target
        self.session = tf1.Session(target, graph=self._graph, config=proto)
        seed = run_seed_feed(self._graph, [self.config.options.random_seed])
        self.session.run(tf1.global_variables_initializer(), seed)
        variables = {name: param.raw_tensor for name, param in self.parameters.items()}
        saved = {variable_name(name): var for name, var in variables.items()}
        more = [self._global_step, *(self.updater.optimizer_vars if self.updater is not None else [])]
        self._saved = {**saved, **{var.op.name: var for var in more}}
        names = {var.ref(): name for name, var in self._saved.items()}
        self._all_variables = {names.get(var.ref(), var.op.name): var for var in tf1.global_variables()}
        with tf.device("/cpu:0"):
            self._all_values = {name: var.read_value() for name, var in self._all_variables.items()}

    def _set_values(self, values: Mapping[str, Any], filename: str | None, *, is_training: bool, is_own: bool) -> None:
        variables = {name: param.raw_tensor for name, param in self.parameters.items()}
        new: dict[Any, Any] = {}
        preloaded: set[str] = set()
        for file in self._preloaded:
            if file.is_needed(is_training=is_training, has_own_checkpoint=is_own):
                with file.opened():
                    content = read_checkpoint(file.filename)
                found = file.values(variables, values_by_path(content))
                shapes = {name: variables[name].shape.as_list() for name in found}
                warn_of_labels_of_preloaded(file, self.config, shapes)
                new.update({variables[name].ref(): numpy.asarray(value) for name, value in found.items()})
                preloaded |= set(found)
        if filename is not None:
            new.update(self._values_of_checkpoint(values, filename, leave_out=preloaded))
            if is_own:
                new.update(self._values_of_updater(values, filename))
        assign_values(self.session, new)

    def _values_of_checkpoint(self, values: Mapping[str, Any], filename: str, *, leave_out: set[str]) -> dict[Any, Any]:
        """:return: value of each parameter, by `ref()` of its variable"""
        variables = {name: param.raw_tensor for name, param in self.parameters.items()}
        others = {var.op.name for var in self._saved.values()} | {_STEP_NAME}
        by_path = {
            name: value
            for name, value in values_by_path(values).items()
            if name in variables or not (variable_name(name) in others or name.startswith("optimize."))
        }
        check_fit(
            variables,
            by_path,
            filename=filename,
            leave_out=leave_out,
            ignore_missing=self.config.options.load_ignore_missing_vars,
            non_critical={name for name, param in self.parameters.items() if param.non_critical_for_restore},
            other_names=lambda name: False,
        )
        return {
            var.ref(): by_path[name] for name, var in variables.items() if name in by_path and name not in leave_out
        }

    def _values_of_updater(self, values: Mapping[str, Any], filename: str) -> dict[Any, Any]:
        """:return: state of the optimizer and number of the step"""
        params = {param.raw_tensor.ref() for param in self.parameters.values()}
        rest = {name: var for name, var in self._saved.items() if var.ref() not in params}
        missing = [name for name in rest if name not in values]
        if missing and self.updater is not None:
            raise CheckpointError(
                f"checkpoint {filename!r}: the state of the optimizer is of another one: {missing[0]!r} is missing.\n"
                "  To begin with a new state, set 'import_model_train_epoch1', in place of going on."
            )
        return {var.ref(): values[name] for name, var in rest.items() if name in values}

    def is_preloaded(self, *, is_training: bool) -> bool:
        """:return: whether `preload_from_files` has parameters for the model"""
        return any(file.is_needed(is_training=is_training, has_own_checkpoint=False) for file in self._preloaded)

    def save(self, filename: str, *, epoch: int, may_be_broken: bool = False) -> None:
        """
        Writes a checkpoint of TensorFlow: parameters, state of the optimizer, number of the step.

        :raises CheckpointError: if it cannot be written, or has values that are not finite
        """
        if self._writer is None:
            with self._graph.as_default():
                self._writer = checkpoints.CheckpointWriter(self._saved)
        self._writer.save(self.session, filename, may_be_broken=may_be_broken)

    def load(self, filename: str) -> None:
        """Loads a checkpoint of this training."""
        values = read_checkpoint(filename)
        new = self._values_of_checkpoint(values, filename, leave_out=set())
        new.update(self._values_of_updater(values, filename))
        assign_values(self.session, new)

    def snapshot(self) -> Snapshot:
        """:return: all that training changes, copied"""
        trained = frozenset(variable_name(name) for name, param in self.parameters.items() if param.trainable)
        return Snapshot(self.session.run(self._all_values), trained)

    def restore(self, unfinished: UnfinishedEpoch) -> None:
        """
        Sets all that training changes.

        :raises PositionError: if it is of another model
        """
        values = read_unfinished_values(unfinished.checkpoint, unfinished.part)
        variables = self._all_variables
        other = sorted(set(values) ^ set(variables)) or [
            name for name, var in variables.items() if not var.shape.is_compatible_with(values[name].shape)
        ]
        if other:
            raise PositionError(
                f"The model is another one by now: {other[0]!r} is in one of them alone, or has another shape."
            )
        assign_values(self.session, {var.ref(): values[name] for name, var in variables.items()})
        self._num_steps = int(values[_STEP_NAME])

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of the steps to come."""
        assert self.updater is not None
        self.updater.set_learning_rate(learning_rate, session=self.session)

    def close(self) -> None:
        """Frees the session."""
        if self.session is not None:
            self.session.close()

    # Steps.

    def feeder(
        self,
        maker: ArrayMaker,
        batches: BatchSetGenerator,
        *,
        while_waiting: Callable[[], None],
        resumed_at: TrainingPosition | None,
    ) -> AbstractContextManager[Iterable[ArrayBatch]]:
        """:return: batches from a thread"""
        return thread_feeder(self.config, maker, batches, while_waiting=while_waiting, resumed_at=resumed_at)

    def train(self, batch: ArrayBatch, step: Step) -> Mapping[str, float]:
        """Updates the parameters, see `ModelRunner`."""
        assert self.updater is not None
        losses = self._loss_graph()
        meta = {f"meta:{name}": value for name, value in self.updater.optim_meta_losses_dict.items()}
        fetches = {
            **losses.fetches, **meta, _TRAIN_OP: self.updater.get_optim_op(), _RATE: self.updater.learning_rate,
        }  # fmt: skip
        values = self._run(fetches, batch, step, train_flag=True)
        self._last_rate = float(values.pop(_RATE))
        values.pop(_TRAIN_OP)
        self._num_steps += 1
        if self._shared is not None:
            self._shared.after_step(num_steps=self._num_steps)
        return {name: float(value) for name, value in values.items()}

    def try_gradients(self, batch: ArrayBatch, step: Step) -> bool:
        """:return: whether there was memory enough for the gradients of a step"""
        assert self.updater is not None
        op = gradients_op(self._graph, [grad for grad in self.updater.all_grads if grad is not None])
        try:
            self._run({"gradients": op}, batch, step, train_flag=True, more_feed=feed_without_others(op))
        except UserError as exc:
            if not self.is_out_of_memory(exc):
                raise
            return False
        return True

    def end_train_pass(self, epoch: int) -> None:
        """All workers get the same model. Gradients that were collected are variables of the checkpoint."""
        if self._shared is not None:
            self._shared.end_epoch()

    def evaluate(
        self, batch: ArrayBatch, step: Step, *, train_flag: bool, per_seq: LossPerSeq | None
    ) -> Mapping[str, float]:
        """:return: values of the step"""
        losses = self._loss_graph()
        fetches = {**losses.fetches, "effects": losses.effects}
        if per_seq is not None:
            if self._per_seq is None:
                with self._graph.as_default():
                    self._per_seq = as_fetches(per_seq.tensors(self._marked))
            fetches.update({f"{_PER_SEQ}{name}": value for name, value in self._per_seq.items()})
        values = self._run(fetches, batch, step, train_flag=train_flag)
        values.pop("effects")
        if per_seq is not None:
            arrays = {name.removeprefix(_PER_SEQ): value for name, value in values.items() if name.startswith(_PER_SEQ)}
            per_seq.add(batch.seq_tags, arrays)
        return {name: float(value) for name, value in values.items() if not name.startswith(_PER_SEQ)}

    def forward(self, batch: ArrayBatch, step: Step) -> dict[str, OutputArray]:
        """:return: the outputs that `forward_step` marks, by name"""
        graph, tensors = self._output_graph()
        values = self._run({**graph.fetches, "effects": graph.effects}, batch, step, train_flag=False)
        values.pop("effects")
        return output_arrays(tensors, values)

    def is_out_of_memory(self, exc: Exception) -> bool:
        """:return: whether a smaller batch may do"""
        return isinstance(exc.__cause__, tf.errors.ResourceExhaustedError)

    def summaries_of_step(self) -> Mapping[str, float]:
        """:return: the learning rate"""
        return {"learning_rate": self._last_rate}

    # Graphs.

    def _loss_graph(self) -> StepGraph:
        if self._losses is None:
            inputs = self._inputs
            flag: Tensor = Tensor("train_flag", dims=(), dtype="bool", raw_tensor=inputs.train_flag)
            with self._graph.as_default(), self._float_dtype(), self._precision(), noted_effects() as effects:
                with noted_results(self.model) as results:
                    ctx = self.functions.train_step(
                        self.model,
                        inputs.extern_data,
                        train_flag=flag,
                        step=_scalar("step", tf.cast(self._global_step.read_value(), tf.int32)),
                        epoch=_scalar("epoch", inputs.epoch),
                    )
                self._marked = ctx.losses
                fetches = as_fetches(loss_tensors(ctx.losses))
            self._losses = StepGraph(fetches, effects, results)
        return self._losses

    def _output_graph(self) -> tuple[StepGraph, dict[str, Tensor]]:
        if self._outputs is None:
            inputs = self._inputs
            with self._graph.as_default(), self._float_dtype(), self._precision(), noted_effects() as effects:
                ctx = self.functions.forward_step(
                    self.model,
                    inputs.extern_data,
                    step=_scalar("step", tf.cast(self._global_step.read_value(), tf.int32)),
                    epoch=_scalar("epoch", inputs.epoch),
                )
                tensors = output_tensors(ctx.outputs)
                fetches = as_fetches(tensors)
            self._outputs = StepGraph(fetches, effects, {}), tensors
        return self._outputs

    def _precision(self) -> AbstractContextManager[None]:
        return rf.set_amp_policy_ctx(amp_dtype(self.config.options.tf_amp, name="tf_amp"))

    def _float_dtype(self) -> AbstractContextManager[None]:
        return rf.set_default_float_dtype_ctx(self.config.options.default_float_dtype or rf.get_default_float_dtype())

    # Running.

    def _run(
        self,
        fetches: Mapping[str, Any],
        batch: ArrayBatch,
        step: Step,
        *,
        train_flag: bool,
        more_feed: Mapping[Any, Any] | None = None,
    ) -> dict[str, Any]:
        feed = self._inputs.feed(batch, train_flag=train_flag, epoch=max(step.epoch, 1))
        feed.update(more_feed or {})
        numbers = [zlib.crc32(step.dataset_name.encode("utf8")), step.epoch, step.index]
        if self.processes is not None:
            numbers.append(self.processes.rank)  # other features are dropped
        feed.update(run_seed_feed(self._graph, numbers))
        where = step.describe(batch.seq_tags)
        try:
            return self.session.run(dict(fetches), feed)
        except tf.errors.InvalidArgumentError as exc:
            if NON_FINITE_LOSS in exc.message:
                raise self._non_finite_error(feed, where) from None
            if NON_FINITE_GRADIENT in exc.message:
                raise self._non_finite_gradient_error(feed, where) from None
            raise UserError(f"{where}:\n  {op_error_text(exc)}") from exc
        except tf.errors.OpError as exc:
            if self.processes is not None and is_collective_error(exc):
                raise self.processes.error(exc) from None
            raise UserError(f"{where}:\n  {op_error_text(exc)}") from exc

    def _non_finite_error(self, feed: dict[Any, Any], where: str) -> NonFiniteError:
        where = f"{where}: the loss is not finite. The parameters are those of before the step.\n"
        if (parameter := first_non_finite_variable(self.session)) is not None:
            return NonFiniteError(where + text_about_parameter(parameter))
        losses = self._loss_graph()
        with self._graph.as_default():
            flags = {
                name: tf.reduce_all([tf.reduce_all(tf.math.is_finite(x)) for x in raws])
                for name, raws in losses.modules.items()
                if raws
            }
        found = next((name for name, is_finite in self.session.run(flags, feed).items() if not is_finite), None)
        if found:
            first = f"The first module with a value that is not finite: {found}."
        else:
            values = self.session.run(losses.fetches, feed)
            names = [name for name, value in values.items() if not numpy.isfinite(value).all()]
            first = f"All modules return finite values, but not the losses: {', '.join(names) or 'constraints'}."
        return NonFiniteError(f"{where}  {first}\n{WHAT_HELPS}")

    def _non_finite_gradient_error(self, feed: dict[Any, Any], where: str) -> NonFiniteError:
        assert self.updater is not None
        with self._graph.as_default():
            found = self.updater.find_non_finite_gradients(self.session, feed)
        text = f"It is that of {found.layer!r}." if found else "Each one alone is finite, but not the norm of all."
        return NonFiniteError(
            f"{where}: a gradient is not finite, though the loss is. The parameters are those of before the step.\n"
            f"  {text}\n"
            "  Look for square roots, logarithms and divisions at 0 there, whose derivative is infinite."
        )


def _scalar(name: str, raw: tf.Tensor) -> Tensor:
    return Tensor(name, dims=(), dtype="int32", raw_tensor=raw)
