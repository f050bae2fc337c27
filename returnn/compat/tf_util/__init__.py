"""Documented helpers on raw TensorFlow tensors which only configs and layers of users call."""
