"""`Evaluation`: scores of data sets, and of their single sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.datasets.core.dataset import Dataset
from returnn.engine.learning_rate_control import LearningRateControl
from returnn.tf.engine.batches import batches_of
from returnn.tf.engine.data_pass import DataPass
from returnn.tf.engine.network_session import NetworkSession
from returnn.tf.engine.seq_scores import SeqScores, write_scores


class Evaluation:
    """What is evaluated after each epoch."""

    def __init__(self, session: NetworkSession, control: LearningRateControl) -> None:
        """
        :param session: with the network of the epoch
        :param control: gets the scores
        """
        self.session = session
        self.control = control
        self.datasets: dict[str, Dataset] = {}  # by name

    def run(
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
        for name, dataset in self.datasets.items():
            if skip_already_evaluated and self._is_evaluated(name):
                continue
            per_seq = None
            if output_per_seq_file:
                per_seq = SeqScores(self.session.network, loss_name, output_per_seq_format or ["score"])
            data_pass = self._make_pass(name, dataset, per_seq, init_seq_order=init_seq_order)
            data_pass.run(f"{name} epoch {self.session.epoch}", raise_exception=True)
            results[name] = data_pass.results
            scores = data_pass.scores.for_learning_rate_control(name)
            all_scores.update(scores)
            if lr_control_update_scores:
                self.control.set_epoch_error(self.session.epoch, scores)
            if per_seq is not None:
                suffix = f".{name}" if len(self.datasets) > 1 else ""
                per_seq.write(f"{output_per_seq_file}{suffix}", output_per_seq_file_format)
        if output_file:
            write_scores(output_file, all_scores)
        return results

    def _make_pass(self, name: str, dataset: Dataset, per_seq: SeqScores | None, *, init_seq_order: bool) -> DataPass:
        if init_seq_order:
            dataset.init_seq_order(self.session.epoch)
        data_pass: DataPass

        def collect(**values: Any) -> None:
            assert per_seq is not None
            per_seq.add(data_pass.current_tags, values)

        data_pass = DataPass(
            self.session,
            dataset_name=name,
            dataset=dataset,
            batches=batches_of(self.session, dataset, train=False, filters=name == "dev"),
            train_flag=self.session.config.options.eval_use_train_flag,
            extra_fetches=per_seq.fetches if per_seq is not None else None,
            extra_fetches_callback=collect if per_seq is not None else None,
        )
        return data_pass

    def _is_evaluated(self, name: str) -> bool:
        errors = self.control.get_epoch_error_dict(self.session.epoch)
        return any(key.startswith(f"{name}_") for key in errors)


def format_score(score: float | dict[str, float]) -> str:
    """:return: for people"""
    if isinstance(score, dict):
        return " ".join(f"{key} {value:.6g}" for key, value in score.items()) or "None"
    return f"{score:.6g}"
