import inspect

import tensorflow as tf

import returnn.frontend as rf
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.network.construction_order import sources_first
from tests.tf.layers.layer_net import construct


def test_each_layer_stands_behind_its_sources():
    net_dict = {
        "output": {"class": "combine", "kind": "add", "from": ["b", "a"]},
        "a": {"class": "copy", "from": "data"},
        "b": {"class": "copy", "from": ["a", "unknown", "sub/inner"]},
        "c": {"class": "copy", "from": "output"},
    }
    assert sources_first("output", net_dict) == ["a", "b", "output"]


def test_what_is_ignored_by_the_class_is_not_made():
    net_dict = {
        "output": {"class": "gradient", "y": "y", "x": "x", "from": "a"},
        "a": {"class": "copy", "from": "data"},
    }
    assert sources_first("output", net_dict) == ["output"]


def test_wrong_classes_and_circles_are_left_to_who_makes_the_layers():
    net_dict = {
        "a": {"class": "copy", "from": "b"},
        "b": {"class": "copy", "from": ["a", "c"]},
        "c": {"class": "no such class", "from": "a"},
    }
    assert sources_first("a", net_dict) == ["c", "b", "a"]


def test_the_end_of_a_long_chain_is_not_made_deep_in_calls():
    depths = []

    class DepthLayer(LayerBase):
        def compute(self, source):
            depths.append(len(inspect.stack(context=0)))
            return source

    net_dict = {f"layer{i}": {"class": DepthLayer, "from": f"layer{i - 1}" if i else "data"} for i in range(20)}
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        construct({**net_dict, "output": {"class": "copy", "from": "layer19"}})
    assert max(depths) - min(depths) <= 1
