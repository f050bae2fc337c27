"""
Names of modules from repositories.

Such a module is part of a package `returnn_import.HOST.USER.REPO.VERSION`, whose path is the folder of that version.
So the same module can be there in several versions, and its own relative imports work as usual.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable
from types import ModuleType

from returnn.util.errors import ConfigError

ModuleNamePrefix = "returnn_import"
logger = logging.getLogger("returnn.import_")


class InvalidVersion(ConfigError):
    """The version is no version, or the repository has none like it."""


class MissingExplicitImport(ConfigError, ImportError):
    """A module of a repository was imported by its name, before `import_` made it known."""


def package_path() -> str:
    """:return: the folder where repositories are kept; the environment variable RETURNN_PKG_PATH sets it"""
    path = os.environ.get("RETURNN_PKG_PATH") or os.path.expanduser("~/returnn/pkg")
    os.makedirs(path, exist_ok=True)
    return path


def module_name(repo: str, repo_path: str, path: str, version: str | None, make_ready: bool = True) -> str:
    """
    :param repo: e.g. "github.com/rwth-i6/returnn-experiments"
    :param repo_path: folder of this version
    :param path: of the file or package in there, e.g. "common/models.py"
    :param version: None for the one in development
    :param make_ready: whether the module can be imported by this name from now on
    :return: name of the module
    :raises ConfigError: if there is no such file
    """
    file_name = os.path.join(repo_path, path)
    if not os.path.exists(file_name) and not os.path.exists(file_name + ".py"):
        raise ConfigError(f"import_: the repository {repo!r}, version {version or 'dev'!r}, has no file {path!r}.")
    parts = [ModuleNamePrefix, *(_identifier(part) for part in [*repo.split("/"), f"v{version}" if version else "dev"])]
    if make_ready:
        for size in range(1, len(parts) + 1):
            _make_package(".".join(parts[:size]), [repo_path] if size == len(parts) else [])
    return ".".join([*parts, *path.removesuffix(".py").strip("/").split("/")])


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _make_package(name: str, path: list[str]) -> None:
    if name in sys.modules:
        return
    module = ModuleType(name)
    module.__path__ = path
    module.__getattr__ = _explain_missing_attribute(name)  # type: ignore[method-assign]
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


def _explain_missing_attribute(module: str) -> Callable[[str], None]:
    def getattr_(name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MissingExplicitImport(f"{module}.{name} is not there.\n  import_(repo, path, version) makes it known.")

    return getattr_
