"""`TorchRunner`: a model of the frontend, or of PyTorch itself, computed by PyTorch."""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

import returnn.frontend as rf
from returnn import __version__
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
from returnn.engine.frontend.preload import ValuesToPreload
from returnn.engine.frontend.runner import Step
from returnn.engine.frontend.unaligned import unaligned_text
from returnn.engine.run.non_finite import WHAT_HELPS, NonFiniteError, text_about_parameter
from returnn.engine.run.parts import sum_of_values
from returnn.engine.run.unfinished import UnfinishedEpoch
from returnn.engine.training_position import PositionError, TrainingPosition
from returnn.frontend._ops.random_source import seed_number
from returnn.frontend.loss import watched_ctc_losses
from returnn.log import log
from returnn.tensor import Tensor, TensorDict
from returnn.torch import checkpoint as checkpoints
from returnn.torch.data.extern_data import raw_dict_to_extern_data
from returnn.torch.data.pipeline import WorkerFeeder, check_dataloader_opts
from returnn.torch.data.tensor_utils import torch_to_numpy
from returnn.torch.distributed import StepOfAll, TorchWorkers, init_workers
from returnn.torch.engine.non_finite import first_non_finite_module, non_finite_parameters
from returnn.torch.engine.out_of_memory import (
    factors_of_parts,
    in_parts,
    norm_counts,
    out_of_memory_error,
    outputs_of_modules,
    reason_against_parts,
    reason_of_losses,
)
from returnn.torch.engine.parameters import load_parameters, model_parameters, set_parameters
from returnn.torch.optim.mixed_precision import mixed_precision
from returnn.torch.optim.step_rules import StepTime
from returnn.torch.unfinished import Snapshot, UnfinishedCheckpoints, copied
from returnn.torch.updater import NonFiniteGradient, Updater
from returnn.torch.util.compile import compiler_of_config, without_compiling
from returnn.torch.util.device import device_of_config, free_cached_memory, is_out_of_memory, memory_report
from returnn.torch.util.profile import Profiler
from returnn.util.errors import ConfigError
from returnn.util.files.checkpoint_files import CheckpointError
from returnn.util.texts.counted import are, counted

_NUM_OPTIMIZER_STATES = 2  # model files that keep theirs: the newest one, and one more in case that it is damaged


class TorchRunner:
    """See `returnn.engine.frontend.runner.ModelRunner`."""

    checkpoints = checkpoints
    unfinished = UnfinishedCheckpoints()
    all_scores_are_losses = True

    def __init__(self, config: Config) -> None:
        """:param config: options"""
        self.config = config
        self.templates: TensorDict = extern_data_of_config(config)
        self.device = device_of_config(config)
        self.functions = ModelFunctions(config, compiled=compiler_of_config(config, self.device))
        self.model: Any = None  # by build
        self.train_step = 0
        self.parameters: dict[str, torch.Tensor] = {}
        self.updater: Updater | None = None
        is_training = config.options.task == "train"
        self.processes: TorchWorkers | None = init_workers(config, self.device) if is_training else None
        self._step_of_all: StepOfAll | None = None
        self._last_sync_s = time.monotonic()  # of the parameters of all workers
        self._profiler = Profiler(config)
        self._preloaded = preloaded_files(config.options.preload_from_files, ValuesToPreload)
        self._dataloader_opts = check_dataloader_opts(config.options.torch_dataloader_opts)
        if config.options.deterministic_train:
            torch.use_deterministic_algorithms(True)

    @property
    def num_params(self) -> int:
        """Number of entries of all parameters."""
        return sum(value.numel() for value in self.parameters.values())

    @property
    def is_on_host(self) -> bool:
        """Whether it is computed on CPUs."""
        return self.device.type == "cpu"

    # Model and parameters.

    def build(self, *, epoch: int, filename: str | None, is_training: bool, is_own: bool, step: int = 0) -> None:
        """Makes the model, and gives it its parameters, see `ModelRunner`."""
        content = checkpoints.load_model_file(filename) if filename is not None else {}
        self.train_step = int(content.get("step", step)) if is_own else 0
        rf.select_backend_torch()
        with self._context():
            torch.manual_seed(self.config.options.random_seed)
            self.model = self.functions.make_model(epoch=epoch, step=self.train_step)
        if isinstance(self.model, torch.nn.Module):
            self.model.to(self.device)
        self.parameters = model_parameters(self.model)
        preloaded = self._preload(is_training=is_training, has_own_checkpoint=is_own)
        if filename is not None:
            self._set_parameters(content, filename, leave_out=preloaded)
        for hook in self.config.options.load_model_post_hooks or ():
            hook(model=self.model)
        if is_training:
            self.updater = Updater(self.config, self.model, self.parameters, device=self.device)
            if is_own and filename is not None:
                self._load_optimizer(filename)
            if self.processes is not None:
                self.processes.send_values(self.parameters.values())
                if self.processes.options.scale_lr:
                    self.updater.learning_rate_factor = float(self.processes.size)
                if self.processes.options.reduce_type == "grad":
                    self._step_of_all = self.processes.step_of_all(self.updater.parameters)

    def is_preloaded(self, *, is_training: bool) -> bool:
        """:return: whether `preload_from_files` has parameters for the model"""
        return any(file.is_needed(is_training=is_training, has_own_checkpoint=False) for file in self._preloaded)

    def _preload(self, *, is_training: bool, has_own_checkpoint: bool) -> set[str]:
        """:return: names of parameters that `preload_from_files` has set"""
        names: set[str] = set()
        for file in self._preloaded:
            if file.is_needed(is_training=is_training, has_own_checkpoint=has_own_checkpoint):
                with file.opened():
                    content = checkpoints.load_model_file(file.filename)
                values = file.values(self.parameters, content)
                shapes = {name: tuple(self.parameters[name].shape) for name in values}
                warn_of_labels_of_preloaded(file, self.config, shapes)
                set_parameters(self.parameters, values)
                names |= set(values)
        return names

    def _set_parameters(self, content: Mapping[str, Any], filename: str, *, leave_out: set[str]) -> None:
        load_parameters(
            self.model,
            self.parameters,
            content,
            filename=filename,
            leave_out=leave_out,
            ignore_missing=self.config.options.load_ignore_missing_vars,
        )

    def load(self, filename: str) -> None:
        """Loads a checkpoint of this training. Without a state of the optimizer in there, it goes on with its own."""
        content = checkpoints.load_model_file(filename)
        self._set_parameters(content, filename, leave_out=set())
        self._load_optimizer(filename)

    def _load_optimizer(self, filename: str) -> None:
        state = checkpoints.load_optimizer_file(filename, device=str(self.device))
        if state is None:
            log.print_warning(f"checkpoint {filename!r} has no state of the optimizer, which begins anew")
        elif self.updater is not None:
            self.updater.load_state(state)

    def save(self, filename: str, *, epoch: int, may_be_broken: bool = False) -> None:
        """
        Writes a checkpoint.

        :raises CheckpointError: if it cannot be written, or has values that are not finite
        """
        if not may_be_broken:
            self._check_finite(filename)
        updater = self.updater
        rate = self.config.options.learning_rate if updater is None else updater.effective_learning_rate
        checkpoints.save_checkpoint(
            filename,
            parameters=self.parameters,
            info={
                "epoch": epoch,
                "step": self.train_step,
                "effective_learning_rate": rate,
                "returnn_version": __version__,
            },
            optimizer=None if updater is None or may_be_broken else updater.state(),
            file_format=self.config.options.torch_checkpoint_format,
        )
        model = self.config.options.model
        if model and not self.config.options.apply_cleanup_old_models_to_optim_states:
            existing = checkpoints.existing_checkpoints(model)
            checkpoints.delete_optimizer_files(existing, keep_last_n=_NUM_OPTIMIZER_STATES)

    def snapshot(self) -> Snapshot:
        """:return: all that training changes, copied"""
        assert self.updater is not None
        gradients, num_collected = self.updater.collected()
        return Snapshot(
            parameters=copied(self.parameters),
            trained=frozenset(name for name, value in self.parameters.items() if value.requires_grad),
            step=self.train_step,
            updater=copied(self.updater.state()),
            gradients=copied(gradients),
            num_collected=num_collected,
        )

    def restore(self, unfinished: UnfinishedEpoch) -> None:
        """
        Sets all that training changes.

        :raises PositionError: if it is of another model
        """
        assert self.updater is not None
        snapshot = Snapshot.from_file(unfinished, device=str(self.device))
        shapes, saved = (
            {name: value.shape for name, value in values.items()} for values in (self.parameters, snapshot.parameters)
        )
        other = sorted(name for name in {*shapes, *saved} if shapes.get(name) != saved.get(name))
        if other:
            raise PositionError(
                f"The model is another one by now: {other[0]!r} is in one of them alone, or has another shape."
            )
        try:
            self.updater.load_state(snapshot.updater)
        except ConfigError as exc:
            raise PositionError(str(exc).split("\n")[0]) from exc
        set_parameters(self.parameters, snapshot.parameters)
        self.updater.restore_collected(snapshot.gradients, snapshot.num_collected)
        self.train_step = snapshot.step

    def _check_finite(self, filename: str) -> None:
        wrong = non_finite_parameters(self.parameters)
        if wrong:
            name = next(iter(wrong))
            raise CheckpointError(
                f"checkpoint {filename!r} is not written: {counted(wrong[name], 'value')} of {name!r} "
                f"{are(wrong[name])} not finite{f', and some of {len(wrong) - 1} more' if len(wrong) > 1 else ''}.\n"
                "  Checkpoints that are there are as they were. Lower 'learning_rate', and go on from the last one."
            )

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of the steps to come."""
        assert self.updater is not None
        self.updater.set_learning_rate(learning_rate)

    def close(self) -> None:
        """Writes the profile, if there is one."""
        self._profiler.finish()

    # Steps.

    def feeder(
        self,
        maker: ArrayMaker,
        batches: BatchSetGenerator,
        *,
        while_waiting: Callable[[], None],
        resumed_at: TrainingPosition | None,
    ) -> AbstractContextManager[Iterable[ArrayBatch]]:
        """:return: batches from a thread, or from worker processes"""
        options = {"while_waiting": while_waiting, "resumed_at": resumed_at}
        if self._dataloader_opts["num_workers"]:
            return WorkerFeeder(maker, batches, self._dataloader_opts, **options)
        return thread_feeder(self.config, maker, batches, **options)

    def train(self, batch: ArrayBatch, step: Step) -> Mapping[str, float]:
        """Updates the parameters, see `ModelRunner`."""
        assert self.updater is not None
        has_collected = self.updater.has_collected
        self.updater.set_time(self._time(step.epoch, self._complete_frac_of_all(batch.complete_frac)))
        with self._profiler.step():
            cause = ""
            try:
                values = self._collect_gradients(batch, step)
            except Exception as exc:
                if not self.is_out_of_memory(exc):
                    raise
                cause = str(exc).strip().split("\n")[0]
            if cause:  # behind the handler: the exception keeps the tensors of the step alive
                values = self._collect_in_parts(batch, step, cause, has_collected=has_collected)
            try:
                with self._named_errors():
                    details = self.updater.update_if_due()
            except NonFiniteError as exc:
                raise self._non_finite_error(exc, batch, step, values) from exc
        self.train_step += 1
        self._maybe_take_means()
        return {**values, **{f"meta:{name}": value for name, value in details.items()}}

    def _collect_gradients(self, batch: ArrayBatch, step: Step) -> dict[str, float]:
        """:return: values of the step"""
        assert self.updater is not None
        ctx, objective = self._losses_of_all(batch, step)
        values = _fetch(loss_tensors(ctx.losses))
        try:
            with self._named_errors():
                self.updater.collect([objective])
        except NonFiniteError as exc:
            raise self._non_finite_error(exc, batch, step, values) from exc
        return values

    def _collect_in_parts(self, batch: ArrayBatch, step: Step, cause: str, *, has_collected: bool) -> dict[str, float]:
        """
        The gradients of the step, which did not fit, as sums over parts of it.

        :return: values of the step
        :raises UserError: if parts do not fit, or would not give the same
        """
        num_processes = 1 if self.processes is None else self.processes.size
        reason = reason_against_parts(self.model, num_processes=num_processes, has_collected=has_collected)
        num_parts = 1
        while reason is None:
            parts = in_parts(batch, 2 * num_parts)
            if len(parts) <= num_parts:
                reason = "even one sequence does not fit" if num_parts == 1 else f"{num_parts} parts do not fit either"
                break
            num_parts = len(parts)
            try:
                values = self._collect_these(parts, step)
            except Exception as exc:
                if not self.is_out_of_memory(exc):
                    raise
                continue
            if isinstance(values, str):
                reason = values
                break
            log.print_warning(f"{step.describe(batch.seq_tags)}: out of memory, done in {num_parts} parts ({cause})")
            return values
        with without_compiling():
            outputs = outputs_of_modules(self.model, lambda: self._run_losses(batch, step, train_flag=True))
        raise out_of_memory_error(step.describe(batch.seq_tags), cause, str(reason), outputs)

    def _collect_these(self, parts: Sequence[ArrayBatch], step: Step) -> dict[str, float] | str:
        """:return: values of the step; or why its losses cannot be known from parts"""
        assert self.updater is not None
        counts = []
        with torch.no_grad():
            for i, part in enumerate(parts):
                losses = self._run_losses(part, step, train_flag=True, part=i).losses
                reason = reason_of_losses(losses)
                if reason is not None:
                    return reason
                counts.append(norm_counts(losses))
        values: list[dict[str, float]] = []

        def objectives() -> Iterator[torch.Tensor]:
            for i, (part, factors) in enumerate(zip(parts, factors_of_parts(counts), strict=True)):
                ctx = self._run_losses(part, step, train_flag=True, part=i)
                values.append(_fetch(loss_tensors(ctx.losses)))
                yield self._objective(ctx, factors=factors, with_constraints=i == 0)

        self.updater.collect(objectives())
        return sum_of_values(values)

    def try_gradients(self, batch: ArrayBatch, step: Step) -> bool:
        """:return: whether there was memory enough for the gradients of a step. Running statistics are as before"""
        assert self.updater is not None
        before = {name: copied(value) for name, value in self.parameters.items() if not value.requires_grad}
        trained = list(self.updater.parameters.values())
        try:
            objective = self._objective(self._run_losses(batch, step, train_flag=True), of_all=False)
            torch.autograd.grad(objective, trained, allow_unused=True)
        except Exception as exc:
            if not self.is_out_of_memory(exc):
                raise
            return False
        finally:
            set_parameters(self.parameters, before)
        return True

    def end_train_pass(self, epoch: int) -> None:
        """Gradients that were collected do not wait for the next epoch, so that a model file has all there is."""
        assert self.updater is not None
        if self._step_of_all is not None and self.updater.has_collected:
            self._step_of_all.exchange_collected()
        self.updater.set_time(self._time(epoch, 1.0))
        self.updater.update()
        if self.processes is not None:
            is_equal = self._step_of_all is not None  # what is trained, if gradients are exchanged
            values = [value for value in self.parameters.values() if not (is_equal and value.requires_grad)]
            self.processes.take_means(values)
        if self.config.options.torch_log_memory_usage:
            print(f"memory: {memory_report(self.device)}", file=log.v2)
        if self.config.options.reset_dev_memory_caches:
            free_cached_memory(self.device)

    def _complete_frac_of_all(self, complete_frac: float | None) -> float | None:
        """:return: the same on all workers that make a step together: that of the first one"""
        options = self.config.options
        is_asked = callable(options.dynamic_learning_rate) or callable(options.accum_grad_multiple_step)
        if self._step_of_all is None or self.processes is None or not is_asked:
            return complete_frac
        of_first = float(self.processes.of_all(-1.0 if complete_frac is None else complete_frac)[0])
        return None if of_first < 0 else of_first

    def _time(self, epoch: int, complete_frac: float | None) -> StepTime:
        return StepTime(self.train_step, epoch, None if complete_frac is None else epoch - 1 + complete_frac)

    def _named_errors(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext() if self.processes is None else self.processes.named_errors()

    def _maybe_take_means(self) -> None:
        """With the reduce type "param", all workers get the mean of their parameters from time to time."""
        processes = self.processes
        if processes is None or self._step_of_all is not None:
            return
        if processes.is_time_to_sync(self.train_step, self._last_sync_s):
            processes.take_means(value for value in self.parameters.values() if value.requires_grad)
            self._last_sync_s = time.monotonic()

    def evaluate(
        self, batch: ArrayBatch, step: Step, *, train_flag: bool, per_seq: LossPerSeq | None
    ) -> Mapping[str, float]:
        """:return: values of the step"""
        with torch.no_grad():
            ctx = self._run_losses(batch, step, train_flag=train_flag)
            if per_seq is not None:
                tensors = per_seq.tensors(ctx.losses)
                per_seq.add(batch.seq_tags, {name: torch_to_numpy(x.raw_tensor) for name, x in tensors.items()})
            return _fetch(loss_tensors(ctx.losses))

    def forward(self, batch: ArrayBatch, step: Step) -> dict[str, OutputArray]:
        """:return: the outputs that `forward_step` marks, by name"""
        with torch.no_grad(), self._context(), mixed_precision(self.config, self.model, self.device):
            self._set_seed(step)
            self._set_mode(train_flag=False)
            data = self._extern_data(batch)
            ctx = self.functions.forward_step(self.model, data, step=step.index, epoch=step.epoch)
            tensors = output_tensors(ctx.outputs)
            return output_arrays(tensors, {name: torch_to_numpy(x.raw_tensor) for name, x in tensors.items()})

    def is_out_of_memory(self, exc: Exception) -> bool:
        """:return: whether a smaller batch may do"""
        if not is_out_of_memory(exc):
            return False
        free_cached_memory(self.device)
        return True

    def summaries_of_step(self) -> Mapping[str, float]:
        """:return: the learning rate"""
        return {"learning_rate": self.updater.effective_learning_rate} if self.updater is not None else {}

    def _run_losses(self, batch: ArrayBatch, step: Step, *, train_flag: bool, part: int = 0) -> rf.RunCtx:
        with self._context(), mixed_precision(self.config, self.model, self.device):
            self._set_seed(step, part)
            self._set_mode(train_flag=train_flag)
            return self.functions.train_step(
                self.model, self._extern_data(batch), train_flag=train_flag, step=self.train_step, epoch=step.epoch
            )

    def _losses_of_all(self, batch: ArrayBatch, step: Step) -> tuple[rf.RunCtx, torch.Tensor]:
        """:return: losses of this process, and the objective, whose gradients will be those of all"""
        assert self.updater is not None
        if self._step_of_all is None:
            ctx = self._run_losses(batch, step, train_flag=True)
            return ctx, self._objective(ctx)
        contexts = []

        def compute() -> torch.Tensor:
            contexts.append(self._run_losses(batch, step, train_flag=True))
            return self._objective(contexts[0])

        objective = self._step_of_all(compute, exchange=self.updater.is_next_update)
        return contexts[0], objective

    def _objective(
        self,
        ctx: rf.RunCtx,
        *,
        of_all: bool = True,
        factors: Mapping[str, float] | None = None,
        with_constraints: bool = True,
    ) -> torch.Tensor:
        """
        :param ctx: of a step
        :param of_all: whether other processes take part
        :param factors: of losses, by name, if they do not
        :param with_constraints: whether those on parameters are in
        :return: scalar
        """
        check_objective(ctx.losses)
        processes = self.processes if of_all else None
        total = ctx.total_loss(factors=factors if processes is None else processes.loss_factors(ctx.losses))
        if with_constraints and not self.config.options.decouple_constraints:
            factor = processes.size if processes is not None and processes.options.combine == "sum" else 1
            total = total + factor * l2_losses(self.model)
        if isinstance(total, Tensor):
            return total.raw_tensor
        return torch.tensor(float(total), device=self.device)

    def _extern_data(self, batch: ArrayBatch) -> TensorDict:
        return raw_dict_to_extern_data(batch.arrays, self.templates, num_seqs=len(batch.seq_tags), device=self.device)

    def _set_seed(self, step: Step, part: int = 0) -> None:
        """Random values follow from the step alone. So a training that is resumed needs no state of a generator."""
        dataset = zlib.crc32(step.dataset_name.encode("utf8"))
        numbers = [dataset, step.epoch, step.index]
        if self.processes is not None:
            numbers.append(self.processes.rank)  # other features are dropped
        if part:
            numbers.append(part)
        torch.manual_seed(seed_number(self.config.options.random_seed, *numbers))

    def _set_mode(self, *, train_flag: bool) -> None:
        if isinstance(self.model, torch.nn.Module) and self.model.training != train_flag:
            self.model.train(train_flag)

    @contextlib.contextmanager
    def _context(self) -> Iterator[None]:
        """Where values are made, and in which dtype."""
        dtype = self.config.options.default_float_dtype or rf.get_default_float_dtype()
        with rf.set_default_device_ctx(str(self.device)), rf.set_default_float_dtype_ctx(dtype):
            yield

    def _non_finite_error(
        self, exc: NonFiniteError, batch: ArrayBatch, step: Step, values: Mapping[str, float]
    ) -> NonFiniteError:
        where = step.describe(batch.seq_tags)
        if isinstance(exc, NonFiniteGradient):
            return NonFiniteError(
                f"{where}: a gradient is not finite, though the loss is."
                " The parameters are those of before the step.\n"
                f"  {exc}\n"
                "  Look for square roots, logarithms and divisions at 0 there, whose derivative is infinite."
            )
        where = f"{where}: the loss is not finite. The parameters are those of before the step.\n"
        if wrong := non_finite_parameters(self.parameters):
            return NonFiniteError(where + text_about_parameter(next(iter(wrong))))
        with without_compiling(), watched_ctc_losses() as ctc_losses:
            found = first_non_finite_module(self.model, lambda: self._run_losses(batch, step, train_flag=True))
        unaligned = "" if found else unaligned_text(ctc_losses, batch.seq_tags, torch_to_numpy)
        if found:
            first = f"The first module with a value that is not finite: {found}."
        else:
            finite = torch.isfinite(torch.tensor([values[key] for key in values], dtype=torch.float64)).tolist()
            names = [key for key, is_finite in zip(values, finite, strict=True) if not is_finite]
            first = f"All modules return finite values, but not the losses: {', '.join(names) or 'constraints'}."
        return NonFiniteError(f"{where}  {first}\n" + (f"  {unaligned}" if unaligned else WHAT_HELPS))


def _fetch(values: Mapping[str, Tensor | float]) -> dict[str, float]:
    """:return: numbers; all tensors are copied from the device at once"""
    names = [name for name, value in values.items() if isinstance(value, Tensor)]
    fetched: list[float] = []
    if names:
        raw = [values[name].raw_tensor.detach().to(torch.float64).reshape(()) for name in names]
        device = next((x.device for x in raw if x.device.type != "cpu"), raw[0].device)
        fetched = torch.stack([x.to(device) for x in raw]).tolist()
    numbers = dict(zip(names, fetched, strict=True))
    return {name: numbers[name] if name in numbers else float(value) for name, value in values.items()}
