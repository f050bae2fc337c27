"""
Configs use names of TensorFlow 1 already while they are loaded: `import tensorflow as tf; scale = tf.log(2.0)`.

A config need not use TensorFlow at all, so it is not imported here. But when it is, by whomever, it gets the old names,
see `returnn.compat.tf1_names`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator

from returnn.util.python.around_import import import_within

_MODULE = "tensorflow"
_NAMES = "returnn.compat.tf1_names"


def install_old_tensorflow_names() -> None:
    """From now on, TensorFlow has the names of TensorFlow 1, too."""
    module = sys.modules.get(_MODULE)
    if module is None:
        import_within(_MODULE, _with_old_names)
    elif hasattr(module, "compat"):  # otherwise it is just being imported
        importlib.import_module(_NAMES).add_tf1_names()


@contextlib.contextmanager
def _with_old_names() -> Iterator[None]:
    yield
    install_old_tensorflow_names()
