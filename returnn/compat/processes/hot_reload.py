"""
Loads the modules of a config again when their files have changed, for work in an interactive session.

A training does not do this by itself: it goes on where it was when it is started again, with the new code.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from returnn.config import Config
from returnn.config.environment import is_switched_on
from returnn.util.system.debug_shell import debug_shell

_PACKAGE = Path(__file__).resolve().parents[2]


def should_use_hot_reloading(*, config: Config | None = None) -> bool:
    """
    :param config: changes nothing, as there is no such option
    :return: whether somebody can say what to do: the environment variable `RETURNN_USE_HOT_RELOADING` is 1
    """
    return is_switched_on("RETURNN_USE_HOT_RELOADING")


def hot_reload_config(config: Config) -> None:
    """Loads the files of a config again. Options that are not in there any more stay as they are."""
    for filename in list(config.files):
        config.load_file(filename)


class ConfigHotReloader:
    """Knows the modules that the config and its user have made, and when their files have changed."""

    def __init__(self, config: Config) -> None:
        """
        :param config: the config
        """
        self.config = config
        self._times = {name: _time_of(module) for name, module in self.modules.items()}

    @property
    def modules(self) -> Mapping[str, ModuleType]:
        """By name: what is neither of this package nor installed."""
        installed = tuple({os.path.realpath(path) for path in (sys.prefix, sys.base_prefix)})
        own = str(_PACKAGE)
        found = {}
        for name, module in list(sys.modules.items()):
            filename = getattr(module, "__file__", None)
            if filename and name != "__main__" and getattr(module, "__spec__", None) is not None:
                path = os.path.realpath(filename)
                if not path.startswith((*installed, own)):
                    found[name] = module
        return found

    def any_module_changed(self) -> bool:
        """:return: whether `reload_changed_modules` would do something"""
        return bool(self._changed())

    def reload_changed_modules(self) -> None:
        """Loads changed modules again, and those which may have taken something from them; then the config."""
        changed = self._changed()
        if not changed:
            return
        importlib.invalidate_caches()
        for name, module in changed.items():
            importlib.reload(module)
            self._times[name] = _time_of(module)
        for name, module in self.modules.items():
            taken = {id(value) for value in vars(module).values()}
            if name not in changed and any(id(other) in taken for other in changed.values()):
                importlib.reload(module)
        hot_reload_config(self.config)

    def user_interaction(
        self,
        *,
        return_actions: Sequence[str] | None = None,
        shell_locals: dict[str, Any] | None = None,
        shell_globals: dict[str, Any] | None = None,
    ) -> str:
        """
        Asks what to do, until it is one of some actions. "reload" loads changed modules, "shell" opens a shell.

        :param return_actions: what it can be; default: "continue"
        :param shell_locals: names in the shell
        :param shell_globals: further names
        :return: the action
        """
        actions = list(return_actions or ["continue"])
        while True:
            answer = input(f"({', '.join(['reload', 'shell', *actions])})> ").strip()
            if answer in actions:
                return answer
            if answer == "reload":
                self.reload_changed_modules()
            elif answer == "shell":
                debug_shell(shell_locals, shell_globals, exit_afterwards=False)
            else:
                print(f"there is no action {answer!r}")

    def _changed(self) -> dict[str, ModuleType]:
        modules = self.modules
        return {name: module for name, module in modules.items() if _time_of(module) != self._times.get(name)}


def _time_of(module: ModuleType) -> tuple[int, int] | None:
    try:
        stat = os.stat(module.__file__ or "")
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
