"""Every layer class called as scripts do it, on sources from a network, is the layer of the net dict."""

from __future__ import annotations

import functools
from typing import Any

import numpy
import pytest

import returnn.frontend as rf
from returnn.datasets.hdf import HDFDataset
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.layers.structure.source import SourceLayer
from returnn.tf.network import TFNetwork
from tests.tf.by_hand.scripts import tf1
from tests.tf.layers import feature_cases, shape_cases
from tests.tf.layers.layer_net import LENGTHS, LayerNet, _valid, batch_of

# They are not named after the layer that is made twice.
HAS_INNER_PARAMS = ("subnetwork", "cond", "variable", "counter")
SECOND_TIME = ("unflat_once",)  # the batch is flattened twice by then, and only one of both is undone
LINEAR = {"class": "linear", "n_out": 4, "activation": None}
SHAPE = {"shape": [2, 3], "seed": 3}
OTHER_CASES = {  # of recurrent layers and their neighbours, and of random values
    "concat_attention": {"class": "concat_attention", "base": "data", "base_ctx": "data", "from": "data:vec"},
    "location": {"class": "cast", "dtype": "float32", "from": "data:number"},
    "gauss": {"class": "gauss_window_attention", "base": "data", "window_size": 3, "std": 0.8, "from": "location"},
    "gauss_inner": {
        "class": "gauss_window_attention", "base": "data", "window_size": 4, "inner_size": 2, "from": "location",
    },
    "labels": {"class": "reduce", "mode": "argmax", "axis": "F", "from": "scores"},
    "scores": {**LINEAR, "n_out": 5, "from": "data"},
    "distances": {"class": "edit_distance_table", "from": "labels", "target": "ids"},
    "completions": {"class": "optimal_completions", "from": "distances", "target": "ids"},
    "loop": {"class": "rec", "from": "data", "unit": {
        "hidden": {**LINEAR, "from": ["data:source", "prev:hidden"]}, "output": {"class": "copy", "from": "hidden"},
    }},
    "accumulated": {"class": "get_rec_accumulated", "sub_layer": "hidden", "from": "loop"},
    "is_high": {"class": "compare", "kind": "greater", "value": 1, "from": "data:ids"},
    "masked": {
        "class": "masked_computation", "mask": "is_high", "unit": {**LINEAR, "from": "data"}, "from": "data",
    },
    "shorter": {"class": "slice", "axis": "T", "slice_start": 1, "from": "data"},
    "twod": {"class": "twod_lstm", "from": ["shorter", "data"], "n_out": 4},
    "twod_max": {"class": "twod_lstm", "from": ["shorter", "data"], "n_out": 4, "pooling": "max"},
    "image_summary": {"class": "image_summary", "max_outputs": 2, "from": "data"},
    "state": {"class": "random_state_init", "seed": 3},
    "integers": {"class": "rand_int", "maxval": 1000000, **SHAPE},
    "normal": {"class": "random", "distribution": "normal", "mean": 0.0, "stddev": 1.0, "static": True, **SHAPE},
    "uniform": {"class": "random", "distribution": "uniform", "minval": -1.0, "maxval": 1.0, "static": True, **SHAPE},
}  # fmt: skip
CASES = {**feature_cases.CASES, **shape_cases.ALL_CASES, **OTHER_CASES}


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
                params = self.net.net.layers[name].params  # names can be those of the layer, which differ
                for mine, other in zip(layer.params.values(), params.values(), strict=False):
                    self.net.session.run(tf1.assign(mine, other))
                if layer.output.raw_tensor is not None:
                    self.net.fetches[f"{name}_by_hand"] = _valid(layer.output)
        self.values = self.net.run(batch_of())


@functools.cache
def both_ways() -> dict[str, BothWays]:
    all_cases = (feature_cases.CASES, shape_cases.ALL_CASES, OTHER_CASES)
    return {name: both for both in map(BothWays, all_cases) for name in both.cases}


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


ARPA = """
\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-1.1\t<unk>\t0
0\t<s>\t-0.4
-0.9\t</s>\t0
-0.7\tthe\t-0.35

\\2-grams:
-0.2\t<s> the
-0.5\tthe the

\\end\\
"""


@pytest.mark.parametrize("options", [{}, {"dense_output": True}])
def test_language_model_called_by_hand(tmp_path, options):
    pytest.importorskip("kenlm")
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "vocab.py").write_text(repr({label: i for i, label in enumerate(["the", "cat", "a", "b", "</s>"])}))
    files = {"lm_file": str(tmp_path / "lm.arpa"), "vocab_file": str(tmp_path / "vocab.py")}
    both = BothWays({"score": {"class": "kenlm", "from": "data:ids", **files, **options}})
    assert not both.errors
    assert both.values["score"].any()
    numpy.testing.assert_array_equal(both.values["score_by_hand"], both.values["score"])


def test_dump_called_by_hand(tmp_path):
    net = LayerNet({"dump": {"class": "hdf_dump", "filename": str(tmp_path / "of_net_dict.hdf"), "from": "data"}})
    batch = {**batch_of(padding={"float32": 0.0, "int32": 0}), "seq_tag": ["first", "second", "third"]}
    options = {"class": "hdf_dump", "filename": str(tmp_path / "by_hand.hdf"), "from": "data"}
    with net.graph.as_default(), rf.backend_ctx("tf"):
        net.fetches["dump_by_hand"] = _valid(make_layer(net.net, "dump", options).output)
    values = net.run(batch)
    net.net.call_graph_reset_callbacks()  # a script has no runs that end
    numpy.testing.assert_array_equal(values["dump_by_hand"], values["dump"])
    dataset = HDFDataset([str(tmp_path / "by_hand.hdf")])
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 3)
    for i, tag in enumerate(batch["seq_tag"]):
        assert dataset.get_tag(i) == tag
        numpy.testing.assert_array_equal(dataset.get_data(i, "data"), batch["data"][i, : LENGTHS[i]])
