"""`Engine`: the network of a config in a session, trained epoch by epoch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

import tensorflow as tf

from returnn.config import Config
from returnn.datasets.batch_generator import BatchSetGenerator
from returnn.datasets.dataset import Dataset
from returnn.engine.best_model import best_model_options
from returnn.engine.data import dataset_names, load_dataset
from returnn.engine.epoch_report import note_duration, report_epoch
from returnn.log import log
from returnn.tf.checkpoint import (
    broken_filename,
    cleanup_policy,
    crash_filename,
    delete_checkpoint,
    superfluous_epochs,
)
from returnn.tf.engine.engine_tasks import EngineTasks
from returnn.tf.engine.interrupts import InterruptedRun, Interrupts
from returnn.tf.engine.non_finite import NonFiniteError
from returnn.tf.engine.runner import Runner
from returnn.tf.engine.step_trace import StepTracer
from returnn.tf.engine.tensorboard import Summaries
from returnn.util.errors import ConfigError
from returnn.util.human_readable import hms, human_bytes_size
from returnn.util.terminal import confirm

tf1 = tf.compat.v1

_engine: Engine | None = None


class CancelTrainingException(Exception):
    """Ends the training, as a user's function may want it."""


def get_global_engine() -> Engine:
    """:return: the last engine of the process"""
    assert _engine is not None, "there is no engine yet"
    return _engine


class Engine(EngineTasks):
    """Network, session, training."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        global _engine
        super().__init__(config)
        _engine = self
        self.train_data: Dataset | None = None
        self._first_epoch = 0  # of this run
        self.final_epoch = self.config_get_final_epoch(self.config)
        self.save_model_epoch_interval = self.config.int("save_interval", 1)
        self.stop_on_nonfinite_train_score = self.config.bool("stop_on_nonfinite_train_score", True)
        self.summaries = Summaries(self.config)
        self.step_tracer = StepTracer(self.config, self.summaries.folder)

    # Model files.

    @staticmethod
    def delete_model(filename: str) -> int:
        """:return: bytes that are free now"""
        return delete_checkpoint(filename)

    def cleanup_old_models(self, ask_for_confirmation: bool = False) -> None:
        """
        Deletes model files as `cleanup_old_models` says.

        :param ask_for_confirmation: ask the person at the terminal; True holds if the option is not set
        """
        option = self.config.bool_or_other("cleanup_old_models", None)
        policy = cleanup_policy(True if option is None and ask_for_confirmation else option)
        if policy is None or not self.model_filename:
            return
        control, checkpoints = self.learning_rate_control, self._checkpoints()
        scores = {epoch: control.get_epoch_error_dict(epoch) for epoch in control.epoch_data}
        epochs = superfluous_epochs(checkpoints, policy, scores)
        text = f"models of epochs {', '.join(map(str, epochs)) or 'none'}"
        if ask_for_confirmation and not (epochs and confirm(f"Delete {text} of {sorted(checkpoints)}?")):
            print(f"nothing is deleted; superfluous are {text}", file=log.v1)
            return
        num_bytes = sum(delete_checkpoint(checkpoints[epoch]) for epoch in epochs)
        if epochs:
            print(f"deleted {text}, {human_bytes_size(num_bytes)}", file=log.v3)

    # Data.

    def init_train_from_config(
        self,
        config: Config | None = None,
        train_data: Dataset | None = None,
        dev_data: Dataset | None = None,
        eval_data: Dataset | None = None,
    ) -> None:
        """
        Data and network for a training.

        :param config: default: that of the engine
        :param train_data: default: `train` of the config
        :param dev_data: default: `dev` of the config
        :param eval_data: default: `eval` of the config
        """
        config = config or self.config
        self.train_data = train_data or load_dataset(config, "train")
        if self.train_data is None:
            raise ConfigError("option 'train' is required: the description of the data to train on.")
        self.eval_datasets = {name: load_dataset(config, name) for name in dataset_names(config)}
        given = {"dev": dev_data, "eval": eval_data}
        self.eval_datasets.update({name: data for name, data in given.items() if data is not None})
        self.learning_rate_control.load() if _file_exists(self.learning_rate_control.filename) else None
        self.init_network_from_config(config)

    # Training.

    def train(self) -> None:
        """
        All epochs that are left.

        :raises NonFiniteError: if a loss is not finite
        """
        if self.epoch > self.final_epoch:
            print(f"finished already: epoch {self.epoch - 1} of {self.final_epoch}", file=log.v1)
            return
        self._check_options()
        self._check_model_folder()
        self.check_last_epoch()
        self._save_initial_model()
        self._first_epoch = self.epoch
        print(f"start training at epoch {self.epoch} of {self.final_epoch}", file=log.v3)
        for epoch in range(self.epoch, self.final_epoch + 1):
            self.set_epoch(epoch)
            self.init_train_epoch()
            self.train_epoch()
        end_op = self.updater.get_end_of_training_op()
        if end_op is not None:
            self.tf_session.run(end_op)
            self.save_model()
        print(f"finished training at epoch {self.final_epoch}", file=log.v1)

    def _check_options(self) -> None:
        """:raises ConfigError: now, if options make no sense that are needed later"""
        cleanup_policy(self.config.bool_or_other("cleanup_old_models", None))
        best_model_options(self.config)
        _number_from_0("start_batch", self.config.value("start_batch", "auto"))

    def _check_model_folder(self) -> None:
        """:raises ConfigError: now, if model files cannot be written, and not after the first epoch"""
        if not self._writes_models():
            return
        folder = os.path.dirname(self.model_filename) or "."
        try:
            os.makedirs(folder, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as exc:
            raise ConfigError(
                f"option 'model': no file can be written to the folder {folder!r}: {exc.strerror}."
            ) from exc

    def check_last_epoch(self) -> None:
        """Evaluates the epoch before, if the process was killed after its model file was written."""
        last, control = self.loaded_model.epoch, self.learning_rate_control
        if last and last == self.epoch - 1 and (control.filename or control.need_error_info):
            self.set_epoch(last)
            self.eval_model(skip_already_evaluated=True)
            control.save()
            self.set_epoch(last + 1)

    def _save_initial_model(self) -> None:
        if self.epoch == 1 and self.config.bool("save_epoch1_initial_model", False) and self._writes_models():
            self.save_model(self.get_epoch_model_filename(0))

    def _writes_models(self) -> bool:
        return bool(self.model_filename) and not self.config.bool("dry_run", False)

    def init_train_epoch(self) -> None:
        """Network, learning rate and data of the epoch."""
        step = self.network.get_global_train_step(self.tf_session)
        net_desc = self.get_net_dict_for_epoch(epoch=self.epoch, step=step)
        if self.need_init_new_network(net_desc):
            print(f"{self.get_epoch_str()}: has another network", file=log.v3)
            self.init_new_network(net_desc)
        self._load_best_model()
        self.learning_rate = self._learning_rate_of_epoch()
        self.updater.set_learning_rate(self.learning_rate, session=self.tf_session)
        self.train_data.init_seq_order(self.epoch)
        hook = self.config.value("init_train_epoch_posthook", None)
        if hook:
            exec(hook, {**self.config.typed_dict, "self": self, "engine": self})

    def _load_best_model(self) -> None:
        """Option `use_last_best_model`: goes back to the best epoch, if the last ones are worse."""
        options = best_model_options(self.config)
        first = self.pretrain.get_train_num_epochs() + 1 if self.pretrain is not None else 1
        if options is None or self.epoch <= first or self.epoch % options.modulo:
            return
        best = options.best_epoch(self.learning_rate_control, last_epoch=self.epoch - 1, first_epoch=first)
        if best is None or best == self.epoch - 1:
            return
        if best not in self._checkpoints():
            log.print_warning(f"use_last_best_model: the model of epoch {best} is the best one, but it is not there.")
            return
        print(f"epoch {self.epoch}: goes on from epoch {best}, the best one so far", file=log.v2)
        self.load_model(filename=self._checkpoints()[best])

    def _learning_rate_of_epoch(self) -> float:
        control = self.learning_rate_control
        if "learning_rate" in self.orig_config:
            control.set_default_learning_rate_for_epoch(self.epoch, self.config.float("learning_rate", 1.0))
        elif self.is_pretrain_epoch() and not self.config.is_true("use_learning_rate_control_always", False):
            rate = self.config.float("pretrain_learning_rate", control.default_learning_rate)
            control.set_default_learning_rate_for_epoch(self.epoch, rate)
        return control.get_learning_rate_for_epoch(self.epoch)

    def train_epoch(self) -> None:
        """One epoch: training, model file, evaluation."""
        prefix = f"{'pretrain' if self.is_pretrain_epoch() else 'train'} epoch {self.epoch}"
        print(f"{prefix}, learning rate {self.learning_rate:.6g}", file=log.v3)
        batches = self._training_batches()
        runner = Runner(self, dataset_name="train", dataset=self.train_data, batches=batches, train=True)
        self._run_training(runner, prefix)
        try:
            with Interrupts() as interrupts:
                self._finish_epoch(runner)
                interrupts.check(where=f"epoch {self.epoch}")
        except InterruptedRun as exc:
            print(f"{exc}. The same command again goes on after the last model.", file=log.v1)
            raise

    def _finish_epoch(self, runner: Runner) -> None:
        control = self.learning_rate_control
        control.set_epoch_error(self.epoch, runner.scores.for_learning_rate_control("train"))
        note_duration(control, self.epoch, runner.elapsed)
        control.save()
        self._save_epoch()
        self.eval_model()
        control.save()
        print(f"{self._summary()}, elapsed {hms(runner.elapsed)}", file=log.v1)
        report_epoch(self.config, control, self.epoch)
        self.cleanup_old_models()

    def _training_batches(self) -> BatchSetGenerator:
        batches = self.batches_of(self.train_data, train=True)
        if self.epoch == self._first_epoch:
            start = _number_from_0("start_batch", self.config.value("start_batch", "auto"))
            if len(batches.peek_next_n(start)) < start:
                raise ConfigError(f"option 'start_batch': is {start}, but epoch {self.epoch} has fewer batches.")
            batches.advance(start)
        return batches

    def _run_training(self, runner: Runner, prefix: str) -> None:
        try:
            runner.run(prefix, raise_exception=True)
        except NonFiniteError:
            self._save_beside(broken_filename)
            raise
        except InterruptedRun as exc:
            saved = self._save_beside(lambda name: crash_filename(name, runner.num_steps))
            where = f"; the parameters are in {saved!r}" if saved else ""
            print(f"{exc}{where}. The same command again starts at epoch {self.epoch}.", file=log.v1)
            raise

    def _save_beside(self, name_of: Callable[[str], str]) -> str | None:
        if not self._writes_models():
            return None
        filename = name_of(self.get_epoch_model_filename())
        self.save_model(filename, may_be_broken=True)
        return filename

    def _save_epoch(self) -> None:
        is_last = self.epoch == self.final_epoch
        wanted = is_last or (self.save_model_epoch_interval and self.epoch % self.save_model_epoch_interval == 0)
        if wanted and self._writes_models():
            self.save_model()

    def _summary(self) -> str:
        errors = self.learning_rate_control.get_epoch_error_dict(self.epoch)
        scores = [f"{key} {value:.4g}" for key, value in sorted(errors.items()) if isinstance(value, float)]
        return ", ".join([f"epoch {self.epoch}", *scores])

    def finalize(self, error_occurred: bool = False) -> None:
        """
        Frees the session.

        :param error_occurred: whether this is because of an error
        """
        self.summaries.close()
        if self.network is not None:
            self.network.call_graph_reset_callbacks()
        if self.tf_session is not None:
            self.tf_session.close()
            self.tf_session = None  # type: ignore[assignment]


def _number_from_0(option: str, text: str) -> int:
    if text == "auto":
        return 0
    if not text.isdigit():
        raise ConfigError(f"option {option!r}: is {text!r}, expected 'auto' or a number from 0.")
    return int(text)


def _file_exists(filename: str | None) -> bool:
    return bool(filename) and os.path.exists(filename)  # type: ignore[arg-type]
