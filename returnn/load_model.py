"""`returnn.load`: a trained model, from its config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import returnn.__main__ as rnn
from returnn.config import get_global_config
from returnn.config.option_check import check_options
from returnn.engine.run.loaded_model import LoadedModel, load_model


def load(config: str | os.PathLike[str] | Sequence[str], *, epoch: int | None = None, **options: Any) -> LoadedModel:
    """
    :param config: file of a config, or several, of which later ones win
    :param epoch: of the model; default: as the config says, or the last one
    :param options: of the config, as `++option value`: they win, and the config can ask for them while it runs
        (`config.float("lm_scale", 0.6)`). Such as `log_verbosity=4`, which is 0 otherwise
    :return: the model, see `returnn.tf.engine.model.Model`; with `get_model`, see `returnn.engine.frontend.model.Model`
    :raises UserError: if the config is wrong, or there is no such model
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    updates = {"task": "search", "log": ["stdout"], "log_verbosity": 0, **options}
    if epoch is not None:
        updates["load_epoch"] = epoch
    rnn.init_config(config, extra_updates=updates)
    rnn.init_log()
    check_options(get_global_config())
    rnn.init_backend_engine()
    return load_model(get_global_config())
