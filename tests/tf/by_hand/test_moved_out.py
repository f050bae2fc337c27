"""Where the layers of a loop are computed, as `rec_layer.cell` says it, and that it changes nothing."""

from __future__ import annotations

import numpy
import pytest

from returnn.config import Config
from returnn.tf.layers.rec import RecLayer, _SubnetworkRecCell
from returnn.tf.network import TFNetwork
from tests.tf.by_hand.scripts import make_feed_dict, make_scope

N_IN, N_OUT = 5, 7
BASE = {
    "enc": {"class": "linear", "activation": "tanh", "n_out": N_OUT, "from": "data:enc"},
    "enc_ctx": {"class": "linear", "activation": None, "n_out": N_OUT, "from": "enc"},
    "vec": {"class": "reduce", "mode": "mean", "axis": "T", "from": "enc"},
}
X = "data:source"

# The layers of a time step; all of them can be computed outside of the loop.
FREE = {
    "linear": {"output": {"class": "linear", "activation": "relu", "from": X}},
    "linear_twice": {
        "a": {"class": "linear", "activation": "relu", "n_out": 4, "from": X},
        "output": {"class": "linear", "activation": None, "from": ["a", X]},
    },
    "linear_with_base": {"output": {"class": "linear", "activation": "tanh", "from": [X, "base:vec"]}},
    "rnn_cell": {"output": {"class": "rnn_cell", "unit": "BasicLSTM", "from": X}},
    "lstm_block": {"output": {"class": "rnn_cell", "unit": "LSTMBlock", "from": X}},
    "standard_lstm": {"output": {"class": "rnn_cell", "unit": "standardlstm", "from": X}},
    "rec": {"output": {"class": "rec", "unit": "nativelstm2", "from": X}},
    "rec_lstm": {"output": {"class": "rec", "unit": "lstm", "from": X}},
    "self_attention": {
        "output": {
            "class": "self_attention", "num_heads": 2, "total_key_dim": 6, "n_out": 8, "attention_left_only": True,
            "from": X,
        }
    },
    "dot_attention": {
        "query": {"class": "linear", "activation": None, "n_out": N_OUT, "from": X},
        "output": {"class": "dot_attention", "base": "base:enc", "base_ctx": "base:enc_ctx", "from": "query"},
    },
    "mlp_attention": {
        "query": {"class": "linear", "activation": None, "n_out": N_OUT, "from": X},
        "energy_in": {"class": "combine", "kind": "add", "from": ["base:enc_ctx", "query"]},
        "energy_tanh": {"class": "activation", "activation": "tanh", "from": "energy_in"},
        "energy": {"class": "linear", "activation": None, "with_bias": False, "n_out": 1, "from": "energy_tanh"},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "output": {"class": "generic_attention", "weights": "weights", "base": "base:enc"},
    },
    "positional_encoding": {"output": {"class": "positional_encoding", "add_to_input": True, "from": X}},
    "layer_norm": {"output": {"class": "layer_norm", "from": X}},
    "eval": {"output": {"class": "eval", "eval": "source(0) * 2 + 1", "from": X}},
    "combine": {
        "a": {"class": "linear", "activation": "sigmoid", "n_out": N_IN, "from": X},
        "output": {"class": "combine", "kind": "mul", "from": ["a", X]},
    },
    "subnetwork": {
        "output": {
            "class": "subnetwork",
            "from": X,
            "subnetwork": {
                "a": {"class": "linear", "activation": "relu", "n_out": 4, "from": "data"},
                "output": {"class": "linear", "activation": None, "n_out": 3, "from": "a"},
            },
        }
    },
    "gating": {"output": {"class": "gating", "activation": "identity", "from": "two"},
               "two": {"class": "linear", "activation": None, "n_out": 8, "from": X}},
    "split": {
        "split": {"class": "split", "axis": "F", "size_splits": [2, 3], "from": X},
        "output": {"class": "copy", "from": ["split/1", "split/0"]},
    },
    "split_dims_and_merge": {
        "heads": {"class": "linear", "activation": None, "n_out": 6, "from": X},
        "split": {"class": "split_dims", "axis": "F", "dims": (2, 3), "from": "heads"},
        "output": {"class": "merge_dims", "axes": "static", "from": "split"},
    },
    "reduce": {"output": {"class": "reduce", "mode": "max", "axis": "F", "keep_dims": True, "from": X}},
    "window": {"output": {"class": "merge_dims", "axes": "except_time", "from": "window"},
               "window": {"class": "window", "window_size": 3, "window_left": 2, "window_right": 0, "from": X}},
    "cumsum": {"output": {"class": "cumsum", "from": X}},
    "shift": {"output": {"class": "combine", "kind": "sub", "from": ["a", "prev:a"]},
              "a": {"class": "linear", "activation": None, "n_out": 4, "from": X}},
    "dropout": {"output": {"class": "dropout", "dropout": 0.5, "from": X}},
    "conv_of_base": {"output": {"class": "dot", "reduce": "T", "var2": None, "from": ["base:enc", "w"]},
                     "e": {"class": "dot", "reduce": "F", "from": ["base:enc", "q"]},
                     "q": {"class": "linear", "activation": None, "n_out": N_OUT, "from": X},
                     "w": {"class": "softmax_over_spatial", "axis": "T", "from": "e"}},
    "gather": {"output": {"class": "gather", "position": ":i", "axis": "T", "clip_to_valid": True, "from": "base:enc"}},
    "step": {"i": {"class": "cast", "dtype": "float32", "from": ":i"},
             "output": {"class": "combine", "kind": "mul", "from": ["i", X]}},
    "compare": {"mean": {"class": "reduce", "mode": "mean", "axis": "F", "from": X},
                "sign": {"class": "compare", "kind": "less", "value": 0.0, "from": "mean"},
                "zero": {"class": "constant", "value": 0.0},
                "output": {"class": "switch", "condition": "sign", "true_from": X, "false_from": "zero"}},
}  # fmt: skip


def rec_layer(net, name) -> RecLayer:
    layer = net.layers[name]
    assert isinstance(layer, RecLayer)
    assert isinstance(layer.cell, _SubnetworkRecCell)
    return layer


@pytest.mark.parametrize("name", FREE)
def test_layers_that_are_moved_out_compute_the_same(name):
    unit = {key: dict(options) for key, options in FREE[name].items()}
    if unit["output"]["class"] in ("linear", "rnn_cell", "rec"):
        unit["output"]["n_out"] = N_OUT
    loop = {"class": "rec", "from": "data", "unit": unit}
    config = Config(
        {
            "extern_data": {"data": {"dim": N_IN}, "enc": {"dim": 3}},
            "debug_print_layer_output_template": True,
        }
    )
    with make_scope() as session:
        net1 = TFNetwork(config=config, name="net1")
        not_opt = {**loop, "optimize_move_layers_out": False, "is_output_layer": True}
        net1.construct_from_dict({**BASE, "not_opt": not_opt})
        in_loop = rec_layer(net1, "not_opt")
        assert in_loop.cell.input_layers_moved_out == []
        assert in_loop.cell.output_layers_moved_out == []
        assert "output" in in_loop.cell.layers_in_loop
        net2 = TFNetwork(config=config, extern_data=net1.extern_data, name="net2")
        same_params = {key: {**options, "name_scope": f"/{key}"} for key, options in BASE.items()}
        net2.construct_from_dict({**same_params, "opt": {**loop, "is_output_layer": True}})
        moved = rec_layer(net2, "opt")
        assert moved.cell.layers_in_loop == []
        moved_out = moved.cell.input_layers_moved_out + moved.cell.output_layers_moved_out
        assert set(moved_out) == set(in_loop.cell.layers_in_loop)
        net1.initialize_params(session)
        moved.set_param_values_by_dict(in_loop.get_param_values_dict(session), session)
        feed = make_feed_dict(net1.extern_data)
        outputs = [layer.output.get_placeholder_as_batch_major() for layer in (in_loop, moved)]
        first, second = session.run(outputs, feed)
        for i, length in enumerate(session.run(in_loop.output.get_sequence_lengths(), feed)):
            numpy.testing.assert_allclose(first[i, :length], second[i, :length], rtol=1e-4, atol=1e-5)
