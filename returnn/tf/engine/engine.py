"""`Engine`: the network of a config in a session, trained epoch by epoch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from returnn.config import Config
from returnn.datasets.batch_generator import BatchSetGenerator
from returnn.datasets.dataset import Dataset
from returnn.engine.base import EngineBase
from returnn.engine.data import dataset_names, load_dataset
from returnn.engine.epoch_report import note_duration, report_epoch
from returnn.log import log
from returnn.tensor import batch_dim
from returnn.tf.checkpoint import (
    CheckpointWriter,
    CustomCheckpointLoader,
    broken_filename,
    cleanup_policy,
    crash_filename,
    delete_checkpoint,
    delete_superfluous_checkpoints,
    existing_checkpoints,
    finish_interrupted_saves,
    newest_intact_checkpoint,
    preloaded_files,
    set_preloaded_values,
)
from returnn.tf.engine.interrupts import InterruptedRun
from returnn.tf.engine.non_finite import NonFiniteError, checked_objective
from returnn.tf.engine.runner import Runner
from returnn.tf.network import TFNetwork
from returnn.tf.network.extern_data import ExternData
from returnn.tf.updater import Updater
from returnn.util.errors import ConfigError
from returnn.util.human_readable import hms

tf1 = tf.compat.v1

_engine: Engine | None = None
_BATCH_LIMITS = ("batch_size", "max_seqs", "max_seq_length", "min_seq_length", "max_pad_size", "seq_drop")


class CancelTrainingException(Exception):
    """Ends the training, as a user's function may want it."""


def get_global_engine() -> Engine:
    """:return: the last engine of the process"""
    assert _engine is not None, "there is no engine yet"
    return _engine


class Engine(EngineBase):
    """Network, session, training."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        global _engine
        super().__init__(config)
        _engine = self
        self.orig_config: dict[str, Any] = {}
        self.network: TFNetwork = None  # type: ignore[assignment]  # by init_network_from_config
        self.tf_session: tf1.Session = None  # type: ignore[assignment]
        self.updater: Updater | None = None
        self.train_data: Dataset | None = None
        self.eval_datasets: dict[str, Dataset] = {}
        self.use_dynamic_train_flag = False
        self.use_search_flag = False
        self.use_eval_flag = True
        self.final_epoch = self.config_get_final_epoch(self.config)
        self.save_model_epoch_interval = self.config.int("save_interval", 1)
        self.stop_on_nonfinite_train_score = self.config.bool("stop_on_nonfinite_train_score", True)
        self.preload_from_files = preloaded_files(self.config.typed_value("preload_from_files", None))
        self._train_flag: tf.Tensor | None = None
        self._writer: CheckpointWriter | None = None
        self._uninitialized_updater = False

    @property
    def dev_data(self) -> Dataset | None:
        """The data set `dev`."""
        return self.eval_datasets.get("dev")

    @property
    def eval_data(self) -> Dataset | None:
        """The data set `eval`."""
        return self.eval_datasets.get("eval")

    # Network.

    @classmethod
    def create_network(
        cls,
        config: Config,
        rnd_seed: int,
        train_flag: bool | tf.Tensor,
        eval_flag: bool,
        search_flag: bool,
        net_dict: dict[str, Any],
        extern_data: ExternData | None = None,
        initial_learning_rate: float = 1.0,
    ) -> tuple[TFNetwork, Updater | None]:
        """
        :param config: options
        :param rnd_seed: for parameters and dropout
        :param train_flag: False, or what says in the graph whether it is training
        :param eval_flag: whether losses are computed
        :param search_flag: whether choices search
        :param net_dict: options of each layer, by name
        :param extern_data: default: from the config, with placeholders
        :param initial_learning_rate: for the updater
        :return: network, and what updates it, if it may be trained
        """
        network = TFNetwork(
            name="root", config=config, extern_data=extern_data, rnd_seed=rnd_seed, train_flag=train_flag,
            eval_flag=eval_flag, search_flag=search_flag,
        )  # fmt: skip
        network.construct_from_dict(net_dict)
        if train_flag is False:
            return network, None
        objective = network.get_objective()
        if config.bool("stop_on_nonfinite_train_score", True):
            objective = checked_objective(objective)
        updater = Updater(config, network, initial_learning_rate, objective=objective)
        updater.set_trainable_vars(network.get_trainable_params())
        return network, updater

    def get_net_dict_for_epoch(
        self, *, epoch: int, step: int | None = None, config: Config | None = None
    ) -> dict[str, Any]:
        """
        :param epoch: epoch
        :param step: number of the training step, for `get_network` functions that want it
        :param config: default: that of the engine
        :return: the net dict of the config: `network`, or what `get_network(epoch=...)` gives
        :raises ConfigError: if there is none
        """
        config = config or self.config
        get_network = config.typed_value("get_network", None)
        if callable(get_network):
            return get_network(epoch=epoch)
        net_dict = config.typed_value("network", None)
        if not isinstance(net_dict, dict):
            raise ConfigError("option 'network' is required: a dict with the options of each layer, by name.")
        return net_dict

    def init_network_from_config(
        self,
        config: Config | None = None,
        *,
        net_dict_post_proc: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """
        Builds the network for the task of the config, and loads its parameters: the model of the epoch, or none in a
        training from scratch.

        :param config: default: that of the engine
        :param net_dict_post_proc: changes the net dict
        """
        config = config or self.config
        is_training = config.value("task", "train") in ("train", "initialize_model")
        epoch, model = self._epoch_to_load(config, is_training=is_training)
        self.set_epoch((epoch or 0) if not is_training else self.epoch)
        net_dict = self.get_net_dict_for_epoch(epoch=max(self.epoch, 1))
        if net_dict_post_proc:
            net_dict = net_dict_post_proc(net_dict)
        self._init_network(net_dict, is_training=is_training)
        if model is None and not is_training:
            self._check_may_be_random(config)
        self._init_params(model, is_training=is_training)

    def _check_may_be_random(self, config: Config) -> None:
        preloads = any(file.is_needed(is_training=False, has_own_checkpoint=False) for file in self.preload_from_files)
        if not (preloads or config.bool("allow_random_model_init", False)):
            raise ConfigError(
                f"there is no model to work on: {config.value('model', None)!r} has no checkpoint.\n"
                "  Train one, or set 'load' or 'load_epoch'; 'allow_random_model_init = True' works without."
            )

    def _epoch_to_load(self, config: Config, *, is_training: bool) -> tuple[int | None, str | None]:
        if not is_training:
            return self.get_epoch_model(config)
        if self.model_filename:
            for text in finish_interrupted_saves(self.model_filename):
                print(text, file=log.v2)
        if config.value("start_epoch", "auto") != "auto":
            start = self.get_train_start_epoch(config)
            existing = existing_checkpoints(self.model_filename) if self.model_filename else {}
            newest = newest_intact_checkpoint({epoch: name for epoch, name in existing.items() if epoch < start})
        else:
            newest = newest_intact_checkpoint(existing_checkpoints(self.model_filename) if self.model_filename else {})
        for damage in newest.skipped:
            log.print_warning(f"{damage.reason} The one before is taken.")
        if newest.checkpoint is not None:
            self.epoch = newest.epoch + 1
            return newest.epoch, newest.checkpoint
        self.epoch = self.get_start_epoch_no_existing_model(config)
        imported = config.value("import_model_train_epoch1", None) or config.value("load", None)
        return None, imported or None

    def _init_network(self, net_dict: Mapping[str, Any], *, is_training: bool) -> None:
        self._reset_graph()
        seed = self.config.int("random_seed", 42)
        tf1.set_random_seed(seed)
        if is_training:
            self._train_flag = tf1.placeholder_with_default(tf.constant(False), (), name="train_flag")
        self.use_dynamic_train_flag = is_training
        self.network, self.updater = self.create_network(
            self.config,
            rnd_seed=seed,
            train_flag=self._train_flag if is_training else False,
            eval_flag=self.use_eval_flag,
            search_flag=self.use_search_flag,
            net_dict=dict(net_dict),
            initial_learning_rate=self.config.float("learning_rate", 1.0),
        )
        print(f"network: {len(self.network.layers)} layers, {self.network.get_num_params():,} parameters", file=log.v2)

    def _reset_graph(self) -> None:
        if self.tf_session is not None:
            self.tf_session.close()
        tf1.reset_default_graph()
        tf1.disable_eager_execution()
        batch_dim.reset_raw()
        self._writer = None
        self._train_flag = None

    def _init_params(self, model: str | None, *, is_training: bool) -> None:
        if self.updater is not None:
            self.updater.get_optim_op()
        if self.config.is_true("check_unsupported_device", False):
            raise ConfigError("option 'check_unsupported_device': is not supported.")
        params = self.network.get_saveable_params_list()
        set_preloaded_values(
            self.preload_from_files, params, is_training=is_training, has_own_checkpoint=model is not None,
            network=self.network,
        )  # fmt: skip
        self.make_tf_session()
        self.network.initialize_params(self.tf_session)
        if self.updater is not None:
            self.updater.init_optimizer_vars(self.tf_session)
        if model is not None:
            self.load_model(filename=model)

    def make_tf_session(self) -> None:
        """Makes the session, with `tf_session_opts`."""
        options = dict(self.config.typed_value("tf_session_opts", None) or {})
        try:
            proto = tf1.ConfigProto(**options)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"option 'tf_session_opts': {exc}") from exc
        self.tf_session = tf1.Session(config=proto)

    def initialize_updater_vars(self) -> None:
        """Initial values of what a new update needs."""
        self.updater.init_optimizer_vars(self.tf_session)

    def flags_feed(self, *, train_flag: bool) -> dict[Any, Any]:
        """:return: what to feed so that the network is in training or not"""
        return {} if self._train_flag is None else {self._train_flag: train_flag}

    # Model files.

    def save_model(self, filename: str | None = None) -> None:
        """
        :param filename: default: that of the epoch
        :raises CheckpointError: if it cannot be written
        """
        if self._writer is None:
            variables = self.network.get_saveable_params_list()
            variables += self.updater.optimizer_vars if self.updater is not None else []
            self._writer = CheckpointWriter({var.op.name: var for var in variables})
        self._writer.save(self.tf_session, filename or self.get_epoch_model_filename())

    def load_model(self, epoch: int | None = None, filename: str | None = None) -> None:
        """
        :param epoch: whose model to load, if no file is given
        :param filename: of a checkpoint
        :raises CheckpointError: if it does not fit
        """
        filename = filename or self.get_epoch_model_filename(epoch)
        print(f"load {filename!r}", file=log.v2)
        params = self.network.get_saveable_params_list()
        params += self.updater.optimizer_vars if self.updater is not None else []
        CustomCheckpointLoader(filename, params, network=self.network).load_now(self.tf_session)

    @staticmethod
    def delete_model(filename: str) -> int:
        """:return: bytes that are free now"""
        return delete_checkpoint(filename)

    def cleanup_old_models(self, ask_for_confirmation: bool = False) -> None:
        """
        Deletes model files as `cleanup_old_models` says.

        :param ask_for_confirmation: not needed: what is to be kept is exactly in the config
        """
        policy = cleanup_policy(self.config.bool_or_other("cleanup_old_models", None))
        if policy is None or not self.model_filename:
            return
        control = self.learning_rate_control
        scores = {epoch: control.get_epoch_error_dict(epoch) for epoch in control.epoch_data}
        deleted = delete_superfluous_checkpoints(existing_checkpoints(self.model_filename), policy, scores)
        if deleted:
            print(f"deleted models of epochs {', '.join(map(str, deleted))}", file=log.v3)

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

    def get_eval_datasets(self) -> dict[str, Dataset]:
        """:return: what is evaluated after each epoch, by name"""
        return self.eval_datasets

    def batches_of(self, dataset: Dataset, *, train: bool) -> BatchSetGenerator:
        """:return: batches of the epoch that the data set is in, within the limits of the config"""
        limits = {key: self.config.typed_value(key, None) for key in _BATCH_LIMITS}
        limits = {
            key: self.config.opt_typed_value(key, None) if value is None else value for key, value in limits.items()
        }
        given = {key: value for key, value in limits.items() if value not in (None, 0)}
        if not train:
            for key in ("seq_drop", "max_seq_length", "min_seq_length"):
                given.pop(key, None)
        given.setdefault("batch_size", 10_000)
        return dataset.generate_batches(
            shuffle_batches=train and self.config.bool("shuffle_batches", False),
            used_data_keys=self._keys_with_lengths(dataset),
            **given,
        )

    def _keys_with_lengths(self, dataset: Dataset) -> list[str]:
        used = self.network.get_used_data_keys()
        return [key for key in dataset.get_data_keys() if key in used] or None  # type: ignore[return-value]

    # Training.

    def train(self) -> None:
        """
        All epochs that are left.

        :raises NonFiniteError: if a loss is not finite
        """
        if self.epoch > self.final_epoch:
            print(f"finished already: epoch {self.epoch - 1} of {self.final_epoch}", file=log.v1)
            return
        self._check_model_folder()
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

    def _check_model_folder(self) -> None:
        """:raises ConfigError: now, if model files cannot be written, and not after the first epoch"""
        if not self.model_filename or self.config.bool("dry_run", False):
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

    def init_train_epoch(self) -> None:
        """Learning rate and data of the epoch."""
        self.learning_rate = self.learning_rate_control.get_learning_rate_for_epoch(self.epoch)
        self.updater.set_learning_rate(self.learning_rate, session=self.tf_session)
        self.train_data.init_seq_order(self.epoch)

    def train_epoch(self) -> None:
        """One epoch: training, model file, evaluation."""
        prefix = f"train epoch {self.epoch}"
        print(f"{prefix}, learning rate {self.learning_rate:.6g}", file=log.v3)
        batches = self.batches_of(self.train_data, train=True)
        runner = Runner(self, dataset_name="train", dataset=self.train_data, batches=batches, train=True)
        self._run_training(runner, prefix)
        control = self.learning_rate_control
        control.set_epoch_error(self.epoch, runner.scores.for_learning_rate_control("train"))
        note_duration(control, self.epoch, runner.elapsed)
        self._save_epoch()
        self.eval_model()
        if control.filename:
            control.save()
        print(f"{self._summary()}, elapsed {hms(runner.elapsed)}", file=log.v1)
        report_epoch(self.config, control, self.epoch)
        self.cleanup_old_models()

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
        if not self.model_filename or self.config.bool("dry_run", False):
            return None
        filename = name_of(self.get_epoch_model_filename())
        self.save_model(filename)
        return filename

    def _save_epoch(self) -> None:
        is_last = self.epoch == self.final_epoch
        wanted = is_last or (self.save_model_epoch_interval and self.epoch % self.save_model_epoch_interval == 0)
        if self.model_filename and wanted and not self.config.bool("dry_run", False):
            self.save_model()

    def _summary(self) -> str:
        errors = self.learning_rate_control.get_epoch_error_dict(self.epoch)
        scores = [f"{key} {value:.4g}" for key, value in sorted(errors.items()) if isinstance(value, float)]
        return ", ".join([f"epoch {self.epoch}", *scores])

    # Evaluation.

    def eval_model(self, lr_control_update_scores: bool = True) -> dict[str, dict[str, float]]:
        """
        Scores of all data sets for evaluation.

        :param lr_control_update_scores: whether the learning-rate control gets them
        :return: means over all frames, by data set, and by `loss:NAME` and `error:NAME`
        """
        results = {}
        for name, dataset in self.get_eval_datasets().items():
            dataset.init_seq_order(self.epoch)
            runner = Runner(self, dataset_name=name, dataset=dataset, batches=self.batches_of(dataset, train=False))
            runner.run(f"{name} epoch {self.epoch}", raise_exception=True)
            results[name] = runner.results
            if lr_control_update_scores:
                scores = runner.scores.for_learning_rate_control(name)
                self.learning_rate_control.set_epoch_error(self.epoch, scores)
        return results

    def finalize(self, error_occurred: bool = False) -> None:
        """
        Frees the session.

        :param error_occurred: whether this is because of an error
        """
        if self.network is not None:
            self.network.call_graph_reset_callbacks()
        if self.tf_session is not None:
            self.tf_session.close()
            self.tf_session = None  # type: ignore[assignment]


def _file_exists(filename: str | None) -> bool:
    return bool(filename) and os.path.exists(filename)  # type: ignore[arg-type]
