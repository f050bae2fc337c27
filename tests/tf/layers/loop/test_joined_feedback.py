"""Attention that is fed back by a layer `concat` is the same as with a list of sources."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tensor.dim import single_step_dim
from returnn.tf.network import TFNetwork
from returnn.tf.util.data import FeatureDim, SpatialDim
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences


def attention(*, by_concat: bool, as_rec: bool = False) -> dict[str, Any]:
    """:return: net dict, in which only the options of single layers say how the dims of the feedback begin"""
    emb, enc, att, frames = FeatureDim("emb", 2), FeatureDim("enc", 3), FeatureDim("att", 4), SpatialDim("frames")
    unit: dict[str, Any] = {
        "x": {"class": "linear", "from": "data:source", "out_dim": emb, "activation": None},
        "in": {"class": "concat", "from": [("x", emb), ("prev:ctx", enc)], "out_dim": emb + enc},
        "s": {"class": "rnn_cell", "unit": "lstmblock", "from": "in" if by_concat else ["x", "prev:ctx"], "n_out": 4},
        "energy": {"class": "dot", "from": ["base:key", "query"], "reduce": att},
        "query": {"class": "linear", "from": "s", "out_dim": att, "activation": None},
        "weights": {"class": "softmax_over_spatial", "from": "energy", "axis": frames},
        "ctx": {"class": "dot", "from": ["base:enc", "weights"], "reduce": frames},
        "output": {"class": "copy", "from": "s"},
    }
    if as_rec:
        state = {"h": "prev:state_h", "c": "prev:state_c"}
        unit["s"] = {
            "class": "rec",
            "unit": "lstm",
            "from": "in",
            "axis": single_step_dim,
            "out_dim": att,
            "state": state,
        }
        for part in "hc":
            unit[f"state_{part}"] = {"class": "get_last_hidden_state", "from": "s", "key": part, "out_dim": att}
    if not by_concat:
        del unit["in"]
    return {
        "enc": {
            **{"class": "pool", "from": "data", "mode": "max", "pool_size": (2,), "strides": (2,), "padding": "same"},
            **{"in_spatial_dims": ["T"], "out_spatial_dims": [frames], "out_dim": enc},
        },
        "key": {"class": "linear", "from": "enc", "out_dim": att, "activation": None},
        "output": {"class": "rec", "from": "data", "unit": unit},
    }


def test_the_same_as_a_list_of_sources():
    data, lengths = sequences()
    joined, listed = (RecurrentNet(attention(by_concat=by_concat)).run(data, lengths).output for by_concat in (1, 0))
    numpy.testing.assert_allclose(joined, listed, rtol=1e-5, atol=1e-6)


def test_with_a_state_that_is_a_layer():
    data, lengths = sequences()
    assert RecurrentNet(attention(by_concat=True, as_rec=True)).run(data, lengths).output.shape[-1] == 4


@pytest.mark.parametrize("as_rec", [False, True])
def test_in_a_search_the_feedback_is_one_for_each_hypothesis(as_rec):
    labels = FeatureDim("labels", 5)
    net_dict = attention(by_concat=True, as_rec=as_rec)
    unit = net_dict["output"]["unit"]
    unit["x"]["from"] = "prev:output"
    unit["prob"] = {"class": "softmax", "from": ["s", "ctx"], "out_dim": labels}
    unit["output"] = {"class": "choice", "from": "prob", "target": "classes", "beam_size": 3, "initial_output": 0}
    unit["end"] = {"class": "compare", "from": "output", "value": 0}
    net_dict["output"].update({"from": [], "max_seq_len": 4, "target": "classes"})
    extern_data = {"data": {"dim": 3}, "classes": {"dim": 5, "sparse": True, "available_for_inference": False}}
    with tf.Graph().as_default():
        config = Config({"extern_data": extern_data, "behavior_version": 21})
        net = TFNetwork(config=config, search_flag=True, train_flag=False, eval_flag=True)
        net.construct_from_dict(net_dict)
        layers = net.get_layer("output").cell.layer_data_templates
        assert [dim.is_beam_dim() for dim in layers["in"].output.dims].count(True) == 1
