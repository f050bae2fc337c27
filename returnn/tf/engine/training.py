"""`Training`: epoch after epoch, each with its network, learning rate, model file and evaluation."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from returnn.config import Config
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.best_model import best_model_options
from returnn.engine.epoch_report import note_duration, report_epoch
from returnn.engine.learning_rate_control import LearningRateControl, pretrain_learning_rate
from returnn.engine.learning_rate_file import check_writable
from returnn.log import log
from returnn.tf.checkpoint import broken_filename, cleanup_policy
from returnn.tf.engine.batches import batches_of
from returnn.tf.engine.data_pass import DataPass
from returnn.tf.engine.evaluation import Evaluation
from returnn.tf.engine.interrupts import InterruptedRun, Interrupts
from returnn.tf.engine.model_files import ModelFiles
from returnn.tf.engine.network_of_epoch import NetworkOfEpoch
from returnn.tf.engine.network_session import NetworkSession
from returnn.tf.engine.non_finite import NonFiniteError
from returnn.util.errors import ConfigError
from returnn.util.system.debug_shell import debug_shell
from returnn.util.system.machine import slurm_time_left_sec
from returnn.util.system.restart import restart_program
from returnn.util.texts.human_readable import hms


class Training:
    """A training, from the epoch that comes next to the last one."""

    def __init__(
        self,
        session: NetworkSession,
        network_of_epoch: NetworkOfEpoch,
        model_files: ModelFiles,
        evaluation: Evaluation,
        control: LearningRateControl,
        *,
        on_epoch: Callable[[], None],
    ) -> None:
        """
        :param session: with the network that is trained
        :param network_of_epoch: changes the network when an epoch has another one
        :param model_files: where the epochs are kept
        :param evaluation: after each epoch
        :param control: of the learning rate
        :param on_epoch: called when everything is ready for an epoch
        """
        self.config: Config = session.config
        self.session = session
        self.epochs = session.epochs
        self.network_of_epoch = network_of_epoch
        self.model_files = model_files
        self.evaluation = evaluation
        self.control = control
        self.dataset: Dataset | None = None
        self.learning_rate = 0.0
        if control.need_error_info and not control.filename and model_files.are_written:
            # The next learning rate depends on the scores so far, so a training that is resumed has to know them.
            control.filename = f"{model_files.names.model}.learning_rates"
        self.save_interval = self.config.options.save_interval
        self._on_epoch = on_epoch
        self._first_epoch = 0  # of this run
        self._num_changes = 0  # of the network, in this run
        self._longest_epoch_s = 0.0

    def run(self) -> None:
        """
        All epochs that are left.

        :raises NonFiniteError: if a loss is not finite
        """
        if self.epochs.current > self.epochs.final:
            print(f"finished already: epoch {self.epochs.current - 1} of {self.epochs.final}", file=log.v1)
            return
        self._check_options()
        self._check_models_are_not_gone()
        self.check_last_epoch()
        self._save_initial_model()
        self._first_epoch = self.epochs.current
        print(f"start training at epoch {self.epochs.current} of {self.epochs.final}", file=log.v3)
        if self.config.options.debug_shell_before_train_loop:
            debug_shell({"training": self, "session": self.session}, exit_afterwards=False)
        for epoch in range(self.epochs.current, self.epochs.final + 1):
            self.epochs.current = epoch
            self.begin_epoch()
            self._stop_if_job_ends(self.train_epoch())
        self._end()
        print(f"finished training at epoch {self.epochs.final}", file=log.v1)

    def _check_options(self) -> None:
        """:raises ConfigError: now, if options make no sense that are needed later"""
        cleanup_policy(self.config.options.cleanup_old_models)
        best_model_options(self.config)
        if self.control.filename:
            check_writable(self.control.filename)

    def _check_models_are_not_gone(self) -> None:
        """
        A folder that is not mounted now looks like an empty one, or one that is not there.

        :raises ConfigError: if the learning rate file knows epochs that had models
        """
        if self.network_of_epoch.loaded_epoch or self.config.options.start_epoch is not None:
            return
        trained = [epoch for epoch in self.control.epoch_data if self.control.get_epoch_error_dict(epoch)]
        if self.model_files.are_written and self.save_interval and max(trained, default=0) > self.save_interval:
            raise ConfigError(
                f"option 'model': {self.model_files.names.model!r} has no checkpoint, but {self.control.filename!r} has"
                f" the scores of {len(trained)} epochs.\n  Is the folder mounted? 'start_epoch = 1' starts anew."
            )

    def check_last_epoch(self) -> None:
        """Evaluates the epoch before, if the process was killed after its model file was written."""
        last = self.network_of_epoch.loaded_epoch
        if last and last == self.epochs.current - 1 and (self.control.filename or self.control.need_error_info):
            self.epochs.current = last
            self.evaluation.run(skip_already_evaluated=True)
            self.control.save()
            self.epochs.current = last + 1

    def _save_initial_model(self) -> None:
        wanted = self.epochs.current == 1 and self.config.options.save_epoch1_initial_model
        if wanted and self.model_files.are_written:
            self.session.save(self.model_files.names.of_epoch(0))

    def _end(self) -> None:
        end_op = self.session.updater.get_end_of_training_op()
        if end_op is not None:
            self.session.tf_session.run(end_op)
            self.session.save(self.model_files.names.of_epoch())

    # One epoch.

    def begin_epoch(self) -> None:
        """Network, learning rate and data of the epoch."""
        net_dict = self.network_of_epoch.net_dicts.of_epoch(self.epochs.current, step=self.session.train_step())
        if self.network_of_epoch.is_another(net_dict):
            print(f"{self.epochs}: has another network", file=log.v3)
            self._restart_before_change()
            self.network_of_epoch.change(net_dict)
            self._num_changes += 1
        self._load_best_model()
        self.learning_rate = self._learning_rate_of_epoch()
        self.session.updater.set_learning_rate(self.learning_rate, session=self.session.tf_session)
        self.dataset.init_seq_order(self.epochs.current)
        self._on_epoch()

    def _restart_before_change(self) -> None:
        """Option `restart_after_num_net_reinit`: memory of networks before is free in a new process."""
        limit = self.config.options.restart_after_num_net_reinit
        if limit is None or self._num_changes < limit:
            return
        if self.epochs.current - 1 not in self.model_files.existing():
            log.print_warning("restart_after_num_net_reinit: the last epoch has no model file, so there is no restart.")
            return
        print(f"starts anew, after {self._num_changes} changes of the network", file=log.v2)
        log.flush()
        restart_program()

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
        self.session.load(existing[best])

    def _learning_rate_of_epoch(self) -> float:
        control, epoch = self.control, self.epochs.current
        if "learning_rate" in self.session.options_of_net.original:
            control.set_default_learning_rate_for_epoch(epoch, self.config.options.learning_rate)
        elif self.epochs.is_pretrain() and not self.config.options.use_learning_rate_control_always:
            rate = pretrain_learning_rate(self.config, control)
            control.set_default_learning_rate_for_epoch(epoch, rate)
        return control.get_learning_rate_for_epoch(epoch)

    def train_epoch(self) -> float:
        """
        One epoch: training, model file, evaluation.

        :return: how many seconds it took
        """
        start = time.monotonic()
        prefix = f"{'pretrain' if self.epochs.is_pretrain() else 'train'} epoch {self.epochs.current}"
        print(f"{prefix}, learning rate {self.learning_rate:.6g}", file=log.v3)
        batches = self._batches()
        data_pass = DataPass(self.session, dataset_name="train", dataset=self.dataset, batches=batches, train=True)
        self._run_pass(data_pass, prefix)
        try:
            with Interrupts() as interrupts:
                self._finish_epoch(data_pass)
                interrupts.check(where=f"epoch {self.epochs.current}")
        except InterruptedRun as exc:
            print(f"{exc}. The same command again goes on after the last model.", file=log.v1)
            raise
        return time.monotonic() - start

    def _batches(self) -> BatchSetGenerator:
        batches = batches_of(self.session, self.dataset, train=True)
        if self.epochs.current == self._first_epoch:
            start = self.config.options.start_batch or 0
            if len(batches.peek_next_n(start)) < start:
                raise ConfigError(
                    f"option 'start_batch': is {start}, but epoch {self.epochs.current} has fewer batches."
                )
            batches.advance(start)
        return batches

    def _run_pass(self, data_pass: DataPass, prefix: str) -> None:
        try:
            data_pass.run(prefix, raise_exception=True)
        except NonFiniteError:
            self._save_broken()
            raise
        except InterruptedRun as exc:
            print(f"{exc}. The same command again starts at epoch {self.epochs.current}.", file=log.v1)
            raise

    def _save_broken(self) -> None:
        """The parameters before the step that failed, to look at."""
        if self.model_files.are_written:
            self.session.save(broken_filename(self.model_files.names.of_epoch()), may_be_broken=True)

    def _finish_epoch(self, data_pass: DataPass) -> None:
        control, epoch = self.control, self.epochs.current
        control.set_epoch_error(epoch, data_pass.scores.for_learning_rate_control("train"))
        note_duration(control, epoch, data_pass.elapsed)
        control.save()
        self._save_epoch()
        self.evaluation.run()
        control.save()
        print(f"{self._summary()}, elapsed {hms(data_pass.elapsed)}", file=log.v1)
        report_epoch(self.config, control, epoch)
        self.model_files.clean_up(control)

    def _save_epoch(self) -> None:
        epoch = self.epochs.current
        wanted = epoch == self.epochs.final or (self.save_interval and epoch % self.save_interval == 0)
        if wanted and self.model_files.are_written:
            self.model_files.lock.check()
            self.session.save(self.model_files.names.of_epoch())

    def _summary(self) -> str:
        errors = self.control.get_epoch_error_dict(self.epochs.current)
        scores = [f"{key} {value:.4g}" for key, value in sorted(errors.items()) if isinstance(value, float)]
        return ", ".join([f"epoch {self.epochs.current}", *scores])
