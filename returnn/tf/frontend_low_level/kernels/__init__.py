"""Recurrence over frames: kernels of `returnn.native` as operations of TensorFlow, and the same as loops."""
