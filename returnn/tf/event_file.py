"""Reads the event files of TensorBoard."""

from __future__ import annotations

import os

import tensorflow as tf

from returnn.util.errors import UserError


def read_scalars(filename: str) -> dict[str, list[tuple[int, float]]]:
    """
    :param filename: event file; a last record that is not complete yet is left out
    :return: by tag, the steps with their values
    :raises UserError: if it is no event file
    """
    if not os.path.isfile(filename):
        raise UserError(f"event file {filename!r} does not exist.")
    found: dict[str, list[tuple[int, float]]] = {}
    try:
        for event in tf.compat.v1.train.summary_iterator(filename):
            for value in event.summary.value:
                scalar = _scalar_of(value)
                if scalar is not None:
                    found.setdefault(value.tag, []).append((event.step, scalar))
    except tf.errors.DataLossError as exc:
        if not found:
            raise UserError(f"event file {filename!r}: is no event file, or it is damaged.") from exc
    return found


def _scalar_of(value: tf.compat.v1.Summary.Value) -> float | None:
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if value.HasField("tensor") and not value.tensor.tensor_shape.dim:
        array = tf.make_ndarray(value.tensor)
        return float(array) if array.dtype.kind in "fiu" else None
    return None
