"""RETURNN: a toolkit to train and decode sequence models."""

import importlib
from typing import Any

from returnn.compat.install import install
from returnn.util.system.version import (
    __version__,
    describe_returnn_version,
    git_describe_head_version,
    returnn_root_dir,
)

__all__ = ["__root_dir__", "__version__", "load"]

__root_dir__ = returnn_root_dir
install()


def __getattr__(name: str) -> Any:
    """What takes time is made when somebody wants it: the long versions ask git."""
    if name == "__long_version__":
        return describe_returnn_version()
    if name == "load":  # late: it needs the whole toolkit
        return importlib.import_module("returnn.load_model").load
    if name == "__git_version__":
        return git_describe_head_version(git_dir=returnn_root_dir)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
