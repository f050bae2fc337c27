"""The part of the engine about the network: building that of an epoch, and loading its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from returnn.config import Config, network_json_from_config
from returnn.engine.base import EngineBase
from returnn.engine.net_diff import is_same_net
from returnn.engine.net_options import OptionsOfNet, check_special_keys
from returnn.engine.pretrain import resolve_epoch_values
from returnn.log import log
from returnn.tensor import batch_dim
from returnn.tf.checkpoint import (
    CheckpointWriter,
    CustomCheckpointLoader,
    existing_checkpoints,
    finish_interrupted_saves,
    newest_intact_checkpoint,
    preloaded_files,
    set_preloaded_values,
)
from returnn.tf.engine.carry_over import CopyRules, restore_state, take_state
from returnn.tf.engine.non_finite import checked_objective
from returnn.tf.network import TFNetwork
from returnn.tf.network.extern_data import ExternData
from returnn.tf.updater import Updater
from returnn.tf.util.assign import assign_values
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1

NetDict = dict[str, Any]
_TRAINING_TASKS = ("train", "initialize_model", "nop_init_net_train", "hyper_param_tuning")


@dataclass(frozen=True)
class ModelToLoad:
    """Where parameters come from. Without an epoch, it is a model of another training."""

    epoch: int | None = None
    filename: str | None = None


class EngineNetwork(EngineBase):
    """Network and session."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        super().__init__(config)
        self.network: TFNetwork = None  # type: ignore[assignment]  # by init_network_from_config
        self.tf_session: tf1.Session = None  # type: ignore[assignment]
        self.updater: Updater | None = None
        self.custom_get_net_dict: Callable[..., NetDict] | None = self.config.typed_value("get_network", None)
        self.use_dynamic_train_flag = False
        self.use_search_flag = False
        self.use_eval_flag = True
        self.preload_from_files = preloaded_files(self.config.typed_value("preload_from_files", None))
        self._options_of_net = OptionsOfNet(self.config)
        self.loaded_model = ModelToLoad()
        self._net_dict: NetDict = {}
        self._net_epoch = 0  # for which the network was built
        self._net_dict_post_proc: Callable[[NetDict], NetDict] = lambda net_dict: net_dict
        self._made: dict[Any, Any] = {}  # in this graph
        self._train_flag: tf.Tensor | None = None
        self._writer: CheckpointWriter | None = None
        self._preloaded: set[Any] = set()  # `ref()` of the variables

    @property
    def orig_config(self) -> dict[str, Any]:
        """What the options were that the net dict changes now."""
        return self._options_of_net.original

    # The net dict.

    def get_net_dict_for_epoch(self, *, epoch: int, step: int | None = None, config: Config | None = None) -> NetDict:
        """
        :param epoch: epoch
        :param step: number of the training step, for `get_network` functions that want it
        :param config: default: that of the engine
        :return: the net dict: of the pretraining, or what `get_network(epoch=...)` gives, or `network`
        :raises ConfigError: if there is none
        """
        config = config or self.config
        get_network = config.typed_value("get_network", None)
        if self.pretrain is not None:
            net_dict = self.pretrain.get_network_json_for_epoch(epoch)
        elif callable(get_network):
            net_dict = _call_get_network(get_network, epoch=epoch, step=step)
        elif config.opt_typed_value("network") is not None or config.network_topology_json is not None:
            net_dict = network_json_from_config(config)
        else:
            raise ConfigError("option 'network' is required: a dict with the options of each layer, by name.")
        check_special_keys(net_dict)
        return self._net_dict_post_proc(resolve_epoch_values(net_dict, epoch))

    # Init.

    def init_network_from_config(
        self, config: Config | None = None, *, net_dict_post_proc: Callable[[NetDict], NetDict] | None = None
    ) -> None:
        """
        Builds the network for the task of the config, and loads its parameters: the model of the epoch, or none in a
        training from scratch.

        :param config: default: that of the engine
        :param net_dict_post_proc: changes the net dict
        """
        config = config or self.config
        if net_dict_post_proc is not None:
            self._net_dict_post_proc = net_dict_post_proc
        is_training = config.value("task", "train") in _TRAINING_TASKS
        model = self._model_to_train(config) if is_training else ModelToLoad(*self.get_epoch_model(config))
        if not is_training:
            self.set_epoch(model.epoch or 0)
            if model.filename is None:
                self._check_may_be_random(config)
        net_dict = self.get_net_dict_for_epoch(epoch=max(self.epoch, 1))
        if is_training and model.epoch:
            trained = self.get_net_dict_for_epoch(epoch=model.epoch)
            net_dict = net_dict if is_same_net(net_dict, trained) else trained
        self._build(net_dict, is_training=is_training)
        self._init_params(model, is_training=is_training)
        self.loaded_model = model

    def need_init_new_network(self, net_desc: NetDict | None = None) -> bool:
        """
        :param net_desc: default: that of the epoch
        :return: whether it is another network than the current one
        """
        if self.config.is_true("reinit_network_each_epoch", False) and self._net_epoch != self.epoch:
            return True
        return not is_same_net(self._net_dict, net_desc or self.get_net_dict_for_epoch(epoch=self.epoch))

    def init_new_network(self, net_desc: NetDict | None = None) -> None:
        """
        Changes to another network. It takes over parameters and the state of the optimizer, see `carry_over`.

        :param net_desc: default: that of the epoch
        """
        net_desc = net_desc or self.get_net_dict_for_epoch(epoch=self.epoch)
        state = take_state(self.network, self.updater, self.tf_session)
        is_training = self.updater is not None
        self._build(net_desc, is_training=is_training)
        self._init_params(ModelToLoad(epoch=self.epoch), is_training=is_training)
        preloaded = {ref: self.tf_session.run(ref.deref()) for ref in self._preloaded}
        restore_state(state, self.network, self.updater, self.tf_session, self._copy_rules(net_desc))
        assign_values(self.tf_session, preloaded)

    def _copy_rules(self, net_desc: NetDict) -> CopyRules:
        pretrain = self.pretrain
        mode = net_desc.get("#copy_param_mode") or (pretrain.copy_param_mode if pretrain else None) or "ifpossible"
        if pretrain is None or not self.is_pretrain_epoch(self.epoch - 1):
            return CopyRules(mode)
        outputs = [layer.name for layer in self.network.get_output_layers()]
        return CopyRules(
            mode,
            skipped_layers=outputs if pretrain.copy_output_layer is False else (),
            strict_layers=outputs if pretrain.copy_output_layer is True else (),
        )

    def _check_may_be_random(self, config: Config) -> None:
        preloads = any(file.is_needed(is_training=False, has_own_checkpoint=False) for file in self.preload_from_files)
        if not (preloads or config.bool("allow_random_model_init", False)):
            raise ConfigError(
                f"there is no model to work on: {config.value('model', None)!r} has no checkpoint.\n"
                "  Train one, or set 'load' or 'load_epoch'; 'allow_random_model_init = True' works without."
            )

    def _model_to_train(self, config: Config) -> ModelToLoad:
        """Sets the epoch to the one that comes next."""
        if self.model_filename:
            for text in finish_interrupted_saves(self.model_filename):
                print(text, file=log.v2)
        existing = self._checkpoints()
        if config.value("start_epoch", "auto") != "auto":
            start = self.get_train_start_epoch(config)
            existing = {epoch: name for epoch, name in existing.items() if epoch < start}
        newest = newest_intact_checkpoint(existing)
        for damage in newest.skipped:
            log.print_warning(f"{damage.reason} The one before is taken.")
        if newest.checkpoint is not None and newest.epoch:
            self.epoch = newest.epoch + 1
            return ModelToLoad(newest.epoch, newest.checkpoint)
        self.epoch = self.get_start_epoch_no_existing_model(config)
        imported = config.value("import_model_train_epoch1", None) or config.value("load", None)
        return ModelToLoad(filename=imported or newest.checkpoint)

    def _checkpoints(self) -> dict[int, str]:
        """:return: epoch -> name without suffix"""
        if not self.model_filename:
            return {}
        return existing_checkpoints(self.model_filename, is_pretrain_epoch=self.is_pretrain_epoch)

    # Graph and session.

    @classmethod
    def create_network(
        cls,
        config: Config,
        rnd_seed: int,
        train_flag: bool | tf.Tensor,
        eval_flag: bool,
        search_flag: bool,
        net_dict: NetDict,
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
        if eval_flag:
            network.maybe_construct_objective()  # losses say which data is used, and batches need to know that
        if train_flag is False:
            return network, None
        objective = network.get_objective()
        if config.bool("stop_on_nonfinite_train_score", True):
            objective = checked_objective(objective)
        updater = Updater(config, network, initial_learning_rate, objective=objective)
        updater.set_trainable_vars(network.get_trainable_params())
        return network, updater

    def _build(self, net_dict: NetDict, *, is_training: bool) -> None:
        """A new graph with the network."""
        self._reset_graph()
        self._net_dict, self._net_epoch = net_dict, self.epoch
        self._options_of_net.apply(net_dict)
        seed = self.config.int("random_seed", 42)
        tf1.set_random_seed(seed)
        train_flag: bool | tf.Tensor = False
        if is_training or self.config.bool("eval_use_train_flag", False):
            train_flag = tf1.placeholder_with_default(tf.constant(False), (), name="train_flag")
            self._train_flag = train_flag
        self.use_dynamic_train_flag = train_flag is not False
        self.network, self.updater = self.create_network(
            self.config,
            rnd_seed=seed,
            train_flag=train_flag,
            eval_flag=self.use_eval_flag,
            search_flag=self.use_search_flag,
            net_dict=net_dict,
            initial_learning_rate=self.config.float("learning_rate", 1.0),
        )
        if not is_training:
            self.updater = None
        for layer in self.network.get_all_layers_deep():
            if layer.warning:
                log.print_warning(layer.warning)
        print(f"network: {len(self.network.layers)} layers, {self.network.get_num_params():,} parameters", file=log.v2)

    def _reset_graph(self) -> None:
        if self.network is not None:
            self.network.call_graph_reset_callbacks()
        if self.tf_session is not None:
            self.tf_session.close()
        tf1.reset_default_graph()
        tf1.disable_eager_execution()
        batch_dim.reset_raw()
        self._made = {}
        self._writer = None
        self._train_flag = None

    def _init_params(self, model: ModelToLoad, *, is_training: bool) -> None:
        if self.updater is not None:
            self.updater.get_optim_op()
        if self.config.is_true("check_unsupported_device", False):
            raise ConfigError("option 'check_unsupported_device': is not supported.")
        variables = set_preloaded_values(
            self.preload_from_files, self.network.get_saveable_params_list(), is_training=is_training,
            has_own_checkpoint=model.epoch is not None, network=self.network,
        )  # fmt: skip
        self._preloaded = {var.ref() for var in variables}
        self.make_tf_session()
        self.network.initialize_params(self.tf_session, are_loaded_next=model.filename is not None)
        if self.updater is not None:
            self.updater.init_optimizer_vars(self.tf_session)
        if model.filename is not None:
            self.load_model(filename=model.filename)
        callback = self.config.typed_value("init_new_network_callback", None)
        if callback:
            callback(engine=self, network=self.network, session=self.tf_session, epoch=self.epoch)

    def make_tf_session(self) -> None:
        """Makes the session, with `tf_session_opts`. `wrap_tf_session` is a function that gets and returns one."""
        options = dict(self.config.typed_value("tf_session_opts", None) or {})
        try:
            proto = tf1.ConfigProto(**options)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"option 'tf_session_opts': {exc}") from exc
        self.tf_session = tf1.Session(config=proto)
        wrap = self.config.typed_value("wrap_tf_session", None)
        if wrap is not None:
            self.tf_session = wrap(self.tf_session)

    def initialize_updater_vars(self) -> None:
        """Initial values of what a new update needs."""
        self.updater.init_optimizer_vars(self.tf_session)

    def check_uninitialized_vars(self) -> None:
        """:raises ConfigError: if a variable has no value, because some code of a config made it too late"""
        names = self.tf_session.run(tf1.report_uninitialized_variables(tf1.global_variables()))
        if len(names):
            text = ", ".join(name.decode("utf8") for name in names[:5])
            raise ConfigError(f"{len(names)} variables have no value: {text}.\n  Make them with the network.")

    def made_once(self, key: Any, make: Callable[[], Any]) -> Any:
        """
        :param key: what it is
        :param make: adds to the graph
        :return: result of `make`, which is called once for each network
        """
        if key not in self._made:
            with self.tf_session.graph.as_default():
                self._made[key] = make()
        return self._made[key]

    def flags_feed(self, *, train_flag: bool) -> dict[Any, Any]:
        """:return: what to feed so that the network is in training or not"""
        return {} if self._train_flag is None else {self._train_flag: train_flag}

    # Model files.

    def save_model(self, filename: str | None = None, *, may_be_broken: bool = False) -> None:
        """
        :param filename: default: that of the epoch
        :param may_be_broken: whether it may have values that are not finite
        :raises CheckpointError: if it cannot be written
        """
        if self._writer is None:
            self._writer = CheckpointWriter({var.op.name: var for var in self._variables_of_model()})
        filename = filename or self.get_epoch_model_filename()
        self._writer.save(self.tf_session, filename, may_be_broken=may_be_broken)

    def load_model(self, epoch: int | None = None, filename: str | None = None) -> None:
        """
        :param epoch: whose model to load, if no file is given
        :param filename: of a checkpoint
        :raises CheckpointError: if it does not fit. With `load_ignore_missing_vars`, parameters may be missing
        """
        filename = filename or self.get_epoch_model_filename(epoch)
        print(f"load {filename!r}", file=log.v2)
        CustomCheckpointLoader(
            filename,
            [var for var in self._variables_of_model() if var.ref() not in self._preloaded],
            ignore_missing=self.config.bool("load_ignore_missing_vars", False),
            network=self.network,
        ).load_now(self.tf_session)

    def _variables_of_model(self) -> list[tf.Variable]:
        variables = self.network.get_saveable_params_list()
        variables += self.updater.optimizer_vars if self.updater is not None else []
        return list({var.ref(): var for var in variables}.values())


def _call_get_network(get_network: Callable[..., NetDict], *, epoch: int, step: int | None) -> NetDict:
    wants_step = "step" in inspect.signature(get_network).parameters
    net_dict = get_network(epoch=epoch, **({"step": step} if wants_step else {}))
    if not isinstance(net_dict, Mapping):
        raise ConfigError(f"option 'get_network': returned {net_dict!r} for epoch {epoch}.\n  It has to be a net dict.")
    return dict(net_dict)
