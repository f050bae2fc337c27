"""The frontend on raw TensorFlow tensors, in graph mode."""

from returnn.tf.frontend_low_level._backend import TFBackend

__all__ = ["TFBackend"]
