"""What a person sees of an epoch: a line that is updated on a terminal, else a line from time to time."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping

from returnn.log import log
from returnn.util.human_readable import hms, human_bytes_size
from returnn.util.terminal import is_tty

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_UPDATES = 0.2


class Progress:
    """Reports the steps of one epoch."""

    def __init__(self, prefix: str) -> None:
        """:param prefix: e.g. "train epoch 3" """
        self.prefix = prefix
        self.start = time.monotonic()
        self.num_seqs = 0
        self.num_steps = 0
        self._is_live = is_tty() and log.verbose[3]
        self._last_report = self.start

    def step(self, *, num_seqs: int, means: Mapping[str, float], complete_frac: float | None) -> None:
        """
        :param num_seqs: of this step
        :param means: scores of this step
        :param complete_frac: of the epoch
        """
        self.num_steps += 1
        self.num_seqs += num_seqs
        now = time.monotonic()
        interval = _SECONDS_BETWEEN_UPDATES if self._is_live else _SECONDS_BETWEEN_LINES
        if log.verbose[5]:
            interval = 0.0
        if now - self._last_report < interval and self.num_steps > 1:
            return
        self._last_report = now
        line = self._line(means, complete_frac, now)
        if self._is_live:
            print(f"\r\x1b[K{line}", end="", flush=True)
        else:
            print(line, file=log.v3)

    def finish(self) -> None:
        """Ends the live line."""
        if self._is_live:
            print("\r\x1b[K", end="", flush=True)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def _line(self, means: Mapping[str, float], complete_frac: float | None, now: float) -> str:
        elapsed = now - self.start
        parts = [f"{self.prefix}, step {self.num_steps}"]
        parts += [f"{key.replace(':', ' ')} {value:.4g}" for key, value in sorted(means.items())]
        parts.append(f"{self.num_seqs / max(elapsed, 1e-6):.1f} seqs/s")
        parts.append(f"mem {human_bytes_size(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)}")
        if complete_frac:
            parts.append(f"{complete_frac:.1%}, {hms(elapsed / complete_frac - elapsed)} left")
        return ", ".join(parts)
