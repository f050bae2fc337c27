"""Which files in a folder are those of a run, and which folders have runs: by their names and first bytes."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from returnn.engine.report.network_picture import SUFFIX as NETWORK_SUFFIX
from returnn.engine.report.run_record import SUFFIX
from returnn.util.texts.counted import counted

_MAX_DEPTH = 5
_MAX_FILES = 20_000
_MAX_PICTURES = 300
_MAX_PICTURE_BYTES = 5 * 1024**2
_MAX_LOGS = 20
_NOT_LEARNING_RATES = (".index", ".meta", ".pt", ".npz", ".hdf", ".gz", ".py", ".config", ".log", ".json", ".jsonl")
_EVENTS = re.compile(r"(^|\.)tfevents\.")
_CONFIG = re.compile(r"\.config$|(^|[_.-])config\.py$")
_PICTURE = re.compile(r"\.(png|svg)$")
_CURVES = "learning_curve.png"  # which the page draws itself


@dataclass
class RunFiles:
    """What there is of a run, in the order of names."""

    folder: str
    records: list[str] = field(default_factory=list)
    learning_rates: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    configs: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def have_a_run(self) -> bool:
        """Whether these are files that a training leaves."""
        return bool(self.records or self.learning_rates or self.events)

    def of_model(self, record: str, options: Mapping[str, Any]) -> RunFiles:
        """
        :param record: one of `records`
        :param options: of its config
        :return: files without those that other models in this folder may have written: of the learning rates and event
            files, those that the options name; of the drawings that trainings leave, that of this model
        """
        network = f"{record.removesuffix(SUFFIX)}{NETWORK_SUFFIX}"
        return dataclasses.replace(
            self,
            records=[record],
            learning_rates=_named(self.learning_rates, options.get("learning_rate_file")),
            events=_named(self.events, options.get("tf_log_dir")),
            pictures=[name for name in self.pictures if name == network or not name.endswith(NETWORK_SUFFIX)],
            problems=list(self.problems),
        )


def find_runs(folder: str) -> list[str]:
    """
    :param folder: of a run, or one in which there are such folders
    :return: the highest folders which have a run file of their own; else the folder itself, which then has no run
    """
    runs: list[str] = []
    for path, folders, names in _walk(folder):
        if any(_is_marker(path, name) for name in names):
            runs.append(path)
            folders.clear()
    return runs or [folder]


def files_of_run(folder: str) -> RunFiles:
    """
    :param folder: of a run
    :return: its files, also those in folders below
    """
    found = RunFiles(folder)
    num_files = 0
    for path, _, names in _walk(folder):
        for name in names:
            num_files += 1
            _sort_in(found, path, name)
        if num_files > _MAX_FILES:
            found.problems.append(f"{folder}: has more than {counted(_MAX_FILES, 'file')}, and not all were looked at")
            break
    found.events.sort(key=lambda name: (os.path.dirname(name), os.path.basename(name)))
    if len(found.pictures) > _MAX_PICTURES:
        found.problems.append(
            f"{folder}: has {counted(len(found.pictures), 'picture')}, of which the first {_MAX_PICTURES} are shown"
        )
        del found.pictures[_MAX_PICTURES:]
    return found


def _named(filenames: Sequence[str], option: Any) -> list[str]:
    """
    :param option: a file, or a folder with these files, as the run was told: perhaps in another working directory
    :return: which files these can be
    """
    if not isinstance(option, str) or not option:
        return []
    wanted = f"/{os.path.normpath(option).strip('/')}/"
    return [name for name in filenames if wanted in f"{os.path.realpath(name)}/"]


def _walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """:return: as `os.walk`, in the order of names and not too deep; links to folders are not followed"""
    for path, folders, names in os.walk(folder):
        depth = os.path.relpath(path, folder).count(os.sep)
        folders[:] = [] if depth >= _MAX_DEPTH else sorted(name for name in folders if not name.startswith("."))
        yield path, folders, sorted(names)


def _is_marker(path: str, name: str) -> bool:
    return name.endswith(SUFFIX) or bool(_EVENTS.search(name)) or _has_learning_rates(os.path.join(path, name))


def _sort_in(found: RunFiles, path: str, name: str) -> None:
    filename = os.path.join(path, name)
    if not os.path.isfile(filename):  # a pipe would wait for somebody
        return
    if name.endswith(SUFFIX):
        found.records.append(filename)
    elif _EVENTS.search(name):
        found.events.append(filename)
    elif _PICTURE.search(name):
        if name != _CURVES and _size(filename) <= _MAX_PICTURE_BYTES:
            found.pictures.append(filename)
    elif _CONFIG.search(name):
        found.configs.append(filename)
    elif name.endswith(".log") or ".log." in name:
        if len(found.logs) < _MAX_LOGS:
            found.logs.append(filename)
    elif _has_learning_rates(filename):
        found.learning_rates.append(filename)


def _has_learning_rates(filename: str) -> bool:
    """:return: whether it is a dict of `EpochData`, by its first bytes"""
    if filename.endswith(_NOT_LEARNING_RATES) or ".data-" in filename or not os.path.isfile(filename):
        return False
    try:
        with open(filename, "rb") as file:
            head = file.read(200)
    except OSError:
        return False
    return head.lstrip().startswith(b"{") and b"EpochData(" in head


def _size(filename: str) -> int:
    try:
        return os.path.getsize(filename)
    except OSError:  # it is gone, or a link to nothing
        return _MAX_PICTURE_BYTES + 1
