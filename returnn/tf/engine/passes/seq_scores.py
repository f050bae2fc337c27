"""Scores of single sequences, by a loss of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from returnn.engine.run.seq_scores import SeqScores
from returnn.engine.run.unique_tags import check_new_tags
from returnn.tensor import Tensor, batch_dim
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError, check_known

_NUM_FRAMES = "num_frames"  # fetched, and no column


class NetworkSeqScores(SeqScores):
    """Those of a loss of a network."""

    def __init__(self, network: TFNetwork, loss_name: str | None, columns: Sequence[str]) -> None:
        """
        :param network: with losses
        :param loss_name: which loss; None: the only one
        :param columns: some of `COLUMNS`
        :raises ConfigError: if there is no such loss or column, or if the loss does not have it
        """
        super().__init__(columns)
        self._loss = _find_loss(network, loss_name)
        self._length_columns: set[str] = set()
        self.fetches: dict[str, tf.Tensor] = {}
        if self.with_perplexity and not self._loss.loss.has_perplexity:
            raise self._no_column("perplexity")
        for column in self.columns:
            self._add_fetches(column)

    def add(self, tags: Sequence[str], values: Mapping[str, Any]) -> None:
        """
        :param tags: of the sequences of a step
        :param values: of the fetches
        :raises UserError: if a tag was there already
        """
        check_new_tags(tags, self.rows, task="eval", results="scores")
        for b, tag in enumerate(tags):
            self.rows[tag] = {column: self._value(column, b, values) for column in self.columns}

    def _value(self, column: str, b: int, values: Mapping[str, Any]) -> Any:
        value = values[column][b]
        if column in self._length_columns:
            return [float(x) for x in value[: values[_NUM_FRAMES][b]]]
        return round(float(value)) if column == "seq_len" else float(value)

    def _add_fetches(self, column: str) -> None:
        if column == "seq_len":
            self.fetches["seq_len"] = self._num_of_means()
            return
        is_error = column.endswith("error")
        if column.startswith("pos_"):
            if not self._loss.loss.has_values_of_frames:
                raise self._no_column(column)
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
            self.fetches[_NUM_FRAMES] = self._num_frames(column)
            self._length_columns.add(column)
        self.fetches[column] = frames.copy_transpose([batch_dim, *rest]).raw_tensor

    def _num_of_means(self) -> tf.Tensor:
        """:return: (B,): of how many frames or labels score and error are the mean"""
        layer = self._loss.get_layer()
        with layer.network.construction.compute_scope(layer, suffix="seq_len"):
            nums = tf.convert_to_tensor(self._loss.num_frames_of_sequences(batch_dim))
        return nums if nums.shape.rank == 1 else self._num_frames("seq_len")  # a custom norm is not about sequences

    def _num_frames(self, column: str) -> tf.Tensor:
        output = self._loss.get_layer().output
        if output.time_dim_axis is None:
            raise self._no_column(column)
        return output.get_sequence_lengths()

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
