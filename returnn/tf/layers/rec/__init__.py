"""Recurrent layers. Documented names are handed on here."""

from returnn.tf.layers.rec.cum_concat import CumConcatLayer
from returnn.tf.layers.rec.edit_distance import EditDistanceLayer, EditDistanceTableLayer, OptimalCompletionsLayer
from returnn.tf.layers.rec.last_hidden_state import GetLastHiddenStateLayer
from returnn.tf.layers.rec.masked_computation import MaskedComputationLayer, UnmaskLayer
from returnn.tf.layers.rec.positional_encoding import PositionalEncodingLayer
from returnn.tf.layers.rec.rec_layer import RecLayer
from returnn.tf.layers.rec.rec_unstack import RecUnstackLayer
from returnn.tf.layers.rec.relative_positional_encoding import RelativePositionalEncodingLayer
from returnn.tf.layers.rec.rnn_cell import RnnCellLayer
from returnn.tf.layers.rec.self_attention import SelfAttentionLayer
from returnn.tf.layers.rec.units.base import RecUnit as BaseRNNCell
from returnn.tf.layers.rec.units.layer_norm_lstm import LayerNormVariantsLSTMCell
from returnn.tf.layers.rec.units.lstm_cells import ZoneoutLSTMCell
from returnn.tf.layers.rec.units.native_lstm import VanillaLSTMCell
from returnn.tf.layers.rec.units.rhn import RHNCell

__all__ = [
    "BaseRNNCell",
    "CumConcatLayer",
    "EditDistanceLayer",
    "EditDistanceTableLayer",
    "GetLastHiddenStateLayer",
    "LayerNormVariantsLSTMCell",
    "MaskedComputationLayer",
    "OptimalCompletionsLayer",
    "PositionalEncodingLayer",
    "RHNCell",
    "RecLayer",
    "RecUnstackLayer",
    "RelativePositionalEncodingLayer",
    "RnnCellLayer",
    "SelfAttentionLayer",
    "UnmaskLayer",
    "VanillaLSTMCell",
    "ZoneoutLSTMCell",
]
