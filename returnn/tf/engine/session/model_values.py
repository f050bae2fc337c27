"""
`ModelValues`: where the variables of one network get their values from, the same for all that load a model.

First all have those of their initializers; then other files give some of them (`preload_from_files`, `load_on_init`),
and the model file all others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf

from returnn.config import Config
from returnn.config.preloaded_file import PreloadedFile
from returnn.engine.data_identity import warn_of_labels_of_preloaded
from returnn.engine.model_names import no_model_error
from returnn.engine.report.initial_values import warn_of_initial_values
from returnn.engine.run.model_files import ModelToLoad
from returnn.log import log
from returnn.tf.checkpoint import CustomCheckpointLoader, set_preloaded_values
from returnn.tf.checkpoint.verify import open_checkpoint
from returnn.tf.engine.session.built_network import BuiltNetwork
from returnn.tf.engine.session.lacking_layers import warn_of_lacking_layers
from returnn.tf.network.load_on_init import warn_of_other_values


class ModelValues:
    """Gives them to one network. First `preload`, then `initialize` with the session, then `load`."""

    def __init__(self, config: Config, built: BuiltNetwork) -> None:
        """
        :param config: options
        :param built: the network; its graph is the default one
        """
        self.config = config
        self.built = built
        self.network = built.network
        self.updater = built.updater  # None if it is not trained
        self.preloaded: set[Any] = set()  # `ref()` of the variables that other files give values

    def preload(self, files: Sequence[PreloadedFile], model: ModelToLoad) -> None:
        """
        Reads the files of `preload_from_files` that are needed.

        :param files: all of them
        :param model: which will be loaded
        :raises ConfigError: if one is missing, or does not fit
        """
        of_optimizer = {var.ref() for var in self.updater.optimizer_vars} if self.updater is not None else set()
        variables = set_preloaded_values(
            files,
            [var for var in self.network.get_saveable_params_list() if var.ref() not in of_optimizer],
            is_training=self.updater is not None,
            has_own_checkpoint=model.epoch is not None,
            network=self.network,
            on_loaded=lambda file, shapes: warn_of_labels_of_preloaded(file, self.config, shapes),
        )
        self.preloaded = {var.ref() for var in variables}

    def initialize(self, session: tf.compat.v1.Session, model: ModelToLoad) -> None:
        """
        :param session: with the graph
        :param model: which will be loaded
        """
        goes_on = self.updater is not None and model.epoch is not None
        goes_on_from = model.filename if model.unfinished is None else model.unfinished.checkpoint
        trained = _names_in(goes_on_from) if goes_on and goes_on_from is not None else ()
        self.network.initialize_params(session, trained=trained)
        if self.updater is not None:
            self.updater.init_optimizer_vars(session)

    def load(self, session: tf.compat.v1.Session, filename: str, *, goes_on: bool) -> None:
        """
        :param session: with initial values
        :param filename: of a checkpoint
        :param goes_on: whether it is one of the training which goes on with it
        :raises CheckpointError: if it does not fit. With `load_ignore_missing_vars`, parameters may be missing
        """
        print(f"load {filename!r}", file=log.v2)
        trained = _names_in(filename) if goes_on else ()
        on_init = [var for var in self.network.params.loaded_on_init if var.op.name not in trained]
        set_already = {*self.preloaded, *(var.ref() for var in on_init)}
        loader = CustomCheckpointLoader(
            filename,
            [var for var in self.built.variables_of_model() if var.ref() not in set_already],
            ignore_missing=self.config.options.load_ignore_missing_vars,
            network=self.network,
        )
        if loader.missing_var_names:
            warn_of_initial_values(loader.missing_var_names, filename=filename)
        if self.updater is None:
            warn_of_other_values(on_init, filename, session)
            if self.config.options.get_model is None:
                obsolete = set(loader.obsolete_var_names) - {var.op.name for var in on_init}
                warn_of_lacking_layers(self.built.net_dict, sorted(obsolete), filename=filename)
        loader.load_now(session)


def check_may_be_random(config: Config, files: Sequence[PreloadedFile]) -> None:
    """
    For a task other than training that has no model file.

    :param files: of `preload_from_files`
    :raises ConfigError: if no file gives parameters their values, so that all would be random
    """
    preloads = any(file.is_needed(is_training=False, has_own_checkpoint=False) for file in files)
    if not (preloads or config.options.allow_random_model_init):
        raise no_model_error(config)


def _names_in(filename: str) -> Collection[str]:
    """:return: names of all that is in a checkpoint"""
    return open_checkpoint(filename).get_variable_to_shape_map().keys()
