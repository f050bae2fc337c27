"""`DataPass`: one pass of a session over the batches of a data set, training or not."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy
import tensorflow as tf

from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.batch_options import batch_limits
from returnn.engine.epochs import with_epoch
from returnn.engine.report.progress import Progress
from returnn.engine.report.small_batches import small_batches_of_config
from returnn.engine.run.interrupts import Interrupts
from returnn.engine.run.non_finite import NonFiniteError, text_about_parameter
from returnn.engine.run.resumable_pass import ResumablePass
from returnn.engine.run.scores import Scores
from returnn.engine.run.unfinished import Wishes
from returnn.engine.training_position import TrainingPosition
from returnn.log import log
from returnn.tf.distributed.workers import is_collective_error
from returnn.tf.engine.feeding.batches import make_feeder
from returnn.tf.engine.feeding.feed import FeedBatch
from returnn.tf.engine.passes.lockstep import Steps, StepsOfAll, StepsToTheEnd
from returnn.tf.engine.passes.long_steps import LongSteps
from returnn.tf.engine.passes.non_finite import (
    NON_FINITE_LOSS,
    first_non_finite_layer,
    first_non_finite_variable,
    non_finite_losses,
)
from returnn.tf.engine.passes.out_of_memory import out_of_memory_error
from returnn.tf.engine.passes.score_fetches import first_unaligned, score_fetches, unaligned_fetches
from returnn.tf.engine.passes.step_in_parts import NotInParts, StepInParts
from returnn.tf.engine.passes.tensorboard import META_PREFIX
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.tf.frontend_low_level.raw_random import run_seed_feed
from returnn.tf.inspection.kept_order import kept_order_warning
from returnn.tf.network import TFNetwork
from returnn.tf.updater.finite_gradients import NON_FINITE_GRADIENT
from returnn.tf.util.op_error import op_error_text
from returnn.util.errors import UserError
from returnn.util.system.debug_shell import debug_shell
from returnn.util.system.warn_once import warn_once
from returnn.util.texts.counted import counted
from returnn.util.texts.human_readable import human_bytes_size


class DataPass(ResumablePass):
    """One pass over a data set."""

    def __init__(
        self,
        session: NetworkSession,
        dataset_name: str | None = None,
        dataset: Dataset | None = None,
        batches: BatchSetGenerator | None = None,
        train: bool = False,
        eval: bool = True,
        train_flag: bool | None = None,
        extra_fetches: dict[str, Any] | None = None,
        extra_fetches_callback: Callable[..., None] | None = None,
        resumed_at: TrainingPosition | None = None,
        wishes: Callable[[int], Wishes] = lambda num_steps: Wishes(),
        on_step: Callable[[Wishes], None] = lambda agreed: None,
    ) -> None:
        """
        :param session: has the network
        :param dataset_name: such as "dev"
        :param dataset: after `init_seq_order`
        :param batches: of that epoch
        :param train: whether parameters are updated
        :param eval: whether losses are computed
        :param train_flag: whether dropout and the like are on; default: as `train`
        :param extra_fetches: what else to fetch: raw tensors by name
        :param extra_fetches_callback: called after each step with their values, by name
        :param resumed_at: the pass was interrupted there, and goes on
        :param wishes: what this process wants, after so many steps
        :param on_step: called after each step with what is to be done, when `position` may be asked
        """
        super().__init__(
            scores=Scores(session.config.options.calculate_exp_loss),
            resumed_at=resumed_at,
            wishes=wishes,
            on_step=on_step,
        )
        self.session = session
        self.dataset_name = dataset_name or "data"
        self.dataset = dataset
        self.batches = batches
        self.train = train
        self.eval = eval
        self.train_flag = train if train_flag is None else train_flag
        self.extra_fetches = extra_fetches or {}
        self.extra_fetches_callback = extra_fetches_callback
        self.reset_updater_vars_mod_step = session.config.options.reset_updater_vars_mod_step
        self.current_tags: list[str] = []  # of the sequences of the current step
        self.finalized = False
        self._is_non_finite = False
        self._stops_at_non_finite = session.config.options.stop_on_nonfinite_train_score
        self.run_exception: BaseException | None = None
        self._batch_size = batch_limits(session.config, train=train)["batch_size"]
        self._small_batches = small_batches_of_config(session.config) if train else None
        self._steps = Steps()
        if dataset is not None and (
            text := kept_order_warning(session.network.layers_desc, self.dataset_name, dataset)
        ):
            warn_once(text)
        if session.workers is not None:
            self._steps = StepsOfAll(session.workers, session.built) if train else StepsToTheEnd()

    def position(self) -> TrainingPosition:
        """:return: after the last step; not to be asked during a step"""
        return self._position(epoch=self.session.epoch, train_step=self.session.train_step())

    @property
    def results(self) -> dict[str, float]:
        """Means over all frames, by `loss:NAME` and `error:NAME`."""
        return self.scores.means()

    def run(self, report_prefix: str, *, raise_exception: bool = False) -> None:
        """
        Goes over all batches.

        :param report_prefix: for people, e.g. "train epoch 3"
        :param raise_exception: whether an error is raised; else it is in `run_exception`
        """
        network = self.session.network
        network.set_run_opts(epoch=self.session.epoch, dataset_name=self.dataset_name)
        try:
            self._run(report_prefix)
            self.finalized = True
        except BaseException as exc:
            self.run_exception = exc
            if raise_exception or not isinstance(exc, Exception):
                raise
        finally:
            network.set_run_finished(error_occurred=not self.finalized)

    def _run(self, report_prefix: str) -> None:
        fetches = self._fetches()
        interrupts = Interrupts()
        feeder = make_feeder(
            self.session,
            self.dataset,
            self.batches,
            fetches,
            while_waiting=lambda: self._check_alone(interrupts, where=f"{report_prefix}, step {self.num_steps}"),
            resumed_at=self._resumed_at,
        )
        summaries, tracer = self.session.summaries, self.session.step_tracer
        with (
            tracer.profiled(train=self.train),
            summaries.of_pass(self.dataset_name, start_step=self.session.train_step() if self.train else None),
            Progress(
                report_prefix, num_steps_before=self.num_steps, pace=self.session.paces[self.dataset_name]
            ) as progress,
            feeder,
            interrupts,
            LongSteps(report_prefix, batch_size=self._batch_size) as long_steps,
        ):
            self._progress = progress
            for batch in self._steps.batches(progress.timed(feeder)):
                self.current_tags = batch.seq_tags
                if self._small_batches is not None:
                    self._small_batches.add(num_seqs=len(batch.seq_tags), num_frames=batch.num_frames)
                self._maybe_reset_updater()
                long_steps.begin_step(batch, step=self.num_steps)
                values = self._step(fetches, batch, interrupts)
                long_steps.end_step()
                means = self.scores.add({key: value for key, value in values.items() if key not in self.extra_fetches})
                self._unaligned_tags = {**first_unaligned(values, batch.seq_tags), **self._unaligned_tags}
                self._check_finite(means, batch)  # before anything of this step is written or handed on
                if self.extra_fetches_callback:
                    self.extra_fetches_callback(**{name: values[name] for name in self.extra_fetches})
                self.num_steps += 1
                self.num_seqs += len(batch.seq_tags)
                self._batch_position = batch.position
                if self.train:
                    summaries.write_fetched(self.dataset_name, means, values)
                progress.step(
                    num_seqs=len(batch.seq_tags),
                    means=means,
                    complete_frac=batch.complete_frac,
                    details=[*_details(values), *self._details_of_batch(batch)],
                )
                # Signals, saving, limits of time: what one worker wishes for, all do after the same step.
                agreed = self._steps.agreed(lambda: self._wishes(self.num_steps, interrupts))
                self._end_step(agreed, interrupts, where=f"{report_prefix}, step {self.num_steps}")
            if self.session.updater is not None and not self.train:
                summaries.write_evaluation(self.dataset_name, self.results, step=self.session.train_step())
        self.elapsed = self._elapsed_before + progress.elapsed
        self.data_wait_s = progress.data_wait_s
        if self.train and self.session.shared is not None:
            self.session.shared.end_epoch()
        self._sum_over_workers()
        self._check_sequences(report_prefix, self.batches, dataset_name=self.dataset_name)

    def _check_alone(self, interrupts: Interrupts, *, where: str) -> None:
        """While it waits for data. With other workers, all end after the same step."""
        if self.session.workers is None:
            interrupts.check(where=where)

    def _sum_over_workers(self) -> None:
        """Scores, and the number of sequences, are those of all parts of the data."""
        workers = self.session.workers
        if workers is None or not (self.train or workers.shards_data):
            return
        workers.sum_scores(self.scores)
        self.num_seqs = int(workers.sum([self.num_seqs])[0])

    def _fetches(self) -> dict[str, Any]:
        network = self.session.network
        fetches: dict[str, Any] = {}
        if self.train or self.eval:
            network.maybe_construct_objective()
            fetches.update(score_fetches(network))
            fetches.update(_statistics_of_layers(network))
        if self.train:
            fetches["optim_op"] = self.session.updater.get_optim_op(
                callback_on_new=self.session.initialize_updater_vars
            )
            fetches.update(self.session.summaries.fetches(self.session.built))
        elif network.get_post_control_dependencies():
            fetches["post_control_dependencies"] = network.get_post_control_dependencies()
        fetches.update(self.extra_fetches)
        fetches.update(unaligned_fetches(network, fetches))
        fetches.update(self._steps.fetches)
        return fetches

    def _step(self, fetches: dict[str, Any], batch: FeedBatch, interrupts: Interrupts) -> dict[str, Any]:
        feed = dict(batch.feed_dict)
        feed.update(self._steps.feed(lambda: self._wishes(self.num_steps + 1, interrupts)))
        feed.update(self.session.built.flags_feed(train_flag=self.train_flag))
        feed.update(self._random_feed())
        if self.session.network.epoch_step is not None:
            feed[self.session.network.epoch_step] = self.num_steps
        options = self.session.config.options
        if options.debug_shell_in_runner and self.num_steps == options.debug_shell_in_runner_step:
            debug_shell({"data_pass": self, "session": self.session, "feed": feed}, exit_afterwards=False)
        try:
            values = self._values_of_step(fetches, feed, batch)
        except tf.errors.InvalidArgumentError as exc:
            if NON_FINITE_LOSS in exc.message:
                raise self._non_finite_error(feed, batch) from None
            if NON_FINITE_GRADIENT in exc.message:
                raise self._non_finite_gradient_error(feed, batch) from None
            raise self._step_error(exc, batch) from exc
        except tf.errors.OpError as exc:
            if self.session.workers is not None and is_collective_error(exc):
                raise self.session.workers.error(exc) from None
            raise self._step_error(exc, batch) from exc
        self._steps.took(values)
        if self.train and self.session.shared is not None:
            self.session.shared.after_step(num_steps=self.num_steps + 1)
        return values

    def _values_of_step(self, fetches: dict[str, Any], feed: dict[Any, Any], batch: FeedBatch) -> dict[str, Any]:
        session, reason = self.session, ""
        try:
            values: dict[str, Any] = session.step_tracer.run(
                session.tf_session, fetches, feed, epoch=session.epoch, step=self.num_steps, train=self.train
            )
            return values
        except tf.errors.ResourceExhaustedError as exc:
            cause = exc
        if self.train:
            step = StepInParts(session, fetches, feed, num_seqs=len(batch.seq_tags), seed=self._random_feed)
            try:
                values, num_parts = step.run()
            except NotInParts as exc:
                reason = str(exc)
            else:
                text = op_error_text(cause)
                log.print_warning(f"{self._where(batch)}: out of memory, done in {num_parts} parts ({text})")
                return values
        where = self._where(batch)
        raise out_of_memory_error(where, cause, session.network, session.tf_session, feed, reason=reason) from cause

    def _details_of_batch(self, batch: FeedBatch) -> list[str]:
        """:return: for people: sizes with `log_batch_size`, memory of the GPU with `tf_log_memory_usage`"""
        config, details = self.session.config, []
        if config.options.log_batch_size:
            details.append(f"{counted(len(batch.seq_tags), 'seq')}, {counted(batch.num_frames, 'frame')} with padding")
        if config.options.tf_log_memory_usage and tf.config.list_physical_devices("GPU"):
            peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
            details.append(f"GPU mem {human_bytes_size(peak)}")
        return details

    def _maybe_reset_updater(self) -> None:
        interval = self.reset_updater_vars_mod_step
        if self.train and interval and self.num_steps and self.num_steps % interval == 0:
            self.session.initialize_updater_vars()

    def _random_feed(self, part: int = 0) -> dict[Any, Any]:
        """:return: what makes dropout and the like follow from the step alone, whether or not it was resumed"""
        dataset = zlib.crc32(self.dataset_name.encode("utf8"))
        numbers = [dataset, self.session.epoch, self.num_steps]
        if self.session.workers is not None:
            numbers.append(self.session.workers.rank)  # other features are dropped
        if part:
            numbers.append(part)
        return run_seed_feed(self.session.tf_session.graph, numbers)

    def _check_finite(self, means: dict[str, float], batch: FeedBatch) -> None:
        """:raises NonFiniteError: in training; an evaluation goes on, and says so once"""
        wrong = [key for key, value in means.items() if not math.isfinite(value)]
        if not wrong or (self.train and not self._stops_at_non_finite):
            return
        text = f"{self._where(batch)}: {wrong[0].replace(':', ' ')} is not finite."
        if self.train:
            raise NonFiniteError(text)
        if not self._is_non_finite:
            log.print_warning(f"{text} Neither is the mean of all sequences.")
            self._is_non_finite = True

    def _where(self, batch: FeedBatch) -> str:
        tags = ", ".join(map(repr, batch.seq_tags[:3])) + (", ..." if len(batch.seq_tags) > 3 else "")
        what = with_epoch(self.dataset_name, self.session.epoch, separator=", ")
        return f"{what}, step {self.num_steps}, sequences {tags}"

    def _non_finite_error(self, feed: dict[Any, Any], batch: FeedBatch) -> NonFiniteError:
        where = f"{self._where(batch)}: the loss is not finite. The parameters are those of before the step.\n"
        if (parameter := first_non_finite_variable(self.session.tf_session)) is not None:
            return NonFiniteError(where + text_about_parameter(parameter))
        state = (self.session.network, self.session.tf_session, feed)
        layer = first_non_finite_layer(*state)
        if layer:
            first = f"The first layer with a value that is not finite: {layer}."
        else:
            names = ", ".join(non_finite_losses(*state)) or "constraints"
            first = f"All layers are finite, but not the losses: {names}."
        return NonFiniteError(
            f"{where}  {first}\n  Lower 'learning_rate', set 'gradient_clip_global_norm', or look at the data."
        )

    def _non_finite_gradient_error(self, feed: dict[Any, Any], batch: FeedBatch) -> NonFiniteError:
        found = self.session.updater.find_non_finite_gradients(self.session.tf_session, feed)
        return NonFiniteError(
            f"{self._where(batch)}: a gradient is not finite, though the loss is."
            " The parameters are those of before the step.\n"
            f"  {found or 'Each one alone is finite, but not the norm of all.'}\n"
            "  Look for square roots, logarithms and divisions at 0 there, whose derivative is infinite."
        )

    def _step_error(self, exc: tf.errors.OpError, batch: FeedBatch) -> UserError:
        return UserError(f"{self._where(batch)}:\n  {op_error_text(exc)}")

    def exit_due_to_error(self) -> None:
        """
        Raises the error that ended the pass.

        :raises BaseException: that one
        """
        if self.run_exception is not None:
            raise self.run_exception


def _statistics_of_layers(network: TFNetwork) -> dict[str, tf.Tensor]:
    """:return: the `stats` of all layers outside of loops"""
    graph = tf.compat.v1.get_default_graph()
    return {
        f"{META_PREFIX}{layer.get_absolute_name()}:{name}": value
        for layer in network.get_all_layers_deep()
        for name, value in layer.stats.items()
        if tf.is_tensor(value) and value.graph is graph
    }


def _details(values: Mapping[str, Any]) -> list[str]:
    """:return: for people, what the updater and the layers say about the step"""
    meta = {key.removeprefix(META_PREFIX): value for key, value in values.items() if key.startswith(META_PREFIX)}
    return [f"{name} {_shown(value)}" for name, value in sorted(meta.items())]


def _shown(value: Any) -> str:
    return f"{value:.4g}" if numpy.ndim(value) == 0 else str(numpy.asarray(value).tolist())
