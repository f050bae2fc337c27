"""Documented names for raw TensorFlow tensors, as configs import and use them. They are defined by theme, elsewhere."""

import tensorflow as tf

from returnn.tf.util.activations import OutputWithActivation, get_activation_function
from returnn.tf.util.initializers import get_initializer

tf_compat = tf.compat

__all__ = ["OutputWithActivation", "get_activation_function", "get_initializer", "tf", "tf_compat"]
