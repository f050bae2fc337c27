"""Training, evaluation, search and forwarding of networks, by TensorFlow sessions."""

from returnn.tf.engine.engine import CancelTrainingException, Engine, Runner, get_global_engine

__all__ = ["CancelTrainingException", "Engine", "Runner", "get_global_engine"]
