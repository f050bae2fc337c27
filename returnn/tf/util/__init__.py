"""Helpers on raw TensorFlow tensors, one theme per module."""
