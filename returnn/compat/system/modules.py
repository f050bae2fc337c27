"""Modules: by file or by name, and which of those that were imported can change from run to run."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from returnn.util.errors import UserError
from returnn.util.system.version import git_describe_head_version


def generic_import_module(filename: str) -> ModuleType:
    """
    :param filename: Python file, folder of a package, or name of a module
    :raises UserError: if there is no such
    """
    if not filename.endswith(".py") and not os.path.isdir(filename):
        try:
            return importlib.import_module(filename)
        except ModuleNotFoundError as exc:
            raise UserError(f"there is no module {filename!r}: {exc}") from exc
    path = os.path.join(filename, "__init__.py") if os.path.isdir(filename) else filename
    name = os.path.basename(filename.rstrip("/")).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise UserError(f"there is no Python file {path!r}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class ReportImportedDevModules:
    """Context. At its end, it is printed which modules were imported in it that are not installed: somebody's own."""

    def __init__(self, *, description: str):
        """:param description: what is done in it"""
        self.description = description
        self.ignore_sys_modules: set[str] = set()
        installed = (path for path in sys.path if "site-packages" in path or path.startswith(sys.base_prefix))
        self.ignore_sys_path = list(installed)

    def __enter__(self) -> ReportImportedDevModules:
        self.ignore_sys_modules = set(sys.modules)
        return self

    def __exit__(self, *_exc_info: object) -> None:
        new = set(sys.modules) - self.ignore_sys_modules
        for folder in sorted({folder for name in new if (folder := self._folder(name))}):
            print(f"{self.description}: imported from {folder!r}, version {git_describe_head_version(git_dir=folder)}")

    def _folder(self, name: str) -> str | None:
        filename: Any = getattr(sys.modules.get(name), "__file__", None)
        if not filename or any(filename.startswith(path.rstrip("/") + "/") for path in self.ignore_sys_path if path):
            return None
        return os.path.dirname(str(filename))
