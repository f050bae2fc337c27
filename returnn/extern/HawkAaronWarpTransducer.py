"""The loss of RNN transducers, under the name of the package that had it."""

from returnn.tf.util.losses.transducer_loss import rnnt_loss

__all__ = ["rnnt_loss"]
