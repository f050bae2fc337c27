"""
How TensorFlow runs a step, and where the time goes.

- `tf_run_options`: fields of `tf.compat.v1.RunOptions`, for each step
- `store_metadata_mod_step = n`: each n-th training step is traced, into a file `timeline-EPOCH-STEP.json` that
  chrome://tracing and https://ui.perfetto.dev show
- `store_tf_profile`: TensorFlow's profiler runs during each epoch, for TensorBoard's plugin "profile"
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.client import timeline  # has no public name

from returnn.config import Config
from returnn.log import log
from returnn.util.errors import ConfigError
from returnn.util.files.atomic_file import write_atomic

tf1 = tf.compat.v1


class StepTracer:
    """Runs the steps of a session."""

    def __init__(self, config: Config, folder: str | None) -> None:
        """
        :param config: options
        :param folder: where traces go
        :raises ConfigError: if the options make no sense
        """
        self.folder = folder
        self.options = _run_options(config)
        self.trace_interval = config.options.store_metadata_mod_step
        self.with_profile = config.options.store_tf_profile
        if self.trace_interval and self.with_profile:
            raise ConfigError(
                "options 'store_metadata_mod_step' and 'store_tf_profile': only one is possible at a time."
            )
        if (self.trace_interval or self.with_profile) and not folder:
            name = "store_tf_profile" if self.with_profile else "store_metadata_mod_step"
            raise ConfigError(f"option {name!r}: there is no folder for it.\n  Set 'tf_log_dir' or 'model'.")

    @contextlib.contextmanager
    def profiled(self, *, train: bool) -> Iterator[None]:
        """The context of an epoch. :param train: only trainings are profiled"""
        if not (self.with_profile and train):
            yield
            return
        tf.profiler.experimental.start(self.folder)
        try:
            yield
        finally:
            tf.profiler.experimental.stop()
            print(f"wrote the profile to {self.folder!r}", file=log.v3)

    def run(
        self,
        session: tf.compat.v1.Session,
        fetches: Mapping[str, Any],
        feed: Mapping[Any, Any],
        *,
        epoch: int,
        step: int,
        train: bool,
    ) -> dict[str, Any]:
        """
        :param session: runs the step
        :param fetches: by name
        :param feed: by placeholder
        :param epoch: from 1
        :param step: of the epoch, from 0
        :param train: only trainings are traced
        :return: values by name
        """
        if not (train and self.trace_interval and step % self.trace_interval == 0):
            return session.run(fetches, feed, options=self.options)
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        if self.options is not None:
            options.MergeFrom(self.options)
        metadata = tf1.RunMetadata()
        values = session.run(fetches, feed, options=options, run_metadata=metadata)
        self._store(metadata, f"{epoch}-{step}")
        return values

    def _store(self, metadata: Any, name: str) -> None:
        os.makedirs(self.folder, exist_ok=True)
        trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True)
        filename = os.path.join(self.folder, f"timeline-{name}.json")
        write_atomic(filename, trace)
        print(f"wrote the trace of a step to {filename!r}", file=log.v3)


def _run_options(config: Config) -> Any:
    options = config.options.tf_run_options
    if options is None:
        return None
    if isinstance(options, tf1.RunOptions):
        return options
    try:
        return tf1.RunOptions(**options)
    except (TypeError, ValueError) as exc:
        known = ", ".join(sorted(tf1.RunOptions.DESCRIPTOR.fields_by_name))
        raise ConfigError(f"option 'tf_run_options': {exc}.\n  Possible: {known}.") from exc
