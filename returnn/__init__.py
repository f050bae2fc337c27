"""RETURNN: a toolkit to train and decode sequence models."""

from returnn.compat.install import install
from returnn.util.system.version import (
    __version__,
    describe_returnn_version,
    git_describe_head_version,
    returnn_root_dir,
)

__all__ = ["__root_dir__", "__version__"]

__root_dir__ = returnn_root_dir
install()


def __getattr__(name: str) -> str:
    """The long versions ask git, so they are made when somebody wants them."""
    if name == "__long_version__":
        return describe_returnn_version()
    if name == "__git_version__":
        return git_describe_head_version(git_dir=returnn_root_dir)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
