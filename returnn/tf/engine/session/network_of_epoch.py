"""`NetworkOfEpoch`: sees to it that the session has the network of the epoch, with the right parameters."""

from __future__ import annotations

from typing import Any

from returnn.config import Config
from returnn.engine.data_identity import KnownData
from returnn.engine.model_names import model_of_task
from returnn.engine.net_dicts import NetDicts
from returnn.engine.net_diff import is_same_net
from returnn.engine.run.known_labels import labels_of_config
from returnn.engine.run.known_network import NetworkIdentity
from returnn.engine.run.model_files import ModelFiles, ModelToLoad
from returnn.engine.run.unfinished import UnfinishedEpoch
from returnn.log import log
from returnn.tf.checkpoint import CheckpointError, checkpoint_exists
from returnn.tf.checkpoint.verify import open_checkpoint
from returnn.tf.engine.session.built_network import NetDict
from returnn.tf.engine.session.carry_over import CopyRules
from returnn.tf.engine.session.model_values import check_may_be_random
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.tf.layers.options.layer_options import options_of
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.network import TFNetwork
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError

_TRAINING_TASKS = ("train", "initialize_model", "nop_init_net_train", "hyper_param_tuning")


class NetworkOfEpoch:
    """Which network, and which parameters an epoch begins with."""

    def __init__(self, session: NetworkSession, net_dicts: NetDicts, model_files: ModelFiles) -> None:
        """
        :param session: gets the networks
        :param net_dicts: of all epochs
        :param model_files: of all epochs
        """
        self.session = session
        self.epochs = session.epochs
        self.net_dicts = net_dicts
        self.model_files = model_files
        self.loaded_epoch: int | None = None  # whose model file was loaded at the beginning
        self.can_train: bool | None = None  # whether its networks can be in training; None: as the task is
        self.unfinished: UnfinishedEpoch | None = None  # if the training goes on inside of an epoch

    @property
    def is_resumed(self) -> bool:
        """Whether the training goes on with what it saved before."""
        return bool(self.loaded_epoch) or self.unfinished is not None

    def begin(self, config: Config, *, may_be_unfinished: bool = True) -> None:
        """
        Builds the network for the task of the config, and loads its parameters: the model of the epoch, or none in a
        training from scratch. That of an unfinished epoch gets its values when the epoch goes on.

        :param config: options
        :param may_be_unfinished: whether a training can go on inside of an epoch
        :raises ConfigError: if there is no model to work on
        """
        if config.options.task in _TRAINING_TASKS if self.can_train is None else self.can_train:
            may_be_unfinished = may_be_unfinished and config.options.task == "train"
            model = self.model_files.begin_training(config, may_be_unfinished=may_be_unfinished)
            self._build_for_training(model)
        else:
            model = self._build_for_task(config)
        self.unfinished = model.unfinished
        self.loaded_epoch = model.epoch if model.filename else None

    def _build_for_training(self, model: ModelToLoad) -> None:
        step = None if model.unfinished is None else model.unfinished.position.first_train_step
        net_dict = self.net_dicts.of_epoch(self.epochs.of_network, step=step)
        if model.filename and model.epoch:
            trained = self.net_dicts.of_epoch(model.epoch)
            net_dict = net_dict if is_same_net(net_dict, trained) else trained
        self.session.build(net_dict, model, is_training=True)

    def _build_for_task(self, config: Config) -> ModelToLoad:
        """:return: what was loaded: the newest one, also if a training deletes it meanwhile and has another one"""
        model = ModelToLoad(*model_of_task(config))
        while True:
            self.epochs.begin_task(model.epoch)
            if model.filename is None:
                check_may_be_random(config, self.session.preload_from_files)
            try:
                self._warn_of_changes(config, model)
                self.session.build(self.net_dicts.of_epoch(self.epochs.of_network), model, is_training=False)
                return model
            except CheckpointError:
                if model.filename is None or checkpoint_exists(model.filename):
                    raise
                deleted, model = model, ModelToLoad(*model_of_task(config))
                if model.filename in (None, deleted.filename):
                    raise
                print(f"{deleted.filename!r} was deleted meanwhile, so {model.filename!r} is taken", file=log.v2)

    def _warn_of_changes(self, config: Config, model: ModelToLoad) -> None:
        """Says what was otherwise when the model was trained."""
        if model.filename is not None:
            network = self.identity(self.epochs.of_network)
            params = open_checkpoint(model.filename).get_variable_to_shape_map()
            KnownData.of_checkpoint(model.filename).warn_of_changes(labels_of_config(config), network, params)

    def identity(self, epoch: int) -> NetworkIdentity | None:
        """
        :param epoch: from 1 on
        :return: what its network computes, as far as it can be compared with that of another run. Functions that make
            networks are not called for it: they may do something else each time
        """
        options = self.net_dicts.config.options
        if options.network is None or callable(options.get_network):
            return None
        return NetworkIdentity.of(
            self.net_dicts.of_epoch(epoch),
            epoch=None if self.net_dicts.is_last_from(epoch) else epoch,
            behavior_version=BehaviorVersion.get(),
            default_of=_default_of_option,
        )

    def is_another(self, net_dict: NetDict | None = None) -> bool:
        """
        :param net_dict: default: that of the epoch
        :return: whether it is another network than the current one
        """
        built = self.session.built
        if self.session.config.options.reinit_network_each_epoch and built.epoch != self.epochs.current:
            return True
        return not is_same_net(built.net_dict, net_dict or self.net_dicts.of_epoch(self.epochs.current))

    def change(self, net_dict: NetDict | None = None) -> None:
        """
        Changes to another network. It takes over parameters and the state of the optimizer, see `carry_over`.

        :param net_dict: default: that of the epoch
        """
        net_dict = net_dict or self.net_dicts.of_epoch(self.epochs.current)
        self.session.change(net_dict, lambda network: self._copy_rules(net_dict, network))

    def _copy_rules(self, net_dict: NetDict, network: TFNetwork) -> CopyRules:
        pretrain = self.epochs.pretrain
        mode = net_dict.get("#copy_param_mode") or (pretrain.copy_param_mode if pretrain else None) or "ifpossible"
        if pretrain is None or not self.epochs.is_pretrain(self.epochs.current - 1):
            return CopyRules(mode)
        outputs = [layer.name for layer in network.get_output_layers()]
        return CopyRules(
            mode,
            skipped_layers=outputs if pretrain.copy_output_layer is False else (),
            strict_layers=outputs if pretrain.copy_output_layer is True else (),
        )


def _default_of_option(layer_class: Any, option: str) -> Any:
    """:return: of an option of a layer; None if it is not known"""
    try:
        found = options_of(get_layer_class(layer_class)).get(option)
    except ConfigError:  # said when the network is made
        return None
    if found is None or found.is_required:
        return None
    return "identity" if option == "activation" and found.default is None else found.default
