"""The function that configs call."""

from __future__ import annotations

import importlib
from types import ModuleType

from returnn.import_.common import module_name
from returnn.import_.git import get_repo_path


def import_(repo: str, path: str, version: str | None = None) -> ModuleType:
    """
    :param repo: e.g. "github.com/rwth-i6/returnn-experiments"
    :param path: of a file or package in there, e.g. "common/models.py"
    :param version: "YYYYMMDD-HASH", date and hash of the commit; None for a clone to be edited
    :return: the module
    :raises ConfigError: if there is no such version or file
    :raises UserError: if the repository cannot be fetched
    """
    repo_path = get_repo_path(repo, version)
    return importlib.import_module(module_name(repo, repo_path, path, version))
