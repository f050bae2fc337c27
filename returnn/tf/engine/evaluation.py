"""The part of the engine about evaluation: scores of data sets, and of their single sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.config import Config
from returnn.datasets.batch_generator import BatchSetGenerator
from returnn.datasets.dataset import Dataset
from returnn.engine.batch_options import batch_limits
from returnn.tf.engine.data_pipeline import DatasetDataProvider, PipelineFeeder
from returnn.tf.engine.engine_network import EngineNetwork
from returnn.tf.engine.feed import DEFAULT_CAPACITY, BatchFeeder, FeedMaker
from returnn.tf.engine.runner import Runner
from returnn.tf.engine.seq_scores import SeqScores, write_scores


class EngineEvaluation(EngineNetwork):
    """Data sets, and their scores."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        super().__init__(config)
        self.eval_datasets: dict[str, Dataset] = {}

    @property
    def dev_data(self) -> Dataset | None:
        """The data set `dev`."""
        return self.eval_datasets.get("dev")

    @property
    def eval_data(self) -> Dataset | None:
        """The data set `eval`."""
        return self.eval_datasets.get("eval")

    def get_eval_datasets(self) -> dict[str, Dataset]:
        """:return: what is evaluated after each epoch, by name"""
        return self.eval_datasets

    def batches_of(
        self, dataset: Dataset, *, train: bool, filters: bool | None = None, batch_size: int = 0
    ) -> BatchSetGenerator:
        """
        :param dataset: after `init_seq_order`
        :param train: whether it is for training
        :param filters: whether sequences are left out because of their length; default: in training
        :param batch_size: 0: that of the config
        :return: batches of the epoch that the data set is in, within the limits of the config
        """
        limits = batch_limits(self.config, train=train, filters=filters, epoch=max(self.epoch, 1))
        if batch_size:
            limits["batch_size"] = batch_size
        used = self.network.get_used_data_keys()
        return dataset.generate_batches(
            shuffle_batches=train and self.config.bool("shuffle_batches", False),
            used_data_keys=[key for key in dataset.get_data_keys() if key in used] or None,
            **limits,
        )

    def feed_maker(self, dataset: Dataset, fetches: Any = None) -> FeedMaker:
        """
        :param dataset: after its `init_seq_order`
        :param fetches: what will be computed, see `FeedMaker`
        :return: what loads batches of the data set
        """
        return FeedMaker(
            dataset,
            self.network.extern_data,
            used_keys=self.network.get_used_data_keys(),
            fetches=fetches,
            enforce_min_len1=self.config.is_true("enforce_min_len1", False),
        )

    def feeder(self, dataset: Dataset, batches: BatchSetGenerator, fetches: Any) -> BatchFeeder | PipelineFeeder:
        """
        :param dataset: after its `init_seq_order`
        :param batches: of the epoch; with `dataset_pipeline`, they are made in another way
        :param fetches: what will be computed
        :return: context over which to iterate: the batches
        """
        maker = self.feed_maker(dataset, fetches)
        if not self.config.typed_value("dataset_pipeline", None):
            return BatchFeeder(maker, batches, capacity=self.config.int("tf_data_provider_capacity", DEFAULT_CAPACITY))
        provider = self.made_once(
            ("pipeline", id(dataset), *maker.data_keys),
            lambda: DatasetDataProvider(
                self.network.extern_data, self.config, {dataset.name: dataset}, data_keys=maker.data_keys
            ),
        )
        return PipelineFeeder(provider, self.tf_session)

    def eval_model(
        self,
        output_file: str | None = None,
        output_per_seq_file: str | None = None,
        loss_name: str | None = None,
        output_per_seq_format: Sequence[str] | None = None,
        output_per_seq_file_format: str = "txt",
        skip_already_evaluated: bool = False,
        init_seq_order: bool = True,
        lr_control_update_scores: bool = True,
    ) -> dict[str, dict[str, float]]:
        """
        Scores of all data sets for evaluation.

        :param output_file: gets the scores: a dict with keys such as "dev_score"
        :param output_per_seq_file: gets scores of each sequence. With several data sets, each has a file of its own,
            with its name at the end
        :param loss_name: of these scores; default: the only loss
        :param output_per_seq_format: what of a sequence, see `SeqScores`; default: "score"
        :param output_per_seq_file_format: "txt": a line with the values for each sequence; "py": a dict by tag
        :param skip_already_evaluated: leave out data sets that have scores of this epoch
        :param init_seq_order: whether an epoch of the data sets begins
        :param lr_control_update_scores: whether the learning-rate control gets them
        :return: means over all frames, by data set, and by `loss:NAME` and `error:NAME`
        """
        results, all_scores = {}, {}
        for name, dataset in self.get_eval_datasets().items():
            if skip_already_evaluated and self._is_evaluated(name):
                continue
            per_seq = None
            if output_per_seq_file:
                per_seq = SeqScores(self.network, loss_name, output_per_seq_format or ["score"])
            runner = self._eval_runner(name, dataset, per_seq, init_seq_order=init_seq_order)
            runner.run(f"{name} epoch {self.epoch}", raise_exception=True)
            results[name] = runner.results
            scores = runner.scores.for_learning_rate_control(name)
            all_scores.update(scores)
            if lr_control_update_scores:
                self.learning_rate_control.set_epoch_error(self.epoch, scores)
            if per_seq is not None:
                suffix = f".{name}" if len(self.get_eval_datasets()) > 1 else ""
                per_seq.write(f"{output_per_seq_file}{suffix}", output_per_seq_file_format)
        if output_file:
            write_scores(output_file, all_scores)
        return results

    def _eval_runner(self, name: str, dataset: Dataset, per_seq: SeqScores | None, *, init_seq_order: bool) -> Runner:
        if init_seq_order:
            dataset.init_seq_order(self.epoch)
        runner: Runner

        def collect(**values: Any) -> None:
            assert per_seq is not None
            per_seq.add(runner.current_tags, values)

        runner = Runner(
            self,
            dataset_name=name,
            dataset=dataset,
            batches=self.batches_of(dataset, train=False, filters=name == "dev"),
            train_flag=self.config.bool("eval_use_train_flag", False),
            extra_fetches=per_seq.fetches if per_seq is not None else None,
            extra_fetches_callback=collect if per_seq is not None else None,
        )
        return runner

    def _is_evaluated(self, name: str) -> bool:
        errors = self.learning_rate_control.get_epoch_error_dict(self.epoch)
        return any(key.startswith(f"{name}_") for key in errors)

    def format_score(self, score: float | dict[str, float]) -> str:
        """:return: for people"""
        if isinstance(score, dict):
            return " ".join(f"{key} {value:.6g}" for key, value in score.items()) or "None"
        return f"{score:.6g}"
