"""Training, evaluation, search and forwarding of networks, by TensorFlow sessions."""

from returnn.tf.engine.engine import CancelTrainingException, Engine, get_global_engine
from returnn.tf.engine.runner import Runner

__all__ = ["CancelTrainingException", "Engine", "Runner", "get_global_engine"]
