"""
Option `preload_from_files`: parameters from other checkpoints, e.g. of a model that was trained before.

    preload_from_files = {
        "encoder": {"filename": "pretrained/network.100", "prefix": "enc_", "init_for_train": True},
    }

Without `init_for_train`, a file is loaded for search, forward and evaluation alone, into parameters that the training
does not have. With True, it gives the parameters their first value, when a training begins. With "always", it is loaded
whenever the model is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from operator import methodcaller
from typing import Any, Literal, TypeVar

from returnn.log import log
from returnn.util.errors import ConfigError, check_known, nearest_hint
from returnn.util.files.checkpoint_files import CheckpointError
from returnn.util.files.checkpoint_names import is_missing
from returnn.util.system.warn_once import warn_once


@dataclass(frozen=True)
class PreloadOptions:
    """
    The options of an entry.

    :param filename: checkpoint, with or without the suffix of one of its files
    :param prefix: only variables whose name contains it; names in the checkpoint do not
    :param init_for_train: at the start of a training; "always": also of one that goes on. Otherwise in other tasks
    :param ignore_missing: a variable that is not in the checkpoint keeps its value
    :param ignore_params: do not load these, by their names in the checkpoint; for models in Python, in the model, too
    :param ignore_params_prefixes: do not load those whose name there starts with one of these
    :param var_name_mapping: name in the network -> name in the checkpoint
    :param custom_missing_load_func: function that returns the value of a parameter which is not in the checkpoint, or
        None if it has none. Its arguments are given by name: `name`, that in the checkpoint where it would be (for
        models in Python: that in the model); `shape`, a tuple; and what the checkpoint has: in net dicts `reader`,
        whose `get_tensor(name)` is an array, for models in Python the dict `preload_model_state`, name -> value. It has
        to take others, too (`**_`)
    """

    filename: str
    prefix: str = ""
    init_for_train: bool | Literal["always"] = False
    ignore_missing: bool = False
    ignore_params: Sequence[str] = ()
    ignore_params_prefixes: Sequence[str] = ()
    var_name_mapping: Mapping[str, str] = field(default_factory=dict)
    custom_missing_load_func: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True)
class PreloadedFile(PreloadOptions):
    """One entry, as all backends have it. `name` is that of the entry."""

    name: str

    @property
    def where(self) -> str:
        """How messages begin."""
        return _where(self.name)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """
        Around what opens and reads the file.

        :raises ConfigError: in place of a CheckpointError, with the name of the entry
        """
        print(f"Load parameters from {self.filename!r} (preload_from_files {self.name!r}).", file=log.v2)
        try:
            yield
        except CheckpointError as exc:
            raise ConfigError(f"{self.where}: {exc}") from exc

    def is_needed(self, *, is_training: bool, has_own_checkpoint: bool) -> bool:
        """
        :param is_training: the model is made to be trained
        :param has_own_checkpoint: a checkpoint of this model is loaded, or was, so the training does not begin now
        """
        if self.init_for_train == "always":
            return True
        if is_training:
            return bool(self.init_for_train) and not has_own_checkpoint
        return not self.init_for_train

    def is_to_check(self, *, trains: bool, has_own_checkpoint: bool, names: Iterable[str]) -> bool:
        """
        :param trains: the config is for a training. Files that only other tasks load may come later, and so may
            the parameters that they are for
        :param has_own_checkpoint: as for `is_needed`
        :param names: of the parameters of the model
        :return: whether the file has to be there and to fit before anything runs
        """
        if trains and self.init_for_train:
            return self.is_needed(is_training=True, has_own_checkpoint=has_own_checkpoint)
        is_needed = self.is_needed(is_training=False, has_own_checkpoint=has_own_checkpoint)
        is_later = trains and (is_missing(self.filename) or not any(self.prefix in name for name in names))
        return is_needed and not is_later

    def warn_of_names_without_effect(self, *, in_file: Collection[str], in_model: Collection[str]) -> None:
        """
        Says which names there are not, so that what was to be left out is loaded, or not from where it should be.

        :param in_file: names of all parameters of the file
        :param in_model: names of all parameters of the model
        """
        known = {*in_file, *in_model}
        without_effect = {
            "ignore_params": [name for name in self.ignore_params if name not in known],
            "ignore_params_prefixes": [
                prefix
                for prefix in self.ignore_params_prefixes
                if not any(map(methodcaller("startswith", prefix), known))
            ],
            "var_name_mapping": [name for name in self.var_name_mapping if name not in in_model],
        }
        for key, names in without_effect.items():
            for name in names:
                possible = in_model if key == "var_name_mapping" else known
                whose = "the model has no" if key == "var_name_mapping" else "neither file nor model have a"
                warn_once(f"{self.where}: {key!r}: {whose} parameter {name!r}. {nearest_hint(name, possible)}")


_FileT = TypeVar("_FileT", bound=PreloadedFile)


def preloaded_files(option: Mapping[str, Mapping[str, Any]] | None, kind: type[_FileT] = PreloadedFile) -> list[_FileT]:
    """
    :param option: `preload_from_files` of the config
    :param kind: of the entries; its fields are what they can have
    :return: entries in the order of their names
    :raises ConfigError: if an entry is not as it has to be
    """
    if not isinstance(option or {}, Mapping):
        raise ConfigError(f"option 'preload_from_files' is {option!r}.\n  It has to be a dict: name -> dict.")
    return [_entry(name, options, kind) for name, options in sorted((option or {}).items())]


def _entry(name: str, options: Mapping[str, Any], kind: type[_FileT]) -> _FileT:
    where = _where(name)
    if not isinstance(options, Mapping) or "filename" not in options:
        raise ConfigError(f"{where} is {options!r}.\n  It has to be a dict with 'filename'.")
    known = [f.name for f in fields(kind) if f.name != "name"]
    for key in options:
        check_known("key", key, known, where=where)
    if options.get("init_for_train", False) not in (True, False, "always"):
        raise ConfigError(
            f"{where}: 'init_for_train' is {options['init_for_train']!r}.\n  Possible: True, False, 'always'."
        )
    return kind(name=name, **options)


def _where(name: str) -> str:
    return f"option 'preload_from_files': {name!r}"


def warn_of_missing_files(option: Mapping[str, Mapping[str, Any]] | None) -> None:
    """
    For a training: says which files other tasks alone will load, and which of them are not there. It is an error there.

    :param option: `preload_from_files` of the config
    """
    for name, options in sorted((option or {}).items()):
        if options.get("init_for_train"):
            continue
        if not is_missing(options["filename"]):
            print(f"{_where(name)} is not loaded by a training, as 'init_for_train' is not set", file=log.v3)
        else:
            log.print_warning(
                f"{_where(name)}: checkpoint {options['filename']!r} does not exist. The training does not load it, as"
                " 'init_for_train' is not set; search, forward and evaluation do."
            )
