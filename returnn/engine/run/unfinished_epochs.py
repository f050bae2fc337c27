"""
Checkpoints inside of an epoch, "network.012.unfinished", for all backends: the values of all that training changes,
and the `TrainingPosition`. The newest one is kept until the epoch has its own checkpoint.

The values are taken between two steps. A thread writes them, while the training goes on. If several processes train,
the first one writes them, and the others what is different there (`unfinished_parts`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from returnn.config import Config
from returnn.engine.model_names import ModelNames
from returnn.engine.run.processes import Processes
from returnn.engine.run.unfinished import UnfinishedEpoch
from returnn.engine.run.unfinished_parts import PartFormat, UnfinishedParts
from returnn.engine.training_position import PositionError, TrainingPosition
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.files.checkpoint_files import CheckpointError, unfinished_filename
from returnn.util.texts.counted import counted


class UnfinishedFormat(PartFormat, Protocol):
    """The files of a backend. A snapshot is what its `TrainedModel.snapshot` returned."""

    def begin_epoch(self) -> None:
        """Snapshots of this epoch may have other values than those before."""

    def existing(self, model: str) -> dict[int, str]:
        """:return: epoch -> name without suffix, of what was saved inside of epochs"""

    def write(self, checkpoint: str, snapshot: Any, position: str) -> None:
        """
        :param checkpoint: name without suffix. What is there under that name is replaced
        :param snapshot: what to save
        :param position: where the training was, as text
        :raises CheckpointError: if it cannot be written, or has values that are not finite
        """


class UnfinishedEpochs:
    """Those of one training: writes and finds them."""

    def __init__(
        self,
        config: Config,
        names: ModelNames,
        files: UnfinishedFormat,
        *,
        are_written: bool,
        processes: Processes | None = None,
    ) -> None:
        """
        :param config: its options `save_interval_s`, `save_interval_steps`
        :param names: of the model files
        :param files: of the backend
        :param are_written: whether this training writes model files
        :param processes: if the training has several
        """
        self._is_first = processes is None or processes.is_first
        self._num_workers = 1 if processes is None else processes.size
        self._parts = None if processes is None else UnfinishedParts(processes, files)
        self._written: TrainingPosition | None = None  # what is on the disk
        self.names = names
        self._files = files
        self._interval_s = config.options.save_interval_s
        self._interval_steps = config.options.save_interval_steps
        self.are_written = are_written and bool(self._interval_s or self._interval_steps)
        self._last_s = time.monotonic()
        self._last_step = 0
        self._thread: threading.Thread | None = None
        self._error: CheckpointError | None = None  # of the thread
        self._last_error = ""

    # Finding.

    def newest(self, *, last_model: int) -> UnfinishedEpoch | None:
        """
        :param last_model: the last epoch that has a model file; 0: none
        :return: what to go on from; says why, if there is something that cannot be used
        """
        own = self._newest_of_this_process(last_model=last_model)
        if self._parts is None:
            return own
        wrong = self._parts.who_cannot(None if own is None else own.position)
        if wrong:
            if own is not None:
                workers = f"{'Worker' if len(wrong) == 1 else 'Workers'} {', '.join(map(str, wrong))}"
                reason = f"{workers} cannot go on from it: a part is missing or damaged."
                self.report_unusable(own.checkpoint, PositionError(reason))
            return None
        self._written = None if own is None else own.position
        return own

    def _newest_of_this_process(self, *, last_model: int) -> UnfinishedEpoch | None:
        found = self._existing()
        for epoch in sorted(found, reverse=True):
            if epoch <= last_model:
                break  # that epoch was finished
            try:
                unfinished = self._read(found[epoch])
                if unfinished.position.last_model != last_model:
                    raise PositionError(
                        f"The last model was that of epoch {unfinished.position.last_model}, not {last_model}."
                    )
            except (CheckpointError, PositionError) as exc:
                self.report_unusable(found[epoch], exc)
            else:
                return unfinished
        return None

    @staticmethod
    def report_unusable(checkpoint: str, reason: UserError) -> None:
        """Says that the epoch starts from its beginning."""
        log.print_warning(f"{checkpoint!r} is passed over, so a part of an epoch is lost. {reason}")

    def _existing(self) -> dict[int, str]:
        return self._files.existing(self.names.model) if self.names.model else {}

    def _read(self, checkpoint: str) -> UnfinishedEpoch:
        """
        :raises CheckpointError: if it is damaged
        :raises PositionError: if there is no position in it
        """
        position = TrainingPosition.from_text(self._files.read_position(checkpoint))
        if self._parts is not None:
            own, part = self._parts.read(checkpoint, position)
            return UnfinishedEpoch(replace(own, last_model=position.last_model), checkpoint, part)
        if position.num_workers > 1:
            raise PositionError(
                f"It is of {counted(position.num_workers, 'worker')}, and there is one now, with other batches."
            )
        return UnfinishedEpoch(position, checkpoint)

    # Writing.

    def begin_epoch(self, *, num_steps: int) -> None:
        """
        The time until the next one begins now.

        :param num_steps: where the epoch goes on
        """
        self._last_s, self._last_step = time.monotonic(), num_steps
        self._files.begin_epoch()

    def is_due(self, num_steps: int) -> bool:
        """
        :param num_steps: of the epoch, so far
        :return: whether it is time to save. The first process says it
        """
        self._report_error()
        if not self.are_written or not self._is_first or self._is_writing():
            return False
        if self._interval_steps and num_steps - self._last_step >= self._interval_steps:
            return True
        return bool(self._interval_s) and time.monotonic() - self._last_s >= self._interval_s

    def save(self, position: TrainingPosition, snapshot: Any, *, last_model: int) -> None:
        """
        Begins to write; `wait` waits until it is done.

        :param position: of the training
        :param snapshot: what `TrainedModel.snapshot` returned
        :param last_model: the last epoch that has a model file; 0: none
        """
        self.wait()
        self._last_s, self._last_step = time.monotonic(), position.num_steps
        position = replace(position, last_model=last_model, num_workers=self._num_workers)
        checkpoint = unfinished_filename(self.names.of_epoch(position.epoch))
        if self._parts is not None:
            errors = self._parts.write(checkpoint, position, snapshot, last=self._written)
            if errors:
                self._error = CheckpointError("\n  ".join(errors))
                return
        if self._is_first:
            self._begin_to_write(checkpoint, snapshot, position)

    def _begin_to_write(self, checkpoint: str, snapshot: Any, position: TrainingPosition) -> None:
        others = [name for name in self._existing().values() if name != checkpoint]

        def write() -> None:
            self._files.write(checkpoint, snapshot, position.as_text())
            self._written = position
            for other in others:
                self._files.delete(other)

        self._thread = threading.Thread(target=self._run, args=(write,), name="unfinished epoch", daemon=True)
        self._thread.start()

    def wait(self) -> bool:
        """
        Until what was begun is written.

        :return: whether it could be written
        """
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        return not self._report_error()

    def delete(self) -> None:
        """Deletes them, because the current epoch has its checkpoint now."""
        self.wait()
        for epoch, checkpoint in self._existing().items():
            if epoch <= self.names.epochs.current:
                self._files.delete(checkpoint)
        for part, epoch in self._files.existing_parts(self.names.model or "").items():
            if epoch <= self.names.epochs.current:
                self._files.delete(part)
        self._written = None

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except CheckpointError as exc:
            self._error = exc

    def _is_writing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _report_error(self) -> bool:
        """:return: whether there was one. It is said once"""
        error, self._error = self._error, None
        if error is not None and str(error) != self._last_error:
            self._last_error = str(error)
            log.print_warning(f"{error}\n  The training goes on. It is tried again after the same interval.")
        return error is not None
