"""What a step tells of the losses that a model has marked, and the scores of single sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

import returnn.frontend as rf
from returnn.engine.run.seq_scores import SeqScores
from returnn.engine.run.unique_tags import check_new_tags
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import ConfigError, check_known

LossTensors = dict[str, "Tensor | float"]


def loss_tensors(losses: Mapping[str, rf.Loss]) -> LossTensors:
    """
    :param losses: by name
    :return: scalars: `loss:NAME` or `error:NAME`, the sums over all frames, and `norm:NAME`, 1 / number of frames
    """
    values: LossTensors = {}
    for name, loss in losses.items():
        values[f"{'error' if loss.as_error else 'loss'}:{name}"] = loss.get_summed_loss()
        count = loss.get_inv_norm_factor()
        values[f"norm:{name}"] = 1.0 / (rf.cast(count, loss.loss.dtype) if isinstance(count, Tensor) else float(count))
    return values


def check_objective(losses: Mapping[str, rf.Loss]) -> None:
    """
    :param losses: of a training step, by name
    :raises ConfigError: if none of them is trained
    """
    if all(loss.as_error for loss in losses.values()):
        raise ConfigError(
            f"nothing is there to train: {', '.join(map(repr, losses))}: all is marked with as_error=True.\n"
            "  What is trained is the sum of the losses that are marked without it."
        )


def l2_losses(model: Any) -> Tensor | float:
    """
    :param model: module
    :return: scalar: the sum of the squares of all parameters that have `weight_decay`, each times that; 0 if none has
    """
    total: Tensor | float = 0.0
    for param in model.parameters() if isinstance(model, rf.Module) else ():
        if param.weight_decay and param.trainable:
            part = param.weight_decay * rf.reduce_sum(rf.square(param), axis=param.dims)
            total = part if isinstance(total, float) else total + part
    return total


class LossPerSeq(SeqScores):
    """Scores of single sequences, by one of the losses that a model marks."""

    def __init__(self, loss_name: str | None, columns: Sequence[str]) -> None:
        """
        :param loss_name: which loss; None: the only one
        :param columns: see `SeqScores`
        """
        super().__init__(columns)
        self._loss_name = loss_name
        self._rest: list[Dim] = []  # dims of the loss beside the batch dim

    def tensors(self, losses: Mapping[str, rf.Loss]) -> dict[str, Tensor]:
        """
        :param losses: of a step, by name
        :return: what `add` wants as arrays: values of the frames, and their number
        :raises ConfigError: if the loss is not known for each sequence
        """
        loss = self._find(losses)
        if batch_dim not in loss.loss.dims:
            raise ConfigError(
                f"option 'output_per_seq_format': the loss {loss.name!r} is {loss.loss}, without batch dim,"
                " so it is not known for each sequence."
            )
        self._rest = [dim for dim in loss.loss.dims if dim != batch_dim]
        if len(self._rest) > 1 or any(dim.size is not None for dim in self._rest):
            raise ConfigError(
                f"option 'output_per_seq_format': the loss {loss.name!r} is {loss.loss};"
                " it needs the batch dim, and no other one than the frames."
            )
        tensors = {"frames": loss.loss.copy_transpose([batch_dim, *self._rest])}
        if self._rest:
            tensors["lengths"] = self._rest[0].get_size_tensor()
        self._check_columns(loss, losses)
        return tensors

    def add(self, tags: Sequence[str], values: Mapping[str, Any]) -> None:
        """
        :param tags: of the sequences of the step
        :param values: arrays of `tensors`
        :raises UserError: if a tag was there already
        """
        check_new_tags(tags, self.rows, task="eval", results="scores")
        lengths = values.get("lengths")
        for b, tag in enumerate(tags):
            frames = numpy.atleast_1d(values["frames"][b])
            if lengths is not None:
                frames = frames[: int(numpy.broadcast_to(lengths, (len(tags),))[b])]
            self.rows[tag] = {column: _value(column, frames) for column in self.columns}

    def _find(self, losses: Mapping[str, rf.Loss]) -> rf.Loss:
        """:return: the named one; otherwise the only one that has all columns"""
        if self._loss_name is None:
            possible = [loss for loss in losses.values() if self._missing_column(loss) is None]
            if len(possible) != 1 and len(losses) != 1:
                raise ConfigError(f"option 'loss_name' is needed.\n  The losses are: {', '.join(losses) or 'none'}.")
            return next(iter(possible or losses.values()))
        check_known("loss", self._loss_name, losses, where="option 'loss_name'")
        return losses[self._loss_name]

    def _missing_column(self, loss: rf.Loss) -> str | None:
        missing = "score" if loss.as_error else "error"
        return next((column for column in self.columns if column.endswith(missing)), None)

    def _check_columns(self, loss: rf.Loss, losses: Mapping[str, rf.Loss]) -> None:
        missing = self._missing_column(loss)
        if missing:
            others = [repr(name) for name, other in losses.items() if other.as_error != loss.as_error]
            raise ConfigError(
                f"option 'output_per_seq_format': the loss {loss.name!r} has no {missing!r}.\n"
                f"  Those that are marked {'without' if loss.as_error else 'with'} as_error=True have one: "
                f"{', '.join(others) or 'none'}. The option 'loss_name' says which one a run is about."
            )


def _value(column: str, frames: numpy.ndarray) -> Any:
    if column == "seq_len":
        return len(frames)
    if column.startswith("pos_"):
        return [float(x) for x in frames]
    return float(frames.mean()) if len(frames) else 0.0
