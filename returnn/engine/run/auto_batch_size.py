"""
`batch_size = "auto"`: the largest batches that fit into memory. They are found once, by steps which change nothing, and
kept in the file "MODEL.batch_size", so that the training has the same batches when it goes on.

A GPU says when its memory ends. The memory of a machine should not be tried out: how much larger batches take follows
from smaller ones, and the limit is a number of bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from returnn.config import Config
from returnn.engine.run.processes import Processes
from returnn.log import log
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.files.atomic_file import write_atomic
from returnn.util.system import memory
from returnn.util.texts.counted import counted
from returnn.util.texts.human_readable import human_bytes_size

AUTO = "auto"
_CLOSE = 1.1  # sizes that are closer than this are not told apart
_FREE = 0.9  # which part of the memory that is free counts


@dataclass(frozen=True)
class Tried:
    """A step with a batch of a certain size."""

    num_frames: int  # with padding
    num_seqs: int
    fits: bool
    peak_bytes: int | None = None  # of the process, if that is what is limited


@dataclass(frozen=True)
class AutoOptions:
    """The option `auto_batch_size`."""

    start: int = 1000
    margin: float = 0.1
    memory_gb: float | None = None

    @classmethod
    def from_config(cls, config: Config) -> AutoOptions:
        """:raises ConfigError: for keys and values that make no sense"""
        options: Mapping[str, Any] = config.options.auto_batch_size or {}
        for key, value in options.items():
            check_known("key", key, ("start", "margin", "memory_gb"), where="option 'auto_batch_size'")
            if not isinstance(value, (int, float)) or value < 0 or (key == "margin" and value >= 1) or value != value:
                raise ConfigError(f"option 'auto_batch_size': {key!r} is {value!r}, which is no number that fits.")
        result = cls(**options)
        if result.start < 1 or result.memory_gb == 0:
            raise ConfigError("option 'auto_batch_size': 'start' and 'memory_gb' have to be above 0.")
        return result

    def limit_bytes(self, num_local_processes: int) -> int:
        """
        :param num_local_processes: how many share the memory of the machine
        :return: what this process may take in all
        """
        if self.memory_gb is not None:
            return int(self.memory_gb * 1024**3)
        return memory.used_bytes() + int(_FREE * memory.available_bytes() / num_local_processes)


class KnownSizes:
    """The file beside the models: number of parameters -> size. Networks of a pretraining differ."""

    def __init__(self, model: str | None) -> None:
        """:param model: option `model`, what the names of its model files begin with"""
        self.filename = None if model is None else f"{model}.batch_size"

    def read(self) -> dict[str, int]:
        """
        :return: number of parameters -> frames
        :raises UserError: if the file is damaged
        """
        if self.filename is None:
            return {}
        try:
            with open(self.filename, encoding="utf8") as file:
                return {str(key): int(value) for key, value in json.load(file).items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as exc:
            raise UserError(
                f"{self.filename!r}, the sizes of batches that were found, cannot be read: {exc}.\n"
                "  Without the file, they are found again, and may be others."
            ) from exc

    def add(self, num_params: int, size: int) -> None:
        """Writes it."""
        if self.filename is not None:
            write_atomic(self.filename, json.dumps({**self.read(), str(num_params): size}) + "\n")


def known_batch_size(config: Config) -> int:
    """
    :param config: of a task that does not train, with `batch_size = "auto"`
    :return: what its training has found; that of the largest network
    :raises ConfigError: if it has found none
    """
    sizes = KnownSizes(config.options.model).read()
    if not sizes:
        raise ConfigError(
            "option 'batch_size': 'auto' is found when training begins, and there is none yet.\n"
            "  Set 'batch_size' to a number of frames here."
        )
    return sizes[max(sizes, key=int)]


def agreed_batch_size(
    config: Config, num_params: int, try_size: Callable[[int], Tried], *, processes: Processes | None, is_on_host: bool
) -> int:
    """
    :param config: options
    :param num_params: of the network
    :param try_size: does a step with the largest of some batches of a size, which changes nothing
    :param processes: if there are several: they agree on the smallest size
    :param is_on_host: whether the memory of the machine is what is limited
    :return: frames of a batch, as it was found now or before
    :raises UserError: if not even one sequence fits
    """
    sizes = KnownSizes(config.options.model)
    known = sizes.read().get(str(num_params), 0) if processes is None or processes.is_first else 0
    if processes is not None:
        known = int(processes.of_all(known)[0])
    if known:
        print(f"batch_size: {counted(known, 'frame')}, as it was found before", file=log.v3)
        return known
    options = AutoOptions.from_config(config)
    local_size = 1 if processes is None else processes.place.local_size
    limit = options.limit_bytes(local_size) if is_on_host else None
    size, error = 0, None
    try:
        size = _Search(try_size, options, limit).run()
    except UserError as exc:
        error = exc
    if processes is not None:
        of_all = processes.of_all(size)
        if error is None and not of_all.all():
            error = UserError(f"batch_size: 'auto': not even one sequence fits on worker {int(of_all.argmin())}.")
        size = int(of_all.min())
    if error is not None:
        raise error
    what = "" if limit is None else f", within {human_bytes_size(limit)} of memory"
    print(f"batch_size: {counted(size, 'frame')} fit{what}", file=log.v2)
    if processes is None or processes.is_first:
        sizes.add(num_params, size)
    return size


@dataclass
class _Search:
    """Doubles the size while it fits, and then halves the interval."""

    try_size: Callable[[int], Tried]
    options: AutoOptions
    limit_bytes: int | None
    fitting: list[tuple[int, Tried]] = field(default_factory=list)  # in the order of their sizes
    too_large: int | None = None
    _base_bytes: int = 0

    def run(self) -> int:
        """:return: frames"""
        size = self.options.start
        if self.limit_bytes is not None:
            self._base_bytes = memory.used_bytes()
            self.try_size(size)  # memory that is taken once, by the first step
        while True:
            tried = self.try_size(size)
            print(f"batch_size: {counted(size, 'frame')}: {self._describe(tried)}", file=log.v4)
            if not self._fits(tried):
                self._check_can_shrink(size, tried)
                self.too_large = size
            elif self._is_all(size, tried):
                return tried.num_frames
            else:
                self.fitting.append((size, tried))
            next_size = self._next()
            if self.fitting and next_size < _CLOSE * self.fitting[-1][0]:
                return max(int(self.fitting[-1][0] * (1 - self.options.margin)), 1)
            size = next_size

    def _is_all(self, size: int, tried: Tried) -> bool:
        """:return: whether there are no larger batches. A sequence that is longer than a batch does not grow, either"""
        has_grown = not self.fitting or tried.num_frames > self.fitting[-1][1].num_frames
        return not has_grown and size >= 2 * tried.num_frames > 0

    def _fits(self, tried: Tried) -> bool:
        is_below = self.limit_bytes is None or tried.peak_bytes is None or tried.peak_bytes <= self.limit_bytes
        return tried.fits and is_below

    def _next(self) -> int:
        if not self.fitting:
            assert self.too_large is not None
            return max(self.too_large // 2, 1)
        size = self.fitting[-1][0]
        if self.too_large is not None:
            return min((size + self.too_large) // 2, self._largest_by_memory())
        return min(2 * size, self._largest_by_memory())

    def _largest_by_memory(self) -> int:
        """:return: up to where it fits, as memory grows from the size before, or from none to the first one"""
        size, tried = self.fitting[-1]
        if self.limit_bytes is None or tried.peak_bytes is None:
            return 2 * size
        is_first = len(self.fitting) < 2
        before = Tried(0, 0, True, self._base_bytes) if is_first else self.fitting[-2][1]
        assert before.peak_bytes is not None
        frames, more_bytes = tried.num_frames - before.num_frames, tried.peak_bytes - before.peak_bytes
        if frames <= 0 or more_bytes <= 0:
            return 2 * size
        left = int((self.limit_bytes - tried.peak_bytes) * frames / more_bytes)
        # What is taken once, by the first step, is no reason to stop there.
        return max(tried.num_frames + left, int(1.25 * size) if is_first else 0)

    def _check_can_shrink(self, size: int, tried: Tried) -> None:
        if tried.num_seqs <= 1 or size <= 1:
            raise UserError(
                f"batch_size: 'auto': not even one sequence fits, with {counted(tried.num_frames, 'frame', ',')}:"
                f" {self._describe(tried)}.\n"
                "  'max_seq_length' leaves out long sequences, 'gradient_checkpoint' of a subnetwork takes less memory."
            )

    def _describe(self, tried: Tried) -> str:
        if self.limit_bytes is None or tried.peak_bytes is None:
            return "fits" if tried.fits else "does not fit"
        peak, limit = human_bytes_size(tried.peak_bytes), human_bytes_size(self.limit_bytes)
        return f"{'fits' if self._fits(tried) else 'does not fit'}, {peak} of {limit}"
