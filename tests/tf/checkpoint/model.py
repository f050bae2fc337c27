"""Some variables, and their checkpoints."""

from __future__ import annotations

from contextlib import contextmanager

import numpy
import tensorflow as tf

from returnn.tf.checkpoint.save import CheckpointWriter

SHAPES = {"encoder/W": (30, 20), "encoder/b": (20,), "output/W": (20, 5)}


class Model:
    """Variables that all have the value `number`."""

    def __init__(self, shapes=SHAPES, prefix=""):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.variables = {
                name: tf.compat.v1.get_variable(prefix + name, shape, use_resource=True)
                for name, shape in shapes.items()
            }
            self.writer = CheckpointWriter({var.op.name: var for var in self.variables.values()})
            self.session = tf.compat.v1.Session(graph=self.graph)
            self.session.run(tf.compat.v1.global_variables_initializer())

    def fill(self, number: float) -> None:
        for var in self.variables.values():
            self.session.run(var.initializer, {var.initializer.inputs[1]: numpy.full(var.shape, number, "float32")})

    def values(self) -> dict[str, numpy.ndarray]:
        return self.session.run(self.variables)

    def save(self, checkpoint, number: float | None = None) -> str:
        if number is not None:
            self.fill(number)
        self.writer.save(self.session, str(checkpoint))
        return str(checkpoint)


@contextmanager
def opened(*args, **kwargs):
    model = Model(*args, **kwargs)
    with model.graph.as_default(), model.session:
        yield model


def content(checkpoint) -> dict[str, numpy.ndarray]:
    reader = tf.train.load_checkpoint(str(checkpoint))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def number_in(checkpoint) -> float:
    """:return: the number that all entries of all variables have"""
    (number,) = {float(x) for value in content(checkpoint).values() for x in value.ravel()}
    return number
