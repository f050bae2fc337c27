"""`TrainedModel`: a model of the frontend, as training and evaluation see it (`returnn.engine.run`)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

from returnn.config import Config
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.data_identity import KnownData
from returnn.engine.epochs import Epochs, with_epoch
from returnn.engine.frontend.batch_arrays import ArrayBatch, ArrayMaker, needed_keys
from returnn.engine.frontend.losses import LossPerSeq
from returnn.engine.frontend.model_pass import ModelPass, StepFunction
from returnn.engine.frontend.outputs import each_seq
from returnn.engine.frontend.runner import ModelRunner, Step
from returnn.engine.model_names import model_of_task, no_model_error
from returnn.engine.report.pace import Paces
from returnn.engine.report.summaries import Summaries, wanted_summaries_folder
from returnn.engine.run.auto_batch_size import Tried
from returnn.engine.run.batches import generate_batches, tried_batch
from returnn.engine.run.known_labels import labels_of_config
from returnn.engine.run.model_files import ModelFiles, ModelToLoad
from returnn.engine.run.scores import Scores
from returnn.engine.run.seq_scores import SeqScores
from returnn.engine.run.unfinished import UnfinishedEpoch, Wishes
from returnn.engine.training_position import TrainingPosition
from returnn.forward_iface import ForwardCallbackIface
from returnn.log import log
from returnn.util.numbers.global_random import seed_global_random
from returnn.util.texts.counted import counted

TRAINING_TASKS = ("train", "initialize_model", "nop_init_net_train", "hyper_param_tuning")


class TrainedModel:
    """A model with its parameters, and what is done with it over a data set."""

    def __init__(self, config: Config, runner: ModelRunner, epochs: Epochs, model_files: ModelFiles) -> None:
        """
        :param config: options
        :param runner: computes
        :param epochs: know the current one
        :param model_files: where the epochs are kept
        """
        self.config = config
        self.runner = runner
        self.epochs = epochs
        self.model_files = model_files
        is_first = runner.processes is None or runner.processes.is_first
        self.summaries = Summaries(wanted_summaries_folder(config) if is_first else None)
        self._paces = Paces()
        self.loaded_epoch: int | None = None  # whose model file was loaded at the beginning
        self.unfinished: UnfinishedEpoch | None = None  # if the training goes on inside of an epoch
        self.learning_rate: float | None = None  # there is no other one than that of the options

    @property
    def num_params(self) -> int:
        """Number of entries of all parameters."""
        return self.runner.num_params

    @property
    def is_on_host(self) -> bool:
        """Whether it is computed on CPUs."""
        return self.runner.is_on_host

    @property
    def is_resumed(self) -> bool:
        """Whether the training goes on with what it saved before."""
        return bool(self.loaded_epoch) or self.unfinished is not None

    @property
    def network_identity(self) -> None:
        """Modules are not compared with those of another run."""

    def begin(self, config: Config, *, may_be_unfinished: bool = True) -> None:
        """
        Makes the model for the task of the config, and loads its parameters: those of the epoch, or none in a training
        from scratch. That of an unfinished epoch gets its values when the epoch goes on.

        :param config: options
        :param may_be_unfinished: whether a training can go on inside of an epoch
        :raises ConfigError: if there is no model to work on
        """
        is_training = config.options.task in TRAINING_TASKS
        if is_training:
            may_be_unfinished = may_be_unfinished and config.options.task == "train"
            model = self.model_files.begin_training(config, may_be_unfinished=may_be_unfinished)
        else:
            model = self._begin_task(config)
        self.unfinished = model.unfinished
        if model.filename is not None:
            print(f"load {model.filename!r}", file=log.v2)
        self.runner.build(
            epoch=self.epochs.of_network,
            step=0 if model.unfinished is None else model.unfinished.position.first_train_step,
            filename=model.filename,
            is_training=is_training,
            is_own=model.epoch is not None,
        )
        self.loaded_epoch = model.epoch
        if not is_training and model.filename is None:
            self._check_needs_no_model(config)
        print(f"model: {counted(self.runner.num_params, 'parameter', ',')}", file=log.v2)

    def _begin_task(self, config: Config) -> ModelToLoad:
        model = ModelToLoad(*model_of_task(config))
        if model.filename is not None:
            KnownData.of_checkpoint(model.filename).warn_of_changes(labels_of_config(config))
        self.epochs.begin_task(model.epoch)
        return model

    def _check_needs_no_model(self, config: Config) -> None:
        """:raises ConfigError: if there are parameters, and nothing has given them values"""
        is_random = self.runner.num_params > 0 and not self.runner.is_preloaded(is_training=False)
        if is_random and not config.options.allow_random_model_init:
            raise no_model_error(config)

    def close(self) -> None:
        """Ends everything that has to be ended."""
        self.summaries.close()
        self.runner.close()

    # Training.

    def begin_epoch(self) -> None:
        """The model is the same in all epochs."""

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of the steps to come."""
        self.runner.set_learning_rate(learning_rate)

    def batches(self, dataset: Dataset) -> BatchSetGenerator:
        """:return: of the epoch that the data set is in"""
        return self._batches(dataset, train=True)

    def begin_data(self, name: str, dataset: Dataset) -> None:
        """
        Begins the current epoch of a data set. What code of the config draws from global random states from now on
        follows from the epoch, whether or not the training was resumed.

        :param name: such as "train"
        :param dataset: the data set
        """
        epoch = max(self.epochs.current, 1)
        seed_global_random([self.config.options.random_seed, zlib.crc32(name.encode("utf8")), epoch])
        dataset.init_seq_order(epoch)

    def go_on_from(self, unfinished: UnfinishedEpoch) -> None:
        """
        :param unfinished: of the current epoch
        :raises PositionError: if it is of another model
        """
        print(f"load {unfinished.checkpoint!r}", file=log.v2)
        self.runner.restore(unfinished)

    def snapshot(self) -> Any:
        """:return: all that training changes"""
        return self.runner.snapshot()

    def try_batch(self, dataset: Dataset, batch_size: int) -> Tried:
        """:return: whether the gradients of a step fit into memory"""
        keys = needed_keys(dataset, self.runner.templates, with_targets=True)
        options = self.config.options
        maker = ArrayMaker(dataset, self.runner.templates, keys=keys, enforce_min_len1=options.enforce_min_len1)
        batches = self._batches(dataset, train=True, batch_size=batch_size, of_all=True)
        step = Step("train", max(self.epochs.current, 1), 0)
        return tried_batch(batches, maker, lambda batch: self.runner.try_gradients(batch, step))

    def train_pass(
        self,
        dataset: Dataset,
        batches: BatchSetGenerator,
        *,
        resumed_at: TrainingPosition | None,
        wishes: Callable[[int], Wishes],
        on_step: Callable[[Wishes], None],
    ) -> ModelPass:
        """:return: the training of an epoch"""
        return self._pass(
            "train",
            dataset,
            batches,
            self.runner.train,
            train=True,
            resumed_at=resumed_at,
            wishes=wishes,
            on_step=on_step,
            on_end=lambda: self.runner.end_train_pass(self.epochs.current),
        )

    def end_training(self) -> bool:
        """:return: whether parameters are others now: never"""
        return False

    def save(self, filename: str, *, may_be_broken: bool = False) -> None:
        """
        :param filename: of the checkpoint, without suffix
        :param may_be_broken: whether it may have values that are not finite
        """
        self.runner.save(filename, epoch=self.epochs.current, may_be_broken=may_be_broken)

    def load(self, filename: str) -> None:
        """:param filename: of a checkpoint, without suffix"""
        print(f"load {filename!r}", file=log.v2)
        self.runner.load(filename)

    def names_for_shell(self) -> dict[str, object]:
        """:return: what a debug shell shows"""
        return {"model": self.runner.model}

    # Evaluation.

    def make_seq_scores(self, loss_name: str | None, columns: Sequence[str]) -> LossPerSeq:
        """:return: see `LossPerSeq`"""
        return LossPerSeq(loss_name, columns)

    def evaluate(
        self, name: str, dataset: Dataset, seq_scores: SeqScores | None, *, init_seq_order: bool = True
    ) -> Scores:
        """:return: scores of all of the data set"""
        assert seq_scores is None or isinstance(seq_scores, LossPerSeq)
        train_flag = self.config.options.eval_use_train_flag
        if init_seq_order:
            self.begin_data(name, dataset)
        batches = self._batches(dataset, train=False, filters=name == "dev")
        model_pass = self._pass(
            name,
            dataset,
            batches,
            lambda batch, step: self.runner.evaluate(batch, step, train_flag=train_flag, per_seq=seq_scores),
        )
        model_pass.run(with_epoch(name, self.epochs.current))
        if self.runner.train_step and self.config.options.task in TRAINING_TASKS:  # others are no part of its curves
            self.summaries.write_evaluation(name, model_pass.scores.means(), step=self.runner.train_step)
        return model_pass.scores

    # Outputs.

    def forward(
        self,
        dataset: Dataset,
        callback: ForwardCallbackIface,
        *,
        dataset_init_epoch: bool = True,
        allow_skipping_seqs: bool = False,
        report_prefix: str = "forward",
        on_batch: Callable[[ArrayBatch], None] = lambda batch: None,
    ) -> ModelPass:
        """
        :param dataset: what goes in
        :param callback: gets the outputs of each sequence
        :param dataset_init_epoch: whether an epoch of the data set begins
        :param allow_skipping_seqs: whether `max_seq_length` and `min_seq_length` leave out sequences
        :param report_prefix: for people
        :param on_batch: gets each batch, before its outputs
        :return: knows how many sequences there were, and how long it took
        """
        if dataset_init_epoch:
            self.begin_data("forward", dataset)
        batches = self._batches(
            dataset,
            train=False,
            filters=allow_skipping_seqs or self.config.options.allow_skipping_seqs_in_forward,
            batch_size=self.config.options.forward_batch_size,
        )
        callback.init(model=self.runner.model)

        def forward_step(batch: ArrayBatch, step: Step) -> dict[str, float]:
            on_batch(batch)
            for part in self._forward_parts(batch, step):
                for tag, outputs in part:
                    callback.process_seq(seq_tag=tag, outputs=outputs)
            return {}

        model_pass = self._pass("forward", dataset, batches, forward_step, with_targets=False)
        model_pass.run(report_prefix)
        callback.finish()
        return model_pass

    def _forward_parts(self, batch: ArrayBatch, step: Step) -> list:
        """:return: tags with outputs; a batch is split as often as it takes, if memory is not enough for all of it"""
        try:
            arrays = self.runner.forward(batch, step)
        except Exception as exc:
            parts = batch.split()
            is_possible = self.config.options.forward_auto_split_batch_on_oom and len(parts) > 1
            if not is_possible or not self.runner.is_out_of_memory(exc):
                raise
        else:
            return [list(zip(batch.seq_tags, each_seq(arrays, len(batch.seq_tags)), strict=True))]
        # Behind the handler: the exception keeps the tensors of the step alive.
        log.print_warning(f"{step.describe(batch.seq_tags)}: out of memory, the batch is split into halves")
        return [seqs for part in parts for seqs in self._forward_parts(part, step)]

    def _batches(
        self,
        dataset: Dataset,
        *,
        train: bool,
        filters: bool | None = None,
        batch_size: int = 0,
        of_all: bool = False,
    ) -> BatchSetGenerator:
        batches = generate_batches(
            self.config,
            dataset,
            used_keys=set(self.runner.templates.data),
            train=train,
            epoch=max(self.epochs.current, 1),
            filters=filters,
            batch_size=batch_size,
        )
        processes = self.runner.processes
        if processes is not None and processes.shards_data and not of_all:
            batches.keep_every(processes.size, first=processes.rank)
        return batches

    def _pass(
        self, name: str, dataset: Dataset, batches: BatchSetGenerator, step_function: StepFunction, **options: Any
    ) -> ModelPass:
        return ModelPass(
            self.config,
            self.runner,
            self.summaries,
            dataset_name=name,
            dataset=dataset,
            batches=batches,
            epoch=self.epochs.current,
            step_function=step_function,
            pace=self._paces[name],
            **options,
        )
