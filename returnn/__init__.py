"""RETURNN: a toolkit to train and decode sequence models."""

from returnn.old_module_names import install_old_submodules

__version__ = "2.0.0.dev0"

install_old_submodules()
