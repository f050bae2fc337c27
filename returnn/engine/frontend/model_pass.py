"""`ModelPass`: one pass over the batches of a data set, training or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from returnn.config import Config
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.frontend.batch_arrays import ArrayBatch, ArrayMaker, needed_keys
from returnn.engine.frontend.runner import ModelRunner, Step
from returnn.engine.report.pace import Pace
from returnn.engine.report.progress import Progress
from returnn.engine.report.small_batches import SmallBatches, small_batches_of_config
from returnn.engine.report.summaries import Summaries
from returnn.engine.run.interrupts import Interrupts
from returnn.engine.run.non_finite import NonFiniteError
from returnn.engine.run.resumable_pass import ResumablePass
from returnn.engine.run.scores import Scores
from returnn.engine.run.unfinished import Wishes
from returnn.engine.training_position import TrainingPosition
from returnn.log import log
from returnn.util.texts.counted import counted

_META = "meta:"

StepFunction = Callable[[ArrayBatch, Step], Mapping[str, float]]


class ModelPass(ResumablePass):
    """One pass over a data set."""

    def __init__(
        self,
        config: Config,
        runner: ModelRunner,
        summaries: Summaries,
        *,
        dataset_name: str,
        dataset: Dataset,
        batches: BatchSetGenerator,
        epoch: int,
        train: bool = False,
        with_targets: bool = True,
        step_function: StepFunction,
        pace: Pace,
        resumed_at: TrainingPosition | None = None,
        wishes: Callable[[int], Wishes] = lambda num_steps: Wishes(),
        on_step: Callable[[Wishes], None] = lambda agreed: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """
        :param config: options
        :param runner: has the model
        :param summaries: get what is to be seen later
        :param dataset_name: such as "dev"
        :param dataset: after `init_seq_order`
        :param batches: of that epoch
        :param epoch: from 1
        :param train: whether parameters are updated
        :param with_targets: whether all data is needed, also what is not available for inference
        :param step_function: computes a step, and returns its values, see `ModelRunner`
        :param pace: of the passes over this data set
        :param resumed_at: the pass was interrupted there, and goes on
        :param wishes: what this process wants, after so many steps
        :param on_step: called after each step with what is to be done, when `position` may be asked
        :param on_end: called after the last step
        """
        super().__init__(
            scores=Scores(config.options.calculate_exp_loss, all_are_losses=runner.all_scores_are_losses),
            resumed_at=resumed_at,
            wishes=wishes,
            on_step=on_step,
        )
        self.config = config
        self.runner = runner
        self.summaries = summaries
        self.dataset_name = dataset_name
        self.dataset = dataset
        self.batches = batches
        self.epoch = epoch
        self.train = train
        self.with_targets = with_targets
        self._step_function = step_function
        self._pace = pace
        self._on_end = on_end
        self._small_batches: SmallBatches | None = small_batches_of_config(config) if train else None
        self._has_warned = False

    def run(self, report_prefix: str, *, raise_exception: bool = True) -> None:
        """
        Goes over all batches.

        :param report_prefix: for people, e.g. "train epoch 3"
        :param raise_exception: True; errors are raised
        :raises UserError: if there are no batches
        """
        assert raise_exception
        interrupts = Interrupts()
        keys = needed_keys(self.dataset, self.runner.templates, with_targets=self.with_targets)
        enforce_min_len1 = self.config.options.enforce_min_len1
        feeder = self.runner.feeder(
            ArrayMaker(self.dataset, self.runner.templates, keys=keys, enforce_min_len1=enforce_min_len1),
            self.batches,
            while_waiting=lambda: self._check_alone(interrupts, where=f"{report_prefix}, step {self.num_steps}"),
            resumed_at=self._resumed_at,
        )
        start_step = self.runner.train_step if self.train else None
        with (
            self.summaries.of_pass(self.dataset_name, start_step=start_step),
            Progress(report_prefix, num_steps_before=self.num_steps, pace=self._pace) as progress,
            feeder as batches,
            interrupts,
        ):
            self._progress = progress
            for batch in self._batches_of_all(progress.timed(batches)):
                if self._small_batches is not None:
                    self._small_batches.add(num_seqs=len(batch.seq_tags), num_frames=batch.num_frames)
                self._do_step(batch, progress)
                agreed = self._agreed(self._wishes(self.num_steps, interrupts))
                self._end_step(agreed, interrupts, where=f"{report_prefix}, step {self.num_steps}")
            self._on_end()
        self.elapsed = self._elapsed_before + progress.elapsed
        self.data_wait_s = progress.data_wait_s
        self._sum_over_processes()
        self._check_sequences(report_prefix, self.batches, dataset_name=self.dataset_name)

    def _batches_of_all(self, batches: Iterable[ArrayBatch]) -> Iterable[ArrayBatch]:
        """:return: batches to train on: a pass ends for all processes when the first one has no more data"""
        processes = self.runner.processes
        return batches if processes is None or not self.train else processes.while_all_have(batches)

    def _agreed(self, wishes: Wishes) -> Wishes:
        """
        :return: what is done after the step, by all processes. In an evaluation, the others wait for the scores of this
            process, so it ends later if it was asked to
        """
        processes = self.runner.processes
        if processes is None:
            return wishes
        return processes.what_one_wants(wishes) if self.train else replace(wishes, end=False)

    def _check_alone(self, interrupts: Interrupts, *, where: str) -> None:
        """While it waits for data. With other processes, all end after the same step."""
        if self.runner.processes is None:
            interrupts.check(where=where)

    def _sum_over_processes(self) -> None:
        """Scores, and the number of sequences, are those of all parts of the data."""
        processes = self.runner.processes
        if processes is None or not (self.train or processes.shards_data):
            return
        processes.sum_scores(self.scores)
        self.num_seqs = int(processes.sum([self.num_seqs])[0])

    def _do_step(self, batch: ArrayBatch, progress: Progress) -> None:
        step = Step(self.dataset_name, self.epoch, self.num_steps)
        values = self._step_function(batch, step)
        means = self.scores.add({key: value for key, value in values.items() if not key.startswith(_META)})
        self._check_finite(means, step.describe(batch.seq_tags))
        self.num_steps += 1
        self.num_seqs += len(batch.seq_tags)
        self._batch_position = batch.position
        meta = {key.removeprefix(_META): value for key, value in values.items() if key.startswith(_META)}
        if self.train:
            self.summaries.write_step(self.dataset_name, means, {**meta, **self.runner.summaries_of_step()})
        progress.step(
            num_seqs=len(batch.seq_tags),
            means=means,
            complete_frac=batch.complete_frac,
            details=[*(f"{name} {value:.4g}" for name, value in sorted(meta.items())), *self._details(batch)],
        )

    def _details(self, batch: ArrayBatch) -> list[str]:
        if not self.config.options.log_batch_size:
            return []
        return [f"{counted(len(batch.seq_tags), 'seq')}, {counted(batch.num_frames, 'frame')} in the longest"]

    def _check_finite(self, means: Mapping[str, Any], where: str) -> None:
        """:raises NonFiniteError: in training; an evaluation goes on, and says so once"""
        wrong = [key for key, value in means.items() if not math.isfinite(value)]
        if not wrong or (self.train and not self.config.options.stop_on_nonfinite_train_score):
            return
        text = f"{where}: {wrong[0].replace(':', ' ')} is not finite."
        if self.train:
            raise NonFiniteError(text)
        if not self._has_warned:
            log.print_warning(f"{text} Neither is the mean of all sequences.")
            self._has_warned = True

    def position(self) -> TrainingPosition:
        """:return: after the last step; not to be asked during a step"""
        return self._position(epoch=self.epoch, train_step=self.runner.train_step)
