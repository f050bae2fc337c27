"""Tests of `returnn.tf.frontend_low_level.products`."""
