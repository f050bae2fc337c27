"""The first format of TensorFlow's checkpoints: all values in a single file, without checksums of the tensors."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy
import tensorflow as tf

from returnn.tf.checkpoint.files import CheckpointError
from returnn.util.files.atomic_file import write_atomic

tf1 = tf.compat.v1


def read_first_format(filename: str) -> dict[str, numpy.ndarray]:
    """
    :param filename: of the file
    :return: values by name
    :raises CheckpointError: if it is something else, or damaged
    """
    try:
        reader = tf1.train.NewCheckpointReader(filename)
        return {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}
    except (tf.errors.OpError, RuntimeError, ValueError) as exc:
        raise CheckpointError(
            f"checkpoint {filename!r}: it is no checkpoint of TensorFlow, or the file is damaged."
        ) from exc


def write_first_format(values: Mapping[str, numpy.ndarray], filename: str) -> None:
    """
    :param values: by name
    :param filename: of the new file, which is complete or as it was
    :raises CheckpointError: if the format has no such values
    """
    unknown = sorted(name for name, value in values.items() if value.dtype.name in ("float16", "bfloat16"))
    if unknown:
        raise CheckpointError(
            f"checkpoint {filename!r}: {unknown[0]!r} is of {values[unknown[0]].dtype}, which the first format does not"
            " have."
        )
    aside = f"{filename}.{os.getpid()}.tmp"
    names = sorted(values)
    try:
        with tf.Graph().as_default(), tf1.Session() as session:
            placeholders = [tf1.placeholder(values[name].dtype, values[name].shape) for name in names]
            save = tf.raw_ops.Save(filename=aside, tensor_names=names, data=placeholders)
            session.run(save, dict(zip(placeholders, (values[name] for name in names), strict=True)))
        with open(aside, "rb") as file:
            write_atomic(filename, file.read())
    finally:
        if os.path.exists(aside):
            os.remove(aside)
