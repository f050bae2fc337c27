"""The options of one run of the toolkit, from files, the command line, or set by code."""

from __future__ import annotations

import builtins
import json
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from returnn.config import command_line, files
from returnn.config.accessors import OptionAccess
from returnn.config.current import MODULE_NAME, current_config, replace_current_config
from returnn.util.errors import ConfigError
from returnn.util.python.user_code import prepare_for_user_code

_NOT_OPTIONS = ("config", "__builtins__", "__file__", "__name__")  # what a Python config finds in its namespace


class Config(OptionAccess):
    """
    Options by name. `typed_dict` has those with Python values, `dict` those of key-value files, as lists of strings.

    A Python config runs with `typed_dict` as its namespace. So its functions see options that are changed later,
    e.g. by the command line. Several files can be loaded one after the other.
    """

    def __init__(self, items: Mapping[str, Any] | None = None):
        """:param items: options with Python values"""
        self.dict: builtins.dict[str, list[str]] = {}
        self.typed_dict: builtins.dict[str, Any] = {}
        self.network_topology_json: str | None = None
        self.files: list[str] = []
        self.options_read: set[str] = set()
        self.command_line_options: set[str] = set()
        self.sources: list[files.ConfigSource] = []
        self._before_files: builtins.dict[str, Any] = {}  # `typed_dict` when the first file was loaded
        self._loaded: builtins.dict[str, Any] = {}  # the same after the last one
        self.update(items or {})

    def __repr__(self) -> str:
        return f"<Config files={self.files!r} options={len(self.option_names())}>"

    def load_file(self, f: str | os.PathLike[str] | TextIO) -> None:
        """
        :param f: name of a Python, JSON or key-value config, or the open file
        :raises ConfigError: if it cannot be read, or if its code fails
        """
        self._load(files.read_source(f))

    @classmethod
    def get_config_file_type(cls, f: str | os.PathLike[str]) -> files.FileType:
        """
        :param f: file name
        :return: "py", "js" (JSON) or "txt" (key-value)
        """
        return files.read_source(f).type

    def option_names(self) -> list[str]:
        """:return: everything that is set"""
        names = [*self.dict, *self.typed_dict]
        return [name for name in names if name not in _NOT_OPTIONS]

    def set(self, key: str, value: Any) -> None:
        """Sets an option to a Python value."""
        self.typed_dict[key] = value

    def update(self, dikt: Mapping[str, Any]) -> None:
        """Sets several options to Python values."""
        self.typed_dict.update(dikt)

    def add_line(self, key: str, value: str) -> None:
        """
        Adds a line of a key-value config.

        :param key: option, or "include" for further files
        :param value: text; commas separate several values
        """
        if key == "include":
            for filename in value.split(","):
                self.load_file(filename.strip())
        elif key in self.typed_dict:
            self.typed_dict[key] = command_line.parse_value(value, current=self.typed_dict[key])
        else:
            self.dict[key] = [entry.strip() for entry in value.split(",")]

    def parse_cmd_args(self, args: Sequence[str]) -> None:
        """
        :param args: the part of the command line after the config files: `++option value`, and flags
        :raises UserError: if they make no sense
        """
        for key, text in command_line.parse_args(args):
            self.command_line_options.add(key)
            if key == "load_config":
                self.load_file(text)
            else:
                self.dict.pop(key, None)
                self.typed_dict[key] = command_line.parse_value(text, current=self.typed_dict.get(key))

    def _load(self, source: files.ConfigSource) -> None:
        if not self.sources:
            self._before_files = dict(self.typed_dict)
        self.files.append(source.filename)
        self.sources.append(source)
        if source.type == "py":
            self._run_python(source)
        elif source.type == "js":
            options = files.parse_json(source)
            if "network" in options:
                self.network_topology_json = json.dumps(options["network"])
            self.update(options)
        else:
            for key, value in files.parse_key_values(source):
                self.add_line(key, value)
        self._loaded = dict(self.typed_dict)

    def _run_python(self, source: files.ConfigSource) -> None:
        prepare_for_user_code()
        self.typed_dict.update({"config": self, "__file__": source.filename, "__name__": MODULE_NAME})
        with self._is_global_if_there_is_none():
            files.run_python(source, self.typed_dict)

    @contextmanager
    def _is_global_if_there_is_none(self) -> Iterator[None]:
        """Configs ask for the global config while they run."""
        missing = current_config() is None
        if missing:
            replace_current_config(self)
        try:
            yield
        finally:
            if missing:
                replace_current_config(None)

    def __getstate__(self) -> builtins.dict[str, Any]:
        """
        The code of the files, and what was changed after they ran. So another process runs the files again, and
        everything that a config can define arrives there: functions, classes, modules.

        :raises ConfigError: if a changed option cannot be pickled
        """
        changed = {
            key: value
            for key, value in self.typed_dict.items()
            if key not in _NOT_OPTIONS and not (key in self._loaded and self._loaded[key] is value)
        }
        before = {key: value for key, value in self._before_files.items() if key not in _NOT_OPTIONS}
        for key, value in [*before.items(), *changed.items()]:
            _check_pickle(key, value)
        return {
            "sources": self.sources,
            "before": before,
            "changed": changed,
            "removed": [key for key in self._loaded if key not in self.typed_dict],
            "dict": self.dict,
            "network_topology_json": self.network_topology_json,
            "command_line_options": self.command_line_options,
        }

    def __setstate__(self, state: builtins.dict[str, Any]) -> None:
        self.__init__(state["before"])  # type: ignore[misc]
        for source in state["sources"]:
            if source.type != "txt":  # its options come with `dict`; its includes are sources of their own
                self._load(source)
        self.update(state["changed"])
        for key in state["removed"]:
            self.typed_dict.pop(key, None)
        self.dict = state["dict"]
        self.sources = state["sources"]
        self.files = [source.filename for source in self.sources]
        self.network_topology_json = state["network_topology_json"]
        self.command_line_options = state["command_line_options"]


def _check_pickle(key: str, value: Any) -> None:
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as exc:
        raise ConfigError(
            f"option {key!r}: {value!r} cannot be sent to another process: {exc}\n"
            "  It was set after the config was loaded. Functions can be sent if they stand in the config file."
        ) from exc
