"""`Training`: epoch after epoch, each with its network, learning rate, model file and evaluation."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from returnn.config import Config
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.best_model import best_model_options
from returnn.engine.data_identity import KnownData
from returnn.engine.epochs import Epochs
from returnn.engine.learning_rate_control import LearningRateControl, constant_around_pretraining
from returnn.engine.learning_rate_file import check_writable
from returnn.engine.net_options import DataOfNet
from returnn.engine.report.epoch_report import EpochReport, note_duration
from returnn.engine.report.epoch_table import DURATION_KEY
from returnn.engine.report.learning_rate_warnings import (
    kept_learning_rate_text,
    unset_learning_rate_text,
    unused_learning_rates_text,
)
from returnn.engine.report.run_record import RunRecord, run_record
from returnn.engine.run.auto_batch_size import AUTO, Tried, agreed_batch_size
from returnn.engine.run.cleanup import cleanup_policy
from returnn.engine.run.evaluation import EvaluatedModel, Evaluation
from returnn.engine.run.interrupts import InterruptedRun, InterruptedStep, Interrupts
from returnn.engine.run.known_labels import labels_of_config
from returnn.engine.run.known_network import NetworkIdentity
from returnn.engine.run.model_files import ModelFiles
from returnn.engine.run.non_finite import NonFiniteError
from returnn.engine.run.scores import Scores
from returnn.engine.run.unfinished import UnfinishedEpoch, Wishes
from returnn.engine.training_position import PositionError, TrainingPosition
from returnn.log import log
from returnn.util.errors import ConfigError
from returnn.util.files.checkpoint_files import broken_filename
from returnn.util.system.debug_shell import debug_shell
from returnn.util.system.machine import slurm_time_left_sec
from returnn.util.system.waiting import said_if_long
from returnn.util.texts.counted import counted
from returnn.util.texts.human_readable import hms

_SECONDS_TO_END = 60.0  # of a job: to save, and to end


class TrainPass(Protocol):
    """The training of an epoch."""

    scores: Scores
    num_steps: int
    num_seqs: int
    elapsed: float  # seconds
    data_wait_s: float  # of them, spent waiting for data

    def run(self, report_prefix: str, *, raise_exception: bool = False) -> None:
        """
        Trains on all batches.

        :param report_prefix: for people, e.g. "train epoch 3"
        :param raise_exception: whether an error is raised
        :raises NonFiniteError: if a loss is not finite
        """

    def position(self) -> TrainingPosition:
        """:return: where it is, between two steps"""


class TrainedModel(EvaluatedModel, Protocol):
    """What a training works on."""

    @property
    def loaded_epoch(self) -> int | None:
        """Whose model file was loaded at the beginning."""

    @property
    def num_params(self) -> int:
        """Number of entries of all parameters."""

    @property
    def is_on_host(self) -> bool:
        """Whether it is computed on CPUs."""

    @property
    def learning_rate(self) -> float | None:
        """Of the epoch, if the model says something else than the options."""

    @property
    def unfinished(self) -> UnfinishedEpoch | None:
        """If the training goes on inside of an epoch."""

    @property
    def is_resumed(self) -> bool:
        """Whether the training goes on with what it saved before."""

    @property
    def network_identity(self) -> NetworkIdentity | None:
        """What is noted of the network at the end of the training, if anything."""

    def begin(self, config: Config, *, may_be_unfinished: bool = True) -> None:
        """
        Makes the model for the task of the config, and loads its parameters.

        :param config: options
        :param may_be_unfinished: whether a training can go on inside of an epoch
        """

    def begin_epoch(self) -> None:
        """Changes to what the current epoch trains."""

    def begin_data(self, name: str, dataset: Dataset) -> None:
        """
        Begins the current epoch of a data set.

        :param name: such as "train"
        :param dataset: the data set
        """

    def go_on_from(self, unfinished: UnfinishedEpoch) -> None:
        """
        :param unfinished: of the current epoch
        :raises PositionError: if it does not fit any more
        """

    def snapshot(self) -> Any:
        """:return: for `UnfinishedFiles.save`; steps that come after this do not change it"""

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of the steps to come."""

    def batches(self, dataset: Dataset) -> BatchSetGenerator:
        """:return: of the epoch that the data set is in"""

    def try_batch(self, dataset: Dataset, batch_size: int) -> Tried:
        """
        Computes the gradients of a step, and forgets them. The data has to begin its epoch again afterwards.

        :param dataset: of the training
        :param batch_size: frames
        :return: whether it fits
        """

    def train_pass(
        self,
        dataset: Dataset,
        batches: BatchSetGenerator,
        *,
        resumed_at: TrainingPosition | None,
        wishes: Callable[[int], Wishes],
        on_step: Callable[[Wishes], None],
    ) -> TrainPass:
        """
        :param dataset: of the training
        :param batches: of the epoch
        :param resumed_at: the pass was interrupted there, and goes on
        :param on_step: called after each step
        :return: the training of an epoch
        """

    def end_training(self) -> bool:
        """:return: whether parameters are others now than after the last epoch, and have to be saved"""

    def save(self, filename: str, *, may_be_broken: bool = False) -> None:
        """
        :param filename: of the checkpoint, without suffix
        :param may_be_broken: whether it may have values that are not finite
        """

    def load(self, filename: str) -> None:
        """:param filename: of a checkpoint, without suffix"""

    def names_for_shell(self) -> dict[str, object]:
        """:return: what `debug_shell_before_train_loop` shows"""


class Training:
    """A training, from the epoch that comes next to the last one."""

    def __init__(
        self,
        config: Config,
        model: TrainedModel,
        epochs: Epochs,
        model_files: ModelFiles,
        evaluation: Evaluation,
        control: LearningRateControl,
        *,
        on_epoch: Callable[[], None],
    ) -> None:
        """
        :param config: options
        :param model: is trained
        :param epochs: know the current one
        :param model_files: where the epochs are kept
        :param evaluation: after each epoch
        :param control: of the learning rate
        :param on_epoch: called when everything is ready for an epoch
        """
        self.config = config
        self.model = model
        self.epochs = epochs
        self.model_files = model_files
        self.evaluation = evaluation
        self.control = control
        self.dataset: Dataset | None = None
        self.data_of_net = DataOfNet(config)
        self.learning_rate = 0.0
        if self._needs_scores() and not control.filename and model_files.are_wanted:
            # What comes next depends on the scores so far, so a training that is resumed has to know them.
            control.filename = f"{model_files.names.model}.learning_rates"
        self.save_interval = self.config.options.save_interval
        self._on_epoch = on_epoch
        self._finds_batch_size = config.options.batch_size == AUTO
        self._record = RunRecord(None)
        self.report = EpochReport(config, control)
        self._facts_of_pass: dict[str, float] = {}
        self._first_epoch = 0  # of this run
        self._longest_epoch_s = 0.0
        self._job_end_s: float | None = None  # as `time.monotonic` has it

    def run(self) -> None:
        """
        All epochs that are left.

        :raises NonFiniteError: if a loss is not finite
        """
        try:
            self._run()
        finally:
            self.report.finish()

    def _run(self) -> None:
        if self.epochs.current > self.epochs.final:
            self._finish_last_epoch()
            print(f"finished already: epoch {self.epochs.current - 1} of {self.epochs.final}", file=log.v1)
            return
        self._check_options()
        self._check_data_is_that_from_before()
        if self.model_files.are_written:
            self._record = run_record(self.config)
        with self._record.of_training(self.config, epoch=self.epochs.current, num_epochs=self.epochs.final):
            try:
                self._run_epochs()
            except PositionError as exc:  # only at its beginning, before anything has changed
                self.model_files.unfinished.report_unusable(self.model.unfinished.checkpoint, exc)
                self.model.begin(self.config, may_be_unfinished=False)
                self._run_epochs()
            self._end()
        print(f"finished training at epoch {self.epochs.final}", file=log.v1)

    def _run_epochs(self) -> None:
        unfinished = self.model.unfinished
        if unfinished is None:
            self._check_models_are_not_gone()
            self.check_last_epoch()
            self._save_initial_model()
        self._first_epoch = self.epochs.current
        after = "" if unfinished is None else f", after step {unfinished.position.num_steps}"
        print(f"start training at epoch {self.epochs.current} of {self.epochs.final}{after}", file=log.v3)
        if self.config.options.debug_shell_before_train_loop:
            debug_shell({"training": self, **self.model.names_for_shell()}, exit_afterwards=False)
        for epoch in range(self.epochs.current, self.epochs.final + 1):
            self.epochs.current = epoch
            self.begin_epoch()
            self._stop_if_job_ends(self.train_epoch())

    def _needs_scores(self) -> bool:
        options = self.config.options
        return bool(self.control.need_error_info or options.cleanup_old_models or options.use_last_best_model)

    def _check_options(self) -> None:
        """:raises ConfigError: now, if options make no sense that are needed later"""
        if not self.config.options.model:
            log.print_warning("the option 'model' is not set, so the trained parameters are not saved.")
        for text in (
            unset_learning_rate_text(self.config),
            unused_learning_rates_text(self.config),
            kept_learning_rate_text(self.config, self.control, self.epochs.current),
        ):
            if text:
                log.print_warning(text)
        cleanup_policy(self.config.options.cleanup_old_models)
        best_model_options(self.config)
        if self.control.filename:
            check_writable(self.control.filename)

    def _check_models_are_not_gone(self) -> None:
        """
        A folder that is not mounted now looks like an empty one, or one that is not there.

        :raises ConfigError: if the learning rate file knows epochs that had models
        """
        if self.model.loaded_epoch or self.config.options.start_epoch is not None:
            return
        trained = [epoch for epoch in self.control.epoch_data if self.control.get_epoch_error_dict(epoch)]
        if self.model_files.are_written and self.save_interval and max(trained, default=0) > self.save_interval:
            raise ConfigError(
                f"option 'model': {self.model_files.names.model!r} has no checkpoint, but {self.control.filename!r} has"
                f" the scores of {counted(len(trained), 'epoch')}.\n  Is the folder mounted? Another model needs "
                "another 'learning_rate_file'. 'start_epoch = 1' starts anew."
            )

    def _check_data_is_that_from_before(self) -> None:
        """:raises DataError: if a training that is resumed has other data than before"""
        lock = self.model_files.lock
        if lock is not None and lock.is_held:
            with said_if_long(
                "to look whether the data is that from before", limit_s=self.config.options.data_wait_limit_s
            ):
                KnownData(lock.model).compare(
                    {"train": self.dataset, **self.evaluation.datasets},
                    is_resumed=self.model.is_resumed,
                    may_change=self.config.options.accept_changed_data,
                    labels=labels_of_config(self.config),
                    network=self.model.network_identity,
                )

    def check_last_epoch(self) -> None:
        """Evaluates the epoch before, if the process was killed after its model file was written."""
        last = self.model.loaded_epoch
        if last and last == self.epochs.current - 1 and (self.control.filename or self.control.need_error_info):
            self.epochs.current = last
            self._change_data()
            if self.evaluation.run(skip_already_evaluated=True):
                self._finish_evaluation()
            self.epochs.current = last + 1

    def _finish_last_epoch(self) -> None:
        """What comes after the last model file, if the process was killed before."""
        self.check_last_epoch()
        if self.model.loaded_epoch == self.epochs.final:
            self.epochs.current = self.epochs.final
            self._end()
            self.epochs.current += 1
            self.model_files.clean_up(self.control)

    def _save_initial_model(self) -> None:
        wanted = self.epochs.current == 1 and self.config.options.save_epoch1_initial_model
        if wanted and self.model_files.are_written:
            self.model.save(self.model_files.names.of_epoch(0))

    def _end(self) -> None:
        if self.model.end_training() and self.model_files.are_written:
            self.model.save(self.model_files.names.of_epoch())

    # One epoch.

    def begin_epoch(self) -> None:
        """Network, learning rate and data of the epoch. If it was interrupted, it goes on where it was."""
        unfinished = self._unfinished_epoch()
        if unfinished is None:
            self.model.begin_epoch()
            self._load_best_model()
        self._change_data()
        self.learning_rate = self._learning_rate_of_epoch()
        self.model.set_learning_rate(self.learning_rate)
        if self._finds_batch_size:
            self._find_batch_size()
        self.model.begin_data("train", self.dataset)
        self._on_epoch()
        if unfinished is not None:
            self.model.go_on_from(unfinished)
            # Among what was saved is the learning rate of then, and that of the config may have changed.
            self.model.set_learning_rate(self.learning_rate)

    def _change_data(self) -> None:
        """To what the net dict says. The sequences of the data before are given up."""
        for name, dataset in self.data_of_net.changed().items():
            datasets = self.evaluation.datasets
            before = self.dataset if name == "train" else datasets.pop(name, None)
            if before is not None:
                before.finish_epoch(free_resources=True)
            if name == "train":
                self.dataset = dataset
            elif dataset is not None:
                datasets[name] = dataset
            kind = "none" if dataset is None else "another one"
            print(f"data {name!r}: {kind}, as '#config' of the network, or its end, says", file=log.v3)

    def _find_batch_size(self) -> None:
        """Of the network of the epoch."""

        def try_size(size: int) -> Tried:
            self.model.begin_data("train", self.dataset)
            return self.model.try_batch(self.dataset, size)

        size = agreed_batch_size(
            self.config,
            self.model.num_params,
            try_size,
            processes=self.model_files.processes,
            is_on_host=self.model.is_on_host,
        )
        self.config.set("batch_size", size)

    def _unfinished_epoch(self) -> UnfinishedEpoch | None:
        """:return: if the current epoch is the one that was interrupted"""
        unfinished = self.model.unfinished
        return unfinished if unfinished is not None and unfinished.position.epoch == self.epochs.current else None

    def _stop_if_job_ends(self, duration_s: float) -> None:
        """
        Option `stop_for_resubmission_when_low_time_left`.

        :param duration_s: of the epoch
        :raises SystemExit: with `EX_TEMPFAIL`, if the next epoch would not end in time
        """
        self._longest_epoch_s = max(self._longest_epoch_s, duration_s)
        options = self.config.options
        if not options.stop_for_resubmission_when_low_time_left or self.epochs.current == self.epochs.final:
            return
        left, needed = slurm_time_left_sec(), self._longest_epoch_s * options.stop_for_resubmission_safety_factor
        if left is None or left >= needed:
            return
        print(
            f"stops after {self.epochs}: the job has {hms(max(left, 0))} left, and an epoch needs {hms(needed)}. "
            "The same command again goes on.",
            file=log.v1,
        )
        sys.exit(os.EX_TEMPFAIL)

    def _load_best_model(self) -> None:
        """Option `use_last_best_model`: goes back to the best epoch, if the last ones are worse."""
        options = best_model_options(self.config)
        epoch, first = self.epochs.current, self.epochs.first_after_pretrain
        if options is None or epoch <= first or epoch % options.modulo:
            return
        best = options.best_epoch(self.control, last_epoch=epoch - 1, first_epoch=first)
        if best is None or best == epoch - 1:
            return
        existing = self.model_files.existing()
        if best not in existing:
            log.print_warning(f"use_last_best_model: the model of epoch {best} is the best one, but it is not there.")
            return
        print(f"epoch {epoch}: goes on from epoch {best}, the best one so far", file=log.v2)
        self.model.load(existing[best])

    def _learning_rate_of_epoch(self) -> float:
        """:return: what the network says, or the constant of the pretraining, or what the control decides"""
        control, epoch = self.control, self.epochs.current
        rate = self.model.learning_rate
        if rate is None:
            rate = constant_around_pretraining(self.config, self.epochs, epoch)
        if rate is not None:
            control.set_default_learning_rate_for_epoch(epoch, rate)  # where `learning_rates` has none
        decided = control.get_learning_rate_for_epoch(epoch)
        return decided if rate is None or self.config.options.use_learning_rate_control_always else rate

    def train_epoch(self) -> float:
        """
        One epoch: training, model file, evaluation.

        :return: how many seconds it took
        """
        start = time.monotonic()
        prefix = f"{'pretrain' if self.epochs.is_pretrain() else 'train'} epoch {self.epochs.current}"
        print(f"{prefix}, learning rate {self.learning_rate:.6g}", file=log.v3)
        unfinished = self._unfinished_epoch()
        data_pass = self.model.train_pass(
            self.dataset,
            self._batches(),
            resumed_at=None if unfinished is None else unfinished.position,
            wishes=self._wishes,
            on_step=lambda agreed: self._after_step(data_pass, agreed),
        )
        self._run_pass(data_pass, prefix)
        try:
            with Interrupts() as interrupts:
                self._finish_epoch(data_pass)
                self._check_interrupts(interrupts, where=f"epoch {self.epochs.current}")
        except InterruptedRun as exc:
            print(f"{exc}. The same command again goes on after the last model.", file=log.v1)
            raise
        return time.monotonic() - start

    def _check_interrupts(self, interrupts: Interrupts, *, where: str) -> None:
        processes = self.model_files.processes
        if processes is None:
            interrupts.check(where=where)
        else:
            processes.check_interrupts(interrupts, where=where)

    def _batches(self) -> BatchSetGenerator:
        batches = self.model.batches(self.dataset)
        if self.epochs.current == self._first_epoch:
            start = self.config.options.start_batch or 0
            if len(batches.peek_next_n(start)) < start:
                raise ConfigError(
                    f"option 'start_batch': is {start}, but epoch {self.epochs.current} has fewer batches."
                )
            batches.advance(start)
        return batches

    def _run_pass(self, data_pass: TrainPass, prefix: str) -> None:
        left_s = slurm_time_left_sec() if self.config.options.stop_for_resubmission_when_low_time_left else None
        self._job_end_s = None if left_s is None else time.monotonic() + left_s
        self.model_files.unfinished.begin_epoch(num_steps=data_pass.num_steps)
        try:
            data_pass.run(prefix, raise_exception=True)
        except NonFiniteError:
            self._save_broken()
            raise
        except InterruptedRun as exc:
            is_saved = not isinstance(exc, InterruptedStep) and self._save_unfinished_now(data_pass)
            where = "goes on there" if is_saved else f"starts at epoch {self.epochs.current}"
            print(f"{exc}. The same command again {where}.", file=log.v1)
            raise

    def _wishes(self, num_steps: int) -> Wishes:
        """:return: of this process, after so many steps of the epoch"""
        is_end = self._job_end_s is not None and time.monotonic() >= self._job_end_s - _SECONDS_TO_END
        return Wishes(save=self.model_files.unfinished.is_due(num_steps), stop=is_end)

    def _after_step(self, data_pass: TrainPass, agreed: Wishes) -> None:
        if agreed.save:
            self._save_unfinished(data_pass)
        if not agreed.stop:
            return
        if self._save_unfinished_now(data_pass):
            print(
                f"stops after {self.epochs}, step {data_pass.num_steps}: the job has less than {hms(_SECONDS_TO_END)}"
                " left. The same command again goes on there.",
                file=log.v1,
            )
            sys.exit(os.EX_TEMPFAIL)
        self._job_end_s = None  # it ends with the job, then

    def _save_unfinished(self, data_pass: TrainPass) -> None:
        """Begins to save the state inside of the epoch."""
        if self.model_files.are_written:
            self.model_files.lock.check()
        last_model = max(self.model_files.existing(), default=0)
        self.model_files.unfinished.save(data_pass.position(), self.model.snapshot(), last_model=last_model)

    def _save_unfinished_now(self, data_pass: TrainPass) -> bool:
        """:return: whether the state inside of the epoch is on the disk"""
        unfinished = self._unfinished_epoch()
        if unfinished is not None and data_pass.num_steps == unfinished.position.num_steps:
            return True  # as it was before; the data may still be on its way there
        if not self.model_files.unfinished.are_written or not data_pass.num_steps:
            return False
        self._save_unfinished(data_pass)
        is_saved, processes = self.model_files.unfinished.wait(), self.model_files.processes
        return is_saved if processes is None else bool(processes.of_all(is_saved).all())

    def _save_broken(self) -> None:
        """The parameters before the step that failed, to look at."""
        if self.model_files.are_written:
            self.model.save(broken_filename(self.model_files.names.of_epoch()), may_be_broken=True)

    def _finish_epoch(self, data_pass: TrainPass) -> None:
        control, epoch = self.control, self.epochs.current
        scores = data_pass.scores
        control.set_epoch_error(epoch, scores.for_learning_rate_control("train"), as_error=scores.only_errors())
        note_duration(control, epoch, data_pass.elapsed)
        self._facts_of_pass = {
            "learning_rate": self.learning_rate,
            "duration_s": data_pass.elapsed,
            "data_wait_s": data_pass.data_wait_s,
            "num_steps": data_pass.num_steps,
            "num_seqs": data_pass.num_seqs,
        }
        control.save()
        self._save_epoch()
        self.evaluation.run()
        self._finish_evaluation()

    def _finish_evaluation(self) -> None:
        """The epoch is over: says so, and deletes models that are no longer wanted."""
        control, epoch = self.control, self.epochs.current
        control.save()
        duration_s = control.epoch_data[epoch].meta.get(DURATION_KEY)
        elapsed = "" if duration_s is None else f", elapsed {hms(duration_s)}"
        print(f"{self._summary()}{elapsed}", file=log.v1)
        self.report.epoch(epoch)
        data = control.epoch_data[epoch]
        facts = {"learning_rate": data.learning_rate, "scores": data.error, **self._facts_of_pass}
        self._record.write_epoch(epoch, **facts)
        self._facts_of_pass = {}
        self.model_files.clean_up(control)

    def _save_epoch(self) -> None:
        epoch = self.epochs.current
        wanted = epoch == self.epochs.final or (self.save_interval and epoch % self.save_interval == 0)
        if wanted and self.model_files.are_written:
            self.model_files.lock.check()
            self.model_files.unfinished.wait()
            self.model.save(self.model_files.names.of_epoch())
            self.model_files.unfinished.delete()

    def _summary(self) -> str:
        errors = self.control.get_epoch_error_dict(self.epochs.current)
        scores = [f"{key} {value:.4g}" for key, value in sorted(errors.items()) if isinstance(value, float)]
        return ", ".join([f"epoch {self.epochs.current}", *scores])
