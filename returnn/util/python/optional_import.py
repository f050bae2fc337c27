"""Packages that are not part of the base install are imported here, at the moment they are needed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

from returnn.util.errors import MissingPackageError

_FRAMEWORKS = {"tensorflow": "tensorflow-cpu", "torch": "torch"}  # as imported: as pip names it


def import_optional(module: str, *, needed_for: str) -> ModuleType:
    """
    :param module: e.g. "soundfile" or "matplotlib.pyplot"
    :param needed_for: ends the sentence "... is needed for ..."
    :raises MissingPackageError: if the package is not installed; the message has the pip command
    """
    package = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.split(".")[0] != package:
            raise
        raise _missing(package, needed_for) from exc


def check_installed(package: str, *, needed_for: str) -> None:
    """
    :param package: which is imported later
    :param needed_for: ends the sentence "... is needed for ..."
    :raises MissingPackageError: as `import_optional` does, which takes longer
    """
    if package not in sys.modules and importlib.util.find_spec(package) is None:
        raise _missing(package, needed_for)


def _missing(package: str, needed_for: str) -> MissingPackageError:
    name = _FRAMEWORKS.get(package, package)
    return MissingPackageError(f"The package {package!r} is needed for {needed_for}.\n  pip install {name}")


def import_part(module: str, *, needed_for: str) -> ModuleType:
    """
    :param module: of the toolkit, such as "returnn.tf.engine", which needs TensorFlow or PyTorch
    :param needed_for: what asks for it, such as an option or a file; ends the sentence "... is needed for ..."
    :raises MissingPackageError: if that is not installed; the message has the pip command
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        package = (exc.name or "").split(".")[0]
        if package not in _FRAMEWORKS:
            raise
        raise _missing(package, needed_for) from exc
