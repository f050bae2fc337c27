"""Training, evaluation, search and forwarding of models of the frontend, by graphs of TensorFlow."""

from returnn.tf.engine_rf.engine import Engine

__all__ = ["Engine"]
