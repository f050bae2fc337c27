"""Every layer class called as scripts do it, on sources from a network, is the layer of the net dict."""

from __future__ import annotations

import functools
from typing import Any

import numpy
import pytest

import returnn.frontend as rf
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.layers.structure.source import SourceLayer
from returnn.tf.network import TFNetwork
from tests.tf.by_hand.scripts import tf1
from tests.tf.layers import feature_cases, shape_cases
from tests.tf.layers.layer_net import LayerNet, _valid, batch_of

# They are not named after the layer that is made twice.
HAS_INNER_PARAMS = ("subnetwork", "cond", "variable", "counter")
SECOND_TIME = ("unflat_once",)  # the batch is flattened twice by then, and only one of both is undone
CASES = {**feature_cases.CASES, **shape_cases.ALL_CASES}


def make_layer(net: TFNetwork, name: str, options: dict[str, Any]) -> LayerBase:
    """:return: the layer once more, by calling its class"""
    options = dict(options)
    layer_class = get_layer_class(options.pop("class"))

    def get_layer(source: str) -> LayerBase:
        if source == "data" or source.startswith("data:"):
            source_options = {"name": "source", "network": net, "data_key": source.removeprefix("data:")}
            return SourceLayer(output=SourceLayer.get_out_data_from_opts(**source_options), **source_options)
        return net.get_layer(source)

    options.update(_name=f"{name}_by_hand", _network=net)
    layer_class.transform_config_dict(options, network=net, get_layer=get_layer)
    options.update(name=f"{name}_by_hand", network=net)
    output = layer_class.get_out_data_from_opts(**options)
    with tf1.variable_scope(f"{name}_by_hand"):
        return layer_class(output=output, **options)


class BothWays:
    """All layers by a net dict, and by hand."""

    def __init__(self, cases) -> None:
        self.cases = cases
        self.net = LayerNet(cases)
        self.made, self.errors = {}, {}
        with self.net.graph.as_default(), rf.backend_ctx("tf"):
            before = tf1.global_variables()
            for name in (name for name in cases if name not in SECOND_TIME):
                try:
                    self.made[name] = make_layer(self.net.net, name, cases[name])
                except Exception as exc:  # noqa: BLE001 - shown by the test of this layer
                    self.errors[name] = exc
            self.net.session.run([v.initializer for v in tf1.global_variables()[len(before) :]])
            for name, layer in self.made.items():
                params = self.net.net.layers[name].params
                for key in set(layer.params) & set(params):
                    self.net.session.run(tf1.assign(layer.params[key], params[key]))
                if layer.output.raw_tensor is not None:
                    self.net.fetches[f"{name}_by_hand"] = _valid(layer.output)
        self.values = self.net.run(batch_of())


@functools.cache
def both_ways() -> dict[str, BothWays]:
    feature, shape = BothWays(feature_cases.CASES), BothWays(shape_cases.ALL_CASES)
    return {name: both for both in (feature, shape) for name in both.cases}


@pytest.mark.parametrize("name", [name for name in CASES if name not in SECOND_TIME])
def test_class_called_by_hand_is_the_layer_of_the_net_dict(name):
    both = both_ways()[name]
    if name in both.errors:
        raise both.errors[name]
    layer, of_net_dict = both.made[name], both.net.net.layers[name]
    assert layer.output.batch_shape == of_net_dict.output.batch_shape
    assert len(layer.params) == len(of_net_dict.params)
    if name in HAS_INNER_PARAMS:
        return
    numpy.testing.assert_allclose(both.values[f"{name}_by_hand"], both.values[name], rtol=1e-4, atol=1e-5)
