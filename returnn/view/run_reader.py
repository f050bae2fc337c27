"""
`RunReader`: all that the page shows of one run, as JSON has it.

A run that is going on is read again and again, and any of its files can end in the middle, be gone, or be something
else. What cannot be read is a line under `problems`, and all the rest is shown.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from returnn.engine.learning_rate_file import EpochData, read_learning_rate_file
from returnn.engine.report.epoch_table import DURATION_KEY, score_keys
from returnn.engine.report.run_record import SUFFIX
from returnn.util.errors import UserError
from returnn.util.files.lock_holder import LockHolder
from returnn.util.numbers.json_value import json_value
from returnn.util.texts.word_errors import align
from returnn.view.event_files import EventFile, joined_scalars
from returnn.view.options import options_of_config
from returnn.view.run_files import RunFiles, files_of_run
from returnn.view.time_line import as_json, time_line

_MAX_POINTS = 400  # of a curve over steps
_MAX_TAGS = 60
_MAX_SEARCHES = 20
_MAX_SAMPLES = 50
_MAX_WORDS = 400  # of a sample whose errors are marked
_EPOCH_OF_PICTURE = re.compile(r"(?:epoch|ep)[-_.]?(\d+)")
_ATTENTION = re.compile(r"\b(att|attention)(\b|_|\d)", re.IGNORECASE)
_EVENTS_OF_RECORD = ("start", "epoch", "end", "search")
Line = Mapping[str, Any]


class RunReader:
    """Reads a run. What it has read of event files, it does not read again."""

    def __init__(self, folder: str, name: str, record: str | None = None) -> None:
        """
        :param folder: of the run
        :param name: for people
        :param record: of the model, if there are several in this folder, as those of an ensemble
        """
        self.folder = folder
        self.name = name
        self.record = record
        self.pictures: dict[str, str] = {}  # file by id, of those that were found last
        self._event_files: dict[str, EventFile] = {}
        self._problems: list[str] = []

    def read(self) -> dict[str, Any]:
        """:return: what there is now"""
        files = files_of_run(self.folder)
        self._problems = list(files.problems)
        record = self._record(files)
        options, source = self._options(files, record)
        if self.record is not None:
            files = files.of_model(self.record, options)
        epochs = self._epochs(files, record)
        if not files.have_a_run:
            self._problems.append(
                f"{self.folder}: there is no learning-rate file, no file '*{SUFFIX}' and no event file here"
            )
        return {
            "name": self.name,
            "folder": self.folder,
            "state": self._state(files, record),
            "num_epochs": options.get("num_epochs"),
            "options": options,
            "options_source": source,
            "epochs": _curves_of_epochs(epochs, record),
            "steps": self._steps(files),
            "time_line": as_json(time_line(record, files.logs)),
            "searches": _searches(record),
            "pictures": self._pictures(files),
            "problems": self._problems,
        }

    def _record(self, files: RunFiles) -> list[Line]:
        filename = self._record_file(files)
        if filename is None:
            return []
        lines = []
        try:
            with open(filename, encoding="utf8", errors="replace") as file:
                texts = file.read().split("\n")
        except OSError as exc:
            self._problems.append(f"{filename}: cannot be read: {exc.strerror}")
            return []
        for number, text in enumerate(texts[:-1], start=1):  # behind the last line feed, a line is being written
            try:
                lines.append(_checked(json.loads(text)))
            except (ValueError, RecursionError) as exc:
                self._problems.append(f"{filename}, line {number}: is left out: {exc}")
        return lines

    def _record_file(self, files: RunFiles) -> str | None:
        return self.record or max(files.records, key=lambda name: (_mtime(name), name), default=None)

    def _epochs(self, files: RunFiles, record: Sequence[Line]) -> dict[int, EpochData]:
        epochs = {}
        for line in record:
            if line["event"] == "epoch":
                meta = {DURATION_KEY: line["duration_s"]} if "duration_s" in line else {}
                rate, scores = line.get("learning_rate"), line.get("scores")
                epochs[line["epoch"]] = EpochData(
                    learning_rate=rate if isinstance(rate, (int, float)) else None,
                    error=scores if isinstance(scores, dict) else {},
                    meta=meta,
                )
        for filename in files.learning_rates:
            try:
                for epoch, data in read_learning_rate_file(filename).items():
                    if data.error or epoch not in epochs:
                        epochs[epoch] = data
            except (UserError, RecursionError, MemoryError) as exc:
                self._problems.append(str(exc).partition("\n")[0])
        return dict(sorted(epochs.items()))

    def _options(self, files: RunFiles, record: Sequence[Line]) -> tuple[dict[str, Any], str]:
        """:return: options, and where they are from"""
        for line in reversed(record):
            if line["event"] == "start" and isinstance(line.get("options"), dict):
                return dict(line["options"]), "the run"
        for filename in sorted(files.configs, key=lambda name: (name.count(os.sep), name)):
            try:
                return options_of_config(filename), filename
            except (OSError, ValueError, RecursionError) as exc:
                self._problems.append(f"{exc}")
        return {}, ""

    def _state(self, files: RunFiles, record: Sequence[Line]) -> str:
        """:return: for people"""
        lines = [line for line in record if line["event"] in ("start", "end")]
        if not lines:
            return ""
        if lines[-1]["event"] == "end":
            return "failed" if lines[-1].get("error") else "finished"
        record_file = self._record_file(files)
        holder = LockHolder.of_file(f"{record_file.removesuffix(SUFFIX)}.lock") if record_file else None
        return "killed" if holder is None or holder.is_dead else "running"

    def _steps(self, files: RunFiles) -> list[dict[str, Any]]:
        by_folder: dict[str, list[EventFile]] = {}
        for filename in files.events:
            file = self._event_files.setdefault(filename, EventFile(filename))
            try:
                file.update()
            except OSError as exc:
                self._problems.append(f"{filename}: cannot be read: {exc.strerror}")
                continue
            if file.problem:
                self._problems.append(file.problem)
            by_folder.setdefault(os.path.dirname(filename), []).append(file)
        curves = []
        for folder, of_folder in by_folder.items():
            for tag, points in sorted(joined_scalars(of_folder).items())[:_MAX_TAGS]:
                steps, values = _thinned(points)
                curves.append({"data": os.path.basename(folder), "tag": tag, "x": steps, "y": values})
        return curves

    def _pictures(self, files: RunFiles) -> list[dict[str, Any]]:
        self.pictures = {}
        pictures = []
        for filename in files.pictures:
            path = os.path.relpath(filename, self.folder)
            key = hashlib.sha256(filename.encode("utf8", errors="replace")).hexdigest()[:16]
            self.pictures[key] = filename
            epoch = _EPOCH_OF_PICTURE.search(path)
            pictures.append({
                "id": key,
                "path": path,
                "name": os.path.splitext(os.path.basename(filename))[0],
                "is_attention": _ATTENTION.search(path) is not None,
                "epoch": int(epoch[1]) if epoch else None,
            })  # fmt: skip
        return pictures


def _checked(line: Any) -> Line:
    """:raises ValueError: if it is no line of a record"""
    if not isinstance(line, dict) or line.get("event") not in _EVENTS_OF_RECORD:
        raise ValueError("it has no 'event' that is known")
    if not isinstance(line.get("time"), (int, float)):
        raise ValueError("it has no 'time'")
    if line["event"] == "epoch" and not isinstance(line.get("epoch"), int):
        raise ValueError("it has no 'epoch'")
    return line


def _mtime(filename: str) -> float:
    try:
        return os.path.getmtime(filename)
    except OSError:
        return 0.0


def _curves_of_epochs(epochs: Mapping[int, EpochData], record: Sequence[Line]) -> dict[str, Any]:
    """:return: numbers of all epochs, None where there is none"""
    facts = {line["epoch"]: line for line in record if line["event"] == "epoch"}

    def column(name: str) -> list[Any]:
        return [_number(facts.get(epoch, {}).get(name)) for epoch in epochs]

    return {
        "epoch": list(epochs),
        "learning_rate": [_number(data.learning_rate) for data in epochs.values()],
        "scores": {
            key: [_number(data.error.get(key)) for data in epochs.values()] for key in score_keys(epochs)
        },
        "duration_s": [_number(data.meta.get(DURATION_KEY)) for data in epochs.values()],
        "data_wait_s": column("data_wait_s"),
        "memory_bytes": column("memory_bytes"),
    }  # fmt: skip


def _number(value: Any) -> float | int | None:
    return json_value(value) if isinstance(value, (int, float)) else None  # type: ignore[no-any-return]


def _thinned(points: Mapping[int, float]) -> tuple[list[int], list[float | None]]:
    """:return: steps and values; of many of them, means over as many as make `_MAX_POINTS`"""
    steps = sorted(points)
    group = -(-len(steps) // _MAX_POINTS)
    if group <= 1:
        return steps, [_number(points[step]) for step in steps]
    groups = [steps[i : i + group] for i in range(0, len(steps), group)]
    return [part[-1] for part in groups], [_number(sum(points[step] for step in part) / len(part)) for part in groups]


def _searches(record: Sequence[Line]) -> list[dict[str, Any]]:
    searches = []
    for line in [line for line in record if line["event"] == "search"][-_MAX_SEARCHES:]:
        samples = line.get("samples")
        shown = [
            {"tag": str(sample.get("tag")), "words": _marked(sample["hypothesis"], sample["reference"])}
            for sample in (samples if isinstance(samples, list) else [])[:_MAX_SAMPLES]
            if isinstance(sample, dict) and all(isinstance(sample.get(key), str) for key in ("hypothesis", "reference"))
        ]
        scores = line.get("scores")
        searches.append({
            "epoch": line.get("epoch"),
            "time": line["time"],
            "scores": [
                *([str(line["options"])] if line.get("options") else []),
                *(map(str, scores) if isinstance(scores, list) else ()),
            ],
            "samples": shown,
        })  # fmt: skip
    return searches


@functools.lru_cache(maxsize=4096)
def _marked(hypothesis: str, reference: str) -> list[tuple[str | None, str | None]]:
    """:return: pairs of hypothesis and reference, words or, if there are too many, all of it"""
    found, wanted = hypothesis.split(), reference.split()
    if max(len(found), len(wanted)) > _MAX_WORDS:
        return [(hypothesis, reference)]
    return align(found, wanted)
