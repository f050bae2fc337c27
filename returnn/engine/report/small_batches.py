"""Batches of one sequence each, because `batch_size` has no room for two: slow, and rarely meant."""

from __future__ import annotations

from returnn.config import Config
from returnn.engine.batch_options import batch_limits
from returnn.log import log

_NUM_STEPS = 10  # after so many, it is said


class SmallBatches:
    """Looks at the first batches of a training."""

    def __init__(self, *, batch_size: object, max_seqs: int) -> None:
        """
        :param batch_size: of the config, number of frames, or numbers by data key
        :param max_seqs: of the config; 1: it is meant
        """
        self._batch_size = batch_size
        self._is_meant = max_seqs == 1
        self._lengths: list[int] = []

    def add(self, *, num_seqs: int, num_frames: int) -> None:
        """
        Warns once, if the first batches all have one sequence.

        :param num_seqs: of a batch
        :param num_frames: of its longest sequence
        """
        if self._is_meant:
            return
        if num_seqs != 1:
            self._is_meant = True
            return
        self._lengths.append(num_frames)
        if len(self._lengths) == _NUM_STEPS:
            self._is_meant = True
            log.print_warning(self._text())

    def _text(self) -> str:
        shortest, longest = min(self._lengths), max(self._lengths)
        lengths = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
        text = f"batch_size is {self._batch_size} frames, but the first {_NUM_STEPS} sequences have {lengths}"
        if isinstance(self._batch_size, int) and shortest > self._batch_size:
            text += ": none of them fits"
        return f"{text}, so each batch has one sequence. For batches of 10, set 'batch_size' to {10 * longest}."


def small_batches_of_config(config: Config) -> SmallBatches:
    """:return: that looks at the first batches of a training by the config"""
    limits = batch_limits(config, train=True)
    return SmallBatches(batch_size=limits["batch_size"], max_seqs=limits.get("max_seqs", 0))
