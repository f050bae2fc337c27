"""`ResumablePass`: how far a pass over a data set is, so that an interrupted one can go on there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.engine.report.progress import Progress
from returnn.engine.run.interrupts import InterruptedRun, Interrupts
from returnn.engine.run.scores import Scores
from returnn.engine.run.unfinished import Wishes
from returnn.engine.training_position import BatchPosition, TrainingPosition
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.numbers.global_random import GlobalRandomState
from returnn.util.texts.counted import counted


class ResumablePass:
    """What the passes of all backends have in common."""

    def __init__(
        self,
        *,
        scores: Scores,
        resumed_at: TrainingPosition | None,
        wishes: Callable[[int], Wishes],
        on_step: Callable[[Wishes], None],
    ) -> None:
        """
        :param scores: none so far; are added up over the batches
        :param resumed_at: the pass was interrupted there, and goes on
        :param wishes: what this process wants, after so many steps
        :param on_step: called after each step with what is to be done, when `position` may be asked
        """
        self.scores = scores
        self.num_steps = 0
        self.num_seqs = 0
        self.elapsed = 0.0
        self.data_wait_s = 0.0
        self._elapsed_before = 0.0  # until it was interrupted
        self._batch_position = BatchPosition()  # behind the last step
        self._unaligned_tags: dict[str, str] = {}  # by layer of alignments: a sequence for which it has none
        self._progress: Progress | None = None  # while it runs
        self._resumed_at = resumed_at
        self._wishes_after = wishes
        self._on_step = on_step
        if resumed_at is not None:
            self._take_over(resumed_at)

    def _take_over(self, position: TrainingPosition) -> None:
        self.num_steps, self.num_seqs = position.num_steps, position.num_seqs
        self._elapsed_before = position.elapsed_s
        self._batch_position = position.batches
        self.scores.sums.update(position.score_sums)
        self.scores.num_frames.update(position.score_frames)

    def _wishes(self, num_steps: int, interrupts: Interrupts) -> Wishes:
        """:return: what this process wants, after so many steps"""
        return replace(self._wishes_after(num_steps), end=interrupts.is_pending)

    def _end_step(self, agreed: Wishes, interrupts: Interrupts, *, where: str) -> None:
        """
        :param agreed: what is to be done; the same in all processes
        :param interrupts: of this process
        :param where: for people: what was finished
        :raises InterruptedRun: if a process was asked to end
        """
        self._on_step(agreed)
        if agreed.end:
            interrupts.check(where=where)
            raise InterruptedRun.by_another_worker(where=where)

    def _check_sequences(self, report_prefix: str, batches: BatchSetGenerator, *, dataset_name: str) -> None:
        """
        Says how many are left out, or do not count: nothing else tells that scores are not those of all sequences.

        :param report_prefix: for people: which pass it is
        :param batches: all of the pass
        :param dataset_name: for people
        :raises UserError: if there was no sequence
        """
        self.scores.left_out.update(batches.left_out)
        if batches.left_out:
            by_option = (
                f"{counted(number, 'sequence')} by {name!r}" for name, number in sorted(batches.left_out.items())
            )
            print(f"{report_prefix}: left out {', '.join(by_option)}", file=log.v2)
        for layer, number in self.scores.uncounted().items():
            print(
                f"{report_prefix}: {number} of {counted(self.num_seqs, 'sequence')} without an alignment in layer "
                f"{layer!r}: their loss is 0, as the targets of CTC are longer than the frames",
                file=log.v2,
            )
        for layer, number in self.scores.unaligned().items():
            example = f", such as {self._unaligned_tags[layer]!r}" if layer in self._unaligned_tags else ""
            log.print_warning(
                f"{report_prefix}: {number} of {counted(self.num_seqs, 'sequence')} without an alignment in layer "
                f"{layer!r}{example}: the labels need more frames, or have scores of -inf. "
                "Its output is no alignment there."
            )
        if not self.num_seqs:
            raise UserError(
                f"{dataset_name}: there is no sequence in this epoch.\n"
                "  Look at max_seq_length, min_seq_length and the filters of the data set."
            )

    def _position(self, *, epoch: int, train_step: int) -> TrainingPosition:
        """
        :param epoch: of the pass
        :param train_step: number of all steps so far
        :return: after the last step; not to be asked during a step
        """
        return TrainingPosition(
            epoch=epoch,
            first_train_step=train_step - self.num_steps,
            num_steps=self.num_steps,
            num_seqs=self.num_seqs,
            batches=self._batch_position,
            elapsed_s=self._elapsed_before + (self._progress.elapsed if self._progress is not None else 0.0),
            score_sums=dict(self.scores.sums),
            score_frames=dict(self.scores.num_frames),
            random_state=GlobalRandomState.current(),
        )
