"""Labels of a source as a dim: ranges over them, lookups, labels that are left out; axes by lists of dims."""

import numpy
import pytest

from returnn.tensor import batch_dim
from returnn.tf.util.data import FeatureDim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

BATCH = batch_of(padding={"float32": 0.0, "int32": 0})


def test_range_over_the_labels():
    net_dict = {"x": {"class": "range_in_axis", "axis": "sparse_dim", "from": "data:ids"}}
    assert LayerNet(net_dict, fetch=("x",)).run(BATCH)["x"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("symbol", "label"), [(2, 2), (-1, 4), (-5, 0)])
def test_the_label_that_is_left_out(symbol, label):
    net_dict = {"x": {"class": "remove", "symbol": symbol, "from": "data:ids"}}
    net_dict["lengths"] = {"class": "length", "from": "x"}
    result = LayerNet(net_dict).run(BATCH)
    for out, length, ids, num in zip(result["x"], result["lengths"], BATCH["ids"], LENGTHS, strict=True):
        assert out[:length].tolist() == [i for i in ids[:num] if i != label]


def test_negative_symbol_needs_labels():
    with pytest.raises(ConfigError, match=r"option 'symbol': -1, but the source .* has no labels"):
        LayerNet({"x": {"class": "remove", "symbol": -1, "from": "data:number", "axis": "B"}})


def test_product_over_labels_is_a_lookup():
    labels = FeatureDim("labels", 5)
    net_dict = {
        "table": {"class": "variable", "shape": (labels, FeatureDim("vector", 3)), "init": "glorot_uniform"},
        "ids": {"class": "reinterpret_data", "set_sparse_dim": labels, "from": "data:ids"},
        "x": {"class": "dot", "from": ["ids", "table"], "reduce": labels},
    }
    net = LayerNet(net_dict, fetch=("x",))
    table = net.session.run(net.net.get_layer("table").params["table"])
    is_frame = (numpy.arange(max(LENGTHS))[None] < numpy.array(LENGTHS)[:, None])[..., None]
    numpy.testing.assert_allclose(net.run(BATCH)["x"], table[BATCH["ids"]] * is_frame, rtol=1e-5)


@pytest.mark.parametrize("perm", [["F", "T", "B"], ["T", "F", batch_dim]])
def test_axes_in_the_order_of_a_list(perm):
    net = LayerNet({"x": {"class": "transpose", "perm": perm, "from": "data"}}, fetch=("x",))
    out, data = net.outputs["x"], net.net.extern_data.data["data"]
    assert list(out.dims) == [data.dims[data.get_axis_from_description(axis)] for axis in perm]
    assert out.feature_dim == data.feature_dim


def test_a_list_has_to_have_all_axes():
    with pytest.raises(ConfigError, match=r"are not all axes of .*, each once"):
        LayerNet({"x": {"class": "transpose", "perm": ["F", "T"], "from": "data"}})
