"""
Makes the names of the past known: old modules now, those of the classes of tensors when these are imported, and what
else a config's own code can use when it runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from returnn.compat.module_names import install_gone_names, install_old_submodules, install_old_top_level_modules
from returnn.compat.tensorflow_names import install_old_tensorflow_names
from returnn.util.python.completion import when_complete
from returnn.util.python.user_code import register_for_user_code


def install() -> None:
    """Is called once, by `import returnn`."""
    install_old_submodules()
    install_old_top_level_modules()
    install_gone_names()
    register_for_user_code(install_old_tensorflow_names, _names_in_expressions)
    when_complete("returnn.tensor", _complete_tensor_classes)
    when_complete("returnn.tf.layers.options.past", _install_old_net_dicts)


def _complete_tensor_classes() -> None:
    importlib.import_module(
        "returnn.compat.tensor.install"
    ).complete_tensor_classes()  # late, as `import returnn` is fast


def _install_old_net_dicts() -> None:
    past = importlib.import_module("returnn.tf.layers.options.past")  # late, for the same reason
    importlib.import_module("returnn.compat.net_dicts").install(past.PAST)


def _names_in_expressions() -> Mapping[str, Any]:
    module = importlib.import_module("returnn.compat.tf_util.names")  # late, as it imports TensorFlow
    return {**vars(module), "tf_util": module}
