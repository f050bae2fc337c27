"""Recurrent layers. Documented names are handed on here."""

from returnn.tensor import Tensor as Data
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.loop.access import GetRecAccumulatedOutputLayer, RecLastOutputLayer
from returnn.tf.layers.rec.attention import (
    AttentionBaseLayer,
    ConcatAttentionLayer,
    DotAttentionLayer,
    GaussWindowAttentionLayer,
    GenericAttentionLayer,
    GlobalAttentionContextBaseLayer,
)
from returnn.tf.layers.rec.cum_concat import CumConcatLayer
from returnn.tf.layers.rec.last_hidden_state import GetLastHiddenStateLayer
from returnn.tf.layers.rec.masked_computation import MaskedComputationLayer, UnmaskLayer
from returnn.tf.layers.rec.positional_encoding import PositionalEncodingLayer
from returnn.tf.layers.rec.rec_layer import RecLayer
from returnn.tf.layers.rec.rec_unstack import RecUnstackLayer
from returnn.tf.layers.rec.relative_positional_encoding import RelativePositionalEncodingLayer
from returnn.tf.layers.rec.rnn_cell import RnnCellLayer
from returnn.tf.layers.rec.self_attention import SelfAttentionLayer
from returnn.tf.layers.rec.step_info import RecStepInfoLayer
from returnn.tf.layers.rec.subnetwork_cell import _SubnetworkRecCell, _TemplateLayer
from returnn.tf.layers.rec.twod_lstm import TwoDLSTMLayer
from returnn.tf.layers.rec.units.blocksparse import (
    BlocksparseLSTMCell,
    BlocksparseMultiplicativeMultistepLSTMCell,
)
from returnn.tf.layers.rec.units.layer_norm_lstm import LayerNormVariantsLSTMCell
from returnn.tf.layers.rec.units.lstm_cells import ZoneoutLSTMCell
from returnn.tf.layers.rec.units.native_lstm import VanillaLSTMCell
from returnn.tf.layers.rec.units.rhn import RHNCell
from returnn.tf.layers.rec.units.rnn_cell_base import BaseRNNCell
from returnn.tf.layers.search.choice import BaseChoiceLayer, ChoiceLayer
from returnn.tf.layers.search.decide import (
    ChoiceGetBeamScoresLayer,
    ChoiceGetSrcBeamsLayer,
    DecideKeepBeamLayer,
    DecideLayer,
    SplitBatchBeamLayer,
)
from returnn.tf.layers.search.edit_distance import EditDistanceLayer, EditDistanceTableLayer, OptimalCompletionsLayer
from returnn.tf.layers.search.ken_lm import KenLmStateLayer
from returnn.tf.layers.search.search_choices import SearchChoices

__all__ = [
    "AttentionBaseLayer",
    "BaseChoiceLayer",
    "BaseRNNCell",
    "BlocksparseLSTMCell",
    "BlocksparseMultiplicativeMultistepLSTMCell",
    "ChoiceGetBeamScoresLayer",
    "ChoiceGetSrcBeamsLayer",
    "ChoiceLayer",
    "ConcatAttentionLayer",
    "CumConcatLayer",
    "Data",
    "DecideKeepBeamLayer",
    "DecideLayer",
    "DotAttentionLayer",
    "EditDistanceLayer",
    "EditDistanceTableLayer",
    "GaussWindowAttentionLayer",
    "GenericAttentionLayer",
    "GetLastHiddenStateLayer",
    "GetRecAccumulatedOutputLayer",
    "GlobalAttentionContextBaseLayer",
    "KenLmStateLayer",
    "LayerBase",
    "LayerNormVariantsLSTMCell",
    "MaskedComputationLayer",
    "OptimalCompletionsLayer",
    "PositionalEncodingLayer",
    "RHNCell",
    "RecLastOutputLayer",
    "RecLayer",
    "RecStepInfoLayer",
    "RecUnstackLayer",
    "RelativePositionalEncodingLayer",
    "RnnCellLayer",
    "SearchChoices",
    "SelfAttentionLayer",
    "SplitBatchBeamLayer",
    "TwoDLSTMLayer",
    "UnmaskLayer",
    "VanillaLSTMCell",
    "ZoneoutLSTMCell",
    "_SubnetworkRecCell",
    "_TemplateLayer",
]
