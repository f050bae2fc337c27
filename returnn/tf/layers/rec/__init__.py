"""Recurrent layers. Documented names are handed on here."""

from returnn.tf.layers.rec.last_hidden_state import GetLastHiddenStateLayer
from returnn.tf.layers.rec.rec_layer import RecLayer
from returnn.tf.layers.rec.rnn_cell import RnnCellLayer
from returnn.tf.layers.rec.units.base import RecUnit as BaseRNNCell
from returnn.tf.layers.rec.units.layer_norm_lstm import LayerNormVariantsLSTMCell
from returnn.tf.layers.rec.units.lstm_cells import ZoneoutLSTMCell
from returnn.tf.layers.rec.units.native_lstm import VanillaLSTMCell
from returnn.tf.layers.rec.units.rhn import RHNCell

__all__ = [
    "BaseRNNCell",
    "GetLastHiddenStateLayer",
    "LayerNormVariantsLSTMCell",
    "RHNCell",
    "RecLayer",
    "RnnCellLayer",
    "VanillaLSTMCell",
    "ZoneoutLSTMCell",
]
