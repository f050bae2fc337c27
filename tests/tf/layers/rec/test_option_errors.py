"""What is said about options that cannot be, for the layers of loops and search that are used most."""

import pytest
import tensorflow as tf

from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import construct, decoder

LSTM = {"class": "rec", "unit": "nativelstm2", "n_out": 4}
CELL = {"class": "rnn_cell", "unit": "gru", "n_out": 4}
ATTENTION = {"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "n_out": 4}
RELATIVE = {"class": "relative_positional_encoding", "n_out": 4}
POSITION = {"class": "positional_encoding", "n_out": 4}
STATE = {"class": "get_last_hidden_state", "from": "lstm"}
MASKED = {"class": "masked_computation", "mask": "mask", "unit": {"class": "linear", "from": "data", "n_out": 3}}
UNMASK = {"class": "unmask", "mask": "mask", "from": "masked"}
WEIGHTED = {"class": "generic_attention", "base": "data", "weights": "weights", "from": []}
CHOICE, DECIDE = {"class": "choice"}, {"class": "decide"}

ERRORS = [
    (LSTM, {"unit_opt": {}}, "there is no option 'unit_opt'", "Did you mean 'unit_opts'"),
    (LSTM, {"direction": "left"}, "option 'direction' has to be an integer, not 'left'", "-1 backward"),
    (LSTM, {"input_projection": 3}, "option 'input_projection' has to be True or False, not 3", "4 * n_out"),
    (LSTM, {"forward_weights_init": "glorrot"}, "there is no initializer 'glorrot'", "Did you mean 'glorot_normal'?"),
    (LSTM, {"max_seq_len": -1}, "option 'max_seq_len': expected a number of frames, got -1", ""),
    (
        LSTM,
        {"unit": {"x": {"class": "copy", "from": "data:source"}}},
        "there is no layer 'output' in the subnet",
        "such as {'output': {'class': 'copy', 'from': 'x'}}.",
    ),
    (CELL, {"unit": "gruu"}, "option 'unit': there is no unit 'gruu'", "Did you mean 'gru'?"),
    (CELL, {"unit": "GRUBlock"}, "option 'unit': 'GRUBlock' was a cell of tf.contrib, which is gone", "Alike is 'gru'"),
    (CELL, {"unit": "LayerNormBasicLSTMCell"}, "was a cell of tf.contrib", "Alike is 'layernormvariantslstm'"),
    (LSTM, {"unit": "NAS"}, "option 'unit': 'NAS' was a cell of tf.contrib", "'unit' can be a class of the config"),
    (CELL, {"unit_opts": {"forget_bias": 1}}, "unit 'gru': unit_opts: there is no option 'forget_bias'", "activation"),
    (CELL, {"dropout": "much"}, "option 'dropout' has to be a number, not 'much'", "probability"),
    (CHOICE, {"beam": 3}, "there is no option 'beam'", "Did you mean 'beam_size'?"),
    (CHOICE, {"beam_size": "3"}, "option 'beam_size' has to be an integer, not '3'", "number of hypotheses"),
    (CHOICE, {"input_type": "probs"}, "there is no input_type 'probs'", "Did you mean 'prob' or 'log_prob'?"),
    (CHOICE, {"target": "clases"}, "there is no data 'clases'", "Did you mean 'classes'?"),
    (CHOICE, {"add_to_beam_scores": False}, "False is only possible without search", "Give 'search': False as well"),
    (CHOICE, {"source_beam_sizes": [1, 2]}, "option 'source_beam_sizes': [1, 2], but there is 1 source", ""),
    (DECIDE, {"length_norm": True}, "there is no option 'length_norm'", "Did you mean 'length_normalization'"),
    (DECIDE, {"length_normalization": "yes"}, "has to be True or False, not 'yes'", "divided by the lengths"),
    (WEIGHTED, {"auto_squeez": True}, "there is no option 'auto_squeez'", "Did you mean 'auto_squeeze'?"),
    (WEIGHTED, {"from": "data"}, "takes no sources (option 'from')", "only 'base' and 'weights'"),
    (WEIGHTED, {"weights": "mean"}, "do not have the time dim of the base", "'data' [B, T|"),
    (ATTENTION, {"num_heads": 3}, "option 'total_key_dim': 4 cannot be divided by the number of heads, 3", ""),
    (ATTENTION, {"num_heads": 0}, "option 'num_heads': expected at least 1, got 0", ""),
    (ATTENTION, {"total_key_dim": 0}, "option 'total_key_dim': expected at least 1, got 0", ""),
    (ATTENTION, {"attention_dropout": 1.0}, "option 'attention_dropout': expected 0 to below 1, got 1.0", ""),
    (
        ATTENTION,
        {"key_shift": "data"},
        "option 'key_shift': expected [queries, keys, 2], but there are fewer dims",
        "divided by the number",
    ),
    (MASKED, {"unit": "linear"}, "option 'unit': expected a dict with 'class', got 'linear'", ""),
    (MASKED, {"mask": "data"}, "should be bool", "such as `x > 0`"),
    (MASKED, {"unit": {"class": "linear", "from": "data", "nout": 3}}, "there is no option 'nout'", "'n_out'"),
    (UNMASK, {"mask": "data"}, "option 'mask': expected bools, got 'data'", "float32"),
    (UNMASK, {"mask": None}, "the option 'mask' is required", ""),
    (RELATIVE, {"clip": 3}, "there is no option 'clip'", "Did you mean 'clipping'?"),
    (RELATIVE, {"clipping": 0}, "option 'clipping': expected at least 1, got 0", ""),
    (RELATIVE, {"fixed": "yes"}, "option 'fixed' has to be True or False, not 'yes'", "sinusoids"),
    (POSITION, {"offset": "data"}, "option 'offset': expected integers, got 'data'", "float32"),
    (POSITION, {"offset": 3}, "option 'offset' has to be the name of a layer, not 3", "added to the positions"),
    (POSITION, {"axis": "X"}, "'X' does not describe an axis", "Possible: B"),
    (STATE, {"key": "x"}, "the hidden state has no part 'x'", "Possible: c, h, '*'"),
    (STATE, {"combine": "mul"}, "option 'combine': expected 'concat' or 'add', got 'mul'", ""),
]


@pytest.mark.parametrize(("layer", "options", "what", "possible"), ERRORS, ids=lambda value: str(value)[:50])
def test_error(layer, options, what, possible):
    with tf.Graph().as_default(), pytest.raises(ConfigError) as info:
        construct(net_with(layer, options))
    message = str(info.value)
    assert message.startswith("layer '")
    assert what in message.splitlines()[0]
    assert possible in message
    assert len(message.splitlines()) <= 5


def net_with(layer, options):
    if layer is CHOICE:
        return decoder(choice=options)
    if layer is DECIDE:
        return {**decoder(), "best": {"class": "decide", "from": "output", "is_output_layer": True, **options}}
    first = {"class": "gather", "axis": "F", "position": 0, "from": "data"}
    return {
        "lstm": {**LSTM, "from": "data"},
        "mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"},
        "first": first,
        "mask": {"class": "compare", "kind": "greater", "value": 0.0, "from": "first"},
        "masked": {**MASKED, "from": "data"},
        "weights": {"class": "softmax_over_spatial", "from": "data"},
        "output": {"from": "data", **layer, **options},
    }
