"""`Evaluation`: scores of data sets, and of their single sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from returnn.datasets.core.dataset import Dataset
from returnn.engine.epochs import Epochs
from returnn.engine.learning_rate_control import LearningRateControl
from returnn.engine.report.missing_seqs import missing_seqs_text
from returnn.engine.run.scores import Scores
from returnn.engine.run.seq_scores import SeqScores, write_scores
from returnn.log import log
from returnn.util.files.atomic_file import check_writable


class EvaluatedModel(Protocol):
    """What an evaluation works on: a network or module of some backend, with its parameters."""

    def make_seq_scores(self, loss_name: str | None, columns: Sequence[str]) -> SeqScores:
        """:return: collects scores of sequences in a pass; see `SeqScores`"""

    def evaluate(
        self, name: str, dataset: Dataset, seq_scores: SeqScores | None, *, init_seq_order: bool = True
    ) -> Scores:
        """
        :param name: of the data set, such as "dev"
        :param dataset: what goes in
        :param seq_scores: gets the scores of each sequence
        :param init_seq_order: whether an epoch of the data set begins
        :return: scores of all of it
        """


class Evaluation:
    """What is evaluated after each epoch."""

    def __init__(self, model: EvaluatedModel, epochs: Epochs, control: LearningRateControl) -> None:
        """
        :param model: of the epoch
        :param epochs: know the current one
        :param control: gets the scores
        """
        self.model = model
        self.epochs = epochs
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
        datasets: Mapping[str, Dataset] | None = None,
    ) -> dict[str, dict[str, float]]:
        """
        Scores of all data sets for evaluation.

        :param output_file: gets the scores: a dict with the names of the learning rate file
        :param output_per_seq_file: gets scores of each sequence. With several data sets, each has a file of its own,
            with its name at the end
        :param loss_name: of these scores; default: the only loss
        :param output_per_seq_format: what of a sequence, see `SeqScores`; default: "score"
        :param output_per_seq_file_format: "txt": a line with the values for each sequence; "py": a dict by tag
        :param skip_already_evaluated: leave out data sets that have scores of this epoch
        :param init_seq_order: whether an epoch of the data sets begins
        :param lr_control_update_scores: whether the learning-rate control gets them
        :param datasets: by name; default: those which are evaluated after each epoch
        :return: means over all frames, by data set, and by `loss:NAME` and `error:NAME`
        """
        datasets = self.datasets if datasets is None else datasets
        for filename in filter(None, (output_file, output_per_seq_file)):
            check_writable(filename)
        results, all_scores = {}, {}
        for name, dataset in datasets.items():
            if skip_already_evaluated and self._is_evaluated(name):
                continue
            per_seq = None
            if output_per_seq_file:
                per_seq = self.model.make_seq_scores(loss_name, output_per_seq_format or ["score"])
            sums = self.model.evaluate(name, dataset, per_seq, init_seq_order=init_seq_order)
            results[name] = sums.means()
            scores = sums.for_learning_rate_control(name)
            all_scores.update(scores)
            if lr_control_update_scores:
                self.control.set_epoch_error(self.epochs.current, scores, as_error=sums.only_errors())
            if per_seq is not None:
                suffix = f".{name}" if len(datasets) > 1 else ""
                order = per_seq.sort(dataset)
                per_seq.write(f"{output_per_seq_file}{suffix}", output_per_seq_file_format)
                missing = missing_seqs_text(dataset, len(per_seq.rows), sums.left_out)
                file = f"{output_per_seq_file}{suffix}"
                print(f"{name}: wrote {file!r}, in the order of {order}{missing}", file=log.v1)
        if output_file:
            write_scores(output_file, all_scores)
        return results

    def _is_evaluated(self, name: str) -> bool:
        errors = self.control.get_epoch_error_dict(self.epochs.current)
        return any(key.startswith(f"{name}_") for key in errors)


def format_score(score: float | dict[str, float]) -> str:
    """:return: for people"""
    if isinstance(score, dict):
        return " ".join(f"{key} {value:.6g}" for key, value in score.items()) or "None"
    return f"{score:.6g}"
