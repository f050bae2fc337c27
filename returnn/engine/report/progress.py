"""What a person sees of an epoch: a line that is updated on a terminal, else a line from time to time."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from returnn.engine.report.pace import Pace
from returnn.log import log
from returnn.util.system.live_line import live_line
from returnn.util.texts.human_readable import hms, human_bytes_size

T = TypeVar("T")

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_UPDATES = 0.2


class Progress:
    """Reports the steps of one epoch. To be used as a context, at whose end the live line is gone."""

    def __init__(self, prefix: str, *, num_steps_before: int = 0, pace: Pace | None = None) -> None:
        """
        :param prefix: e.g. "train epoch 3"
        :param num_steps_before: of the epoch, when it was interrupted
        :param pace: of passes over this data set before; default: there was none
        """
        self.prefix = prefix
        self.start = time.monotonic()
        self.num_seqs = 0
        self.num_steps = num_steps_before
        self._is_live = live_line.is_possible() and log.verbose[3] and not log.verbose[5]
        self._last_report = -math.inf  # so the first step is reported
        self._pace = pace or Pace()
        self._pace.begin()
        self._waited_s: float | None = None  # for data; None: that is not known
        self._after_first: tuple[float, float] | None = None  # the time after the first step, and what it had waited

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        live_line.clear()

    def timed(self, batches: Iterable[T]) -> Iterator[T]:
        """
        :param batches: of the steps
        :return: the same ones; the time until each one is there counts as waiting for data
        """
        self._waited_s = 0.0
        iterator = iter(batches)
        while True:
            start = time.monotonic()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self._waited_s += time.monotonic() - start
            yield batch

    def step(
        self,
        *,
        num_seqs: int,
        means: Mapping[str, float],
        complete_frac: float | None,
        details: Sequence[str] = (),
    ) -> None:
        """
        :param num_seqs: of this step
        :param means: scores of this step, by `loss:NAME` and `error:NAME`
        :param complete_frac: of the epoch
        :param details: what else to say
        """
        self.num_steps += 1
        self.num_seqs += num_seqs
        now = time.monotonic()
        if self._after_first is None:
            self._after_first = now, self._waited_s or 0.0
        if complete_frac:
            self._pace.add(complete_frac, now - self.start)
        if self._is_due(now):
            self._last_report = now
            self._report([*self._parts(means, complete_frac, now - self.start), *details])

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def data_wait_s(self) -> float:
        """Of these, spent waiting for data."""
        return self._waited_s or 0.0

    def _is_due(self, now: float) -> bool:
        interval = _SECONDS_BETWEEN_UPDATES if self._is_live else _SECONDS_BETWEEN_LINES
        return bool(log.verbose[5]) or now - self._last_report >= interval

    def _report(self, parts: Sequence[str]) -> None:
        if self._is_live:
            live_line.show(parts)
        else:
            print(", ".join(parts), file=log.v3)

    def _parts(self, means: Mapping[str, float], complete_frac: float | None, elapsed: float) -> list[str]:
        """:return: the most important ones first"""
        parts = [self.prefix, f"step {self.num_steps}", *describe_scores(means)]
        if complete_frac:
            parts.append(f"{complete_frac:.1%}")
            seconds = self._pace.remaining(complete_frac, elapsed)
            about = "about " if self._pace.is_unsure(complete_frac) else ""
            parts += [] if seconds is None else [f"{about}{hms(seconds)} left"]
        parts.append(f"{self.num_seqs / max(elapsed, 1e-6):.1f} seqs/s")
        waiting = self._share_of_waiting(self.start + elapsed)
        parts += [] if waiting is None else [f"{waiting:.0%} waiting for data"]
        parts.append(f"mem {human_bytes_size(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)}")
        return parts

    def _share_of_waiting(self, now: float) -> float | None:
        """:return: of the time since the first step, which waits for what is loaded ahead later; None: not known"""
        if self._waited_s is None or self._after_first is None:
            return None
        first_s, first_waited_s = self._after_first
        return (self._waited_s - first_waited_s) / (now - first_s) if now > first_s else None


def describe_scores(means: Mapping[str, float]) -> list[str]:
    """
    :param means: by `loss:NAME` and `error:NAME`
    :return: e.g. ["loss 2.1", "error 0.5"], with the names if there are several
    """
    keys = sorted(means, key=lambda key: (key.partition(":")[2], not key.startswith("loss:")))
    has_one_name = len({key.partition(":")[2] for key in keys}) == 1
    return [f"{key.partition(':')[0] if has_one_name else key.replace(':', ' ')} {means[key]:.4g}" for key in keys]
