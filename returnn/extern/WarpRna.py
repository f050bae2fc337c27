"""The loss of recurrent neural aligners, under the name of the package that had it."""

from returnn.tf.util.losses.transducer_loss import rna_loss

__all__ = ["rna_loss"]
