"""
Where the time of a step goes, option `torch_profile`: PyTorch's profiler looks at steps 5 to 9 of the run,
and writes `profile.txt`, a table of the operations that take most of the time, and `profile.json`, which
chrome://tracing and https://ui.perfetto.dev show. A number in place of True is how many steps are looked at.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

from returnn.config import Config
from returnn.engine.report.summaries import wanted_summaries_folder
from returnn.log import log
from returnn.util.errors import ConfigError
from returnn.util.files.atomic_file import write_atomic

_FIRST_STEP = 5  # memory is allocated in the first ones, and kernels are chosen
_NUM_STEPS = 5
_NUM_ROWS = 30


class Profiler:
    """Looks at some steps of a training."""

    def __init__(self, config: Config) -> None:
        """
        :param config: its option `torch_profile`
        :raises ConfigError: if it is not known where to write
        """
        option = config.options.torch_profile
        self._num_steps = _NUM_STEPS if option is True else int(option or 0)
        self._folder = wanted_summaries_folder(config) or os.path.dirname(config.options.model or "")
        self._num_seen = 0
        self._profile: torch.profiler.profile | None = None
        if self._num_steps and not self._folder:
            raise ConfigError("option 'torch_profile': there is no folder for it.\n  Set 'tf_log_dir' or 'model'.")

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """The context of a training step."""
        if not self._num_steps:
            yield
            return
        if self._num_seen == _FIRST_STEP:
            self._profile = torch.profiler.profile(profile_memory=True)
            self._profile.start()
        yield
        self._num_seen += 1
        if self._num_seen == _FIRST_STEP + self._num_steps:
            self.finish()

    def finish(self) -> None:
        """Writes what was seen."""
        if self._profile is None:
            return
        self._profile.stop()
        os.makedirs(self._folder, exist_ok=True)
        key = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        table = self._profile.key_averages().table(sort_by=key, row_limit=_NUM_ROWS)
        write_atomic(os.path.join(self._folder, "profile.txt"), table)
        self._profile.export_chrome_trace(os.path.join(self._folder, "profile.json"))
        self._profile, self._num_steps = None, 0
        print(f"wrote the profile to {self._folder!r}", file=log.v2)
