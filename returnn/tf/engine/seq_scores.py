"""
Scores of single sequences, and files with scores.

The columns are `score` and `error`: mean over the frames of the sequence; `pos_score` and `pos_error`: of each frame;
`seq_len`: number of frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor, batch_dim
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError, check_known
from returnn.util.files.atomic_file import open_atomic

COLUMNS = ("score", "error", "pos_score", "pos_error", "seq_len")
FILE_FORMATS = ("txt", "py")


def write_scores(filename: str, scores: Mapping[str, float]) -> None:
    """
    :param filename: the file; it is complete or not there
    :param scores: by names such as "dev_score"
    """
    with open_atomic(filename) as file:
        lines = "".join(f"{key!r}: {value!r},\n" for key, value in sorted(scores.items()))
        file.write(f"{{\n{lines}}}\n")


class SeqScores:
    """Collects them over the batches of a data set."""

    def __init__(self, network: TFNetwork, loss_name: str | None, columns: Sequence[str]) -> None:
        """
        :param network: with losses
        :param loss_name: which loss; None: the only one
        :param columns: some of `COLUMNS`
        :raises ConfigError: if there is no such loss or column, or if the loss does not have it
        """
        for column in columns:
            check_known("column", column, COLUMNS, where="option 'output_per_seq_format'")
        self.columns = list(columns)
        self.rows: dict[str, dict[str, Any]] = {}  # tag -> column -> value
        self._loss = _find_loss(network, loss_name)
        self._length_columns: set[str] = set()
        self.fetches: dict[str, tf.Tensor] = {}
        for column in dict.fromkeys(columns):
            self._add_fetches(column)

    def add(self, tags: Sequence[str], values: Mapping[str, Any]) -> None:
        """
        :param tags: of the sequences of a step
        :param values: of the fetches
        """
        for b, tag in enumerate(tags):
            self.rows[tag] = {column: self._value(column, b, values) for column in self.columns}

    def write(self, filename: str, file_format: str) -> None:
        """
        :param filename: the file; it is complete or not there
        :param file_format: "txt": a line for each sequence, the columns separated by ";". "py": a dict by tag
        """
        check_known("format", file_format, FILE_FORMATS, where="option 'output_per_seq_file_format'")
        with open_atomic(filename) as file:
            if file_format == "txt":
                for row in self.rows.values():
                    file.write(";".join(map(str, row.values())) + "\n")
            else:
                lines = "".join(f"{tag!r}: {row!r},\n" for tag, row in self.rows.items())
                file.write(f"{{\n{lines}}}\n")

    def _value(self, column: str, b: int, values: Mapping[str, Any]) -> Any:
        value = values[column][b]
        if column in self._length_columns:
            return [float(x) for x in value[: values["seq_len"][b]]]
        return int(value) if column == "seq_len" else float(value)

    def _add_fetches(self, column: str) -> None:
        if column == "seq_len":
            self._fetch_lengths()
            return
        is_error = column.endswith("error")
        if column.startswith("pos_"):
            frames = self._loss.get_error_value_per_pos() if is_error else self._loss.get_loss_value_per_pos()
            self._fetch_frames(column, frames)
            return
        value = (
            self._loss.get_normalized_error_value_per_seq()
            if is_error
            else self._loss.get_normalized_loss_value_per_seq()
        )
        if value is None:
            raise self._no_column(column)
        self.fetches[column] = tf.convert_to_tensor(value)

    def _fetch_frames(self, column: str, frames: Any) -> None:
        if frames is None:
            raise self._no_column(column)
        frames = frames if isinstance(frames, Tensor) else self._loss.loss.unflattened(tf.cast(frames, tf.float32))
        if batch_dim not in frames.dims:
            raise self._no_column(column)
        rest = [dim for dim in frames.dims if not dim.is_batch_dim()]
        if len(rest) > 1:
            raise self._no_column(column)
        if rest:
            self._fetch_lengths()
            self._length_columns.add(column)
        self.fetches[column] = frames.copy_transpose([batch_dim, *rest]).raw_tensor

    def _fetch_lengths(self) -> None:
        output = self._loss.get_layer().output
        if output.time_dim_axis is None:
            raise self._no_column("seq_len")
        self.fetches["seq_len"] = output.get_sequence_lengths()

    def _no_column(self, column: str) -> ConfigError:
        return ConfigError(f"option 'output_per_seq_format': the loss {self._loss.name!r} has no {column!r}.")


def _find_loss(network: TFNetwork, name: str | None) -> LossHolder:
    network.maybe_construct_objective()
    losses: Mapping[str, LossHolder] = network.losses_dict
    if name is None:
        if len(losses) != 1:
            raise ConfigError(f"option 'loss_name' is needed.\n  The losses are: {', '.join(losses) or 'none'}.")
        return next(iter(losses.values()))
    check_known("loss", name, losses, where="option 'loss_name'")
    return losses[name]
