"""What happened in a run, and when: starts, ends and errors, from its record and from its logs."""

from __future__ import annotations

import calendar
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

_MAX_LOG_BYTES = 4 * 1024**2  # from the end of each
_MAX_EVENTS = 500
_MAX_CHARACTERS = 400
_START = re.compile(
    r"RETURNN .*?\bstart(?:s|ing up)\b.*?(\d{4}-\d\d-\d\d)[ -](\d\d)[:-](\d\d)[:-](\d\d)( \(UTC([+-]\d{4})\))?"
)
_ERROR = re.compile(
    r"^(?:\S+ )?(error: .+|Unhandled exception .+|(?:EXCEPTION|\w+(?:Error|Exception|Interrupt)(?:: .+)?))$"
)


@dataclass(frozen=True)
class Happening:
    """Something at a point in time."""

    time: float  # seconds since 1970
    kind: str  # "start", "epoch", "end", "error", "search"
    text: str
    epoch: int | None = None


def time_line(record: Sequence[Mapping[str, Any]], logs: Iterable[str]) -> list[Happening]:
    """
    :param record: lines of `MODEL.run.jsonl`; the logs are only read if there are none
    :param logs: names of log files; those that cannot be read are left out
    :return: in the order of time
    """
    found = list(_of_record(record)) if record else [event for name in logs for event in _of_log(name)]
    return sorted(found, key=lambda event: event.time)[-_MAX_EVENTS:]


def as_json(happenings: Iterable[Happening]) -> list[dict[str, Any]]:
    """:return: for the page"""
    return [asdict(event) for event in happenings]


def _of_record(record: Sequence[Mapping[str, Any]]) -> Iterator[Happening]:
    num_starts = 0
    for line in record:
        when, epoch = float(line["time"]), line.get("epoch")
        epoch = epoch if isinstance(epoch, int) else None
        if line["event"] == "start":
            what = "starts" if not num_starts else "starts again"
            num_starts += 1
            yield Happening(
                when, "start", f"{what} at epoch {epoch}, on {line.get('host')}, pid {line.get('pid')}", epoch
            )
        elif line["event"] == "epoch":
            yield Happening(when, "epoch", f"epoch {epoch}", epoch)
        elif line["event"] == "search":
            scores = line.get("scores")
            text = "; ".join(map(str, scores)) if isinstance(scores, list) else ""
            options = f", {line['options']}" if line.get("options") else ""
            model = f"epoch {epoch}" if epoch else "a checkpoint without epoch"  # such as a mean of several ones
            yield Happening(when, "search", f"search with {model}{options}: {text}"[:_MAX_CHARACTERS], epoch)
        elif line["event"] == "end":
            error = line.get("error")
            yield Happening(when, "error" if error else "end", str(error or "ends well")[:_MAX_CHARACTERS])


def _of_log(filename: str) -> Iterator[Happening]:
    """Lines of a log have no time as a rule: an error is shown at the next start, or when the log ends."""
    try:
        size, changed = os.path.getsize(filename), os.path.getmtime(filename)
        with open(filename, "rb") as file:
            file.seek(max(size - _MAX_LOG_BYTES, 0))
            lines = file.read(_MAX_LOG_BYTES).decode("utf8", errors="replace").splitlines()
    except OSError:
        return
    error = ""
    for line in lines:
        start = _START.search(line[:_MAX_CHARACTERS])
        if start:
            when = _seconds(start)
            if error:
                yield Happening(when, "error", error)
            error = ""
            yield Happening(when, "start", line.strip()[:_MAX_CHARACTERS])
        elif not error and (found := _ERROR.search(line[:_MAX_CHARACTERS])):
            error = found[1]
    if error:
        yield Happening(changed, "error", error)


def _seconds(match: re.Match[str]) -> float:
    day, hour, minute, second, zone, offset = match.groups()
    try:
        moment = time.strptime(f"{day} {hour}:{minute}:{second}", "%Y-%m-%d %H:%M:%S")
        if zone is None:
            return time.mktime(moment)
    except (ValueError, OverflowError):
        return 0.0
    sign = -1 if offset[0] == "-" else 1
    return calendar.timegm(moment) - sign * (int(offset[1:3]) * 3600 + int(offset[3:]) * 60)
