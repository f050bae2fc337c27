"""
Configs use names of TensorFlow 1 already while they are loaded: `import tensorflow as tf; scale = tf.log(2.0)`.

A config need not use TensorFlow at all, so it is not imported here. But when it is, by whomever, it gets the old names,
see `returnn.compat.tf1_names`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_MODULE = "tensorflow"
_NAMES = "returnn.compat.tf1_names"


def install_old_tensorflow_names() -> None:
    """From now on, TensorFlow has the names of TensorFlow 1, too."""
    module = sys.modules.get(_MODULE)
    if module is None:
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
    elif hasattr(module, "compat"):  # otherwise it is just being imported
        importlib.import_module(_NAMES).add_tf1_names()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow where the others do, and gets to know when it was imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Like another loader, which it hands everything to. In the end, the names are added."""

    def __init__(self, loader: Any):
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader  # nobody else has to know about this one
        self._loader.exec_module(module)
        install_old_tensorflow_names()
