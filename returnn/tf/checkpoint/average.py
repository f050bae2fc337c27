"""The mean of several checkpoints, as a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy
import tensorflow as tf

from returnn.tf.checkpoint.files import CheckpointError
from returnn.tf.checkpoint.save import CheckpointWriter
from returnn.tf.checkpoint.verify import open_checkpoint, read_tensor
from returnn.util.texts.counted import counted

tf1 = tf.compat.v1


def average_checkpoints(checkpoints: Sequence[str]) -> dict[str, numpy.ndarray]:
    """
    :param checkpoints: names without suffix, of the same model
    :return: by name of the variable, the mean of the values; what counts, such as the number of the step, is taken from
        the last checkpoint
    :raises CheckpointError: if a checkpoint is damaged, or has other variables
    """
    if not checkpoints:
        raise CheckpointError("there are no checkpoints to take the mean of.")
    totals: dict[str, numpy.ndarray] = {}
    for checkpoint in checkpoints:
        reader = open_checkpoint(checkpoint)
        names = sorted(reader.get_variable_to_shape_map())
        if totals:
            _check_same_variables(checkpoint, names, checkpoints[0], totals)
        for name in names:
            value = numpy.asarray(read_tensor(reader, name, checkpoint=checkpoint))
            is_number = numpy.issubdtype(value.dtype, numpy.floating)
            if name in totals and is_number:
                _check_same_shape(checkpoint, name, value, totals[name])
                totals[name] = totals[name] + value
            else:
                totals[name] = value.astype("float64") if is_number else value
    dtypes = open_checkpoint(checkpoints[-1]).get_variable_to_dtype_map()
    return {
        name: (total / len(checkpoints)).astype(dtypes[name].as_numpy_dtype) if dtypes[name].is_floating else total
        for name, total in totals.items()
    }


def write_checkpoint(values: Mapping[str, numpy.ndarray], checkpoint: str) -> None:
    """
    :param values: by name of the variable
    :param checkpoint: name without suffix
    :raises CheckpointError: if it cannot be written
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        placeholders = {name: tf1.placeholder(value.dtype, shape=value.shape) for name, value in values.items()}
        variables = {
            name: tf1.get_variable(name, initializer=placeholder, use_resource=True)
            for name, placeholder in placeholders.items()
        }
        feed = {placeholders[name]: value for name, value in values.items()}
        session.run(tf1.variables_initializer(list(variables.values())), feed)
        CheckpointWriter(variables).save(session, checkpoint)


def _check_same_variables(checkpoint: str, names: Sequence[str], first: str, known: Mapping[str, object]) -> None:
    different = sorted(set(names) ^ set(known))
    if different:
        where = checkpoint if different[0] in names else first
        raise CheckpointError(
            f"checkpoints {first!r} and {checkpoint!r} are of different models.\n"
            f"  {counted(len(different), 'variable')} in one of them only, as {different[0]!r} in {where!r}."
        )


def _check_same_shape(checkpoint: str, name: str, value: numpy.ndarray, total: numpy.ndarray) -> None:
    if value.shape != total.shape:
        raise CheckpointError(
            f"checkpoint {checkpoint!r}: {name!r} has the shape {value.shape}, but {total.shape} in the first one."
        )
