"""Options of layers that add frames."""

import numpy
import pytest

from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of


@pytest.mark.parametrize("layer_class", ["prefix_in_time", "postfix_in_time"])
def test_labels_get_label_zero_by_default(layer_class):
    result = LayerNet({"x": {"class": layer_class, "from": "data:ids"}}).run(batch_of())["x"]
    for labels, out, length in zip(batch_of()["ids"], result, LENGTHS, strict=True):
        parts = [[0], labels[:length]] if layer_class == "prefix_in_time" else [labels[:length], [0]]
        numpy.testing.assert_array_equal(out[: length + 1], numpy.concatenate(parts))


@pytest.mark.parametrize(
    "options",
    [
        {"class": "prefix_in_time", "prefix": "label"},
        {"class": "postfix_in_time", "postfix": "label"},
        {"class": "concat", "from": [("data:ids", "T"), ("other_labels", "T")]},
        {"class": "cumsum"},
    ],
    ids=lambda options: options["class"],
)
def test_labels_stay_labels_of_the_source(options):
    net = {
        "layer": {"from": "data:ids", **options},
        "label": {"class": "reduce", "mode": "max", "axis": "T", "from": "other_labels"},
        "other_labels": {"class": "reinterpret_data", "increase_sparse_dim": 3, "from": "data:ids"},
    }
    net = LayerNet(net, fetch=("layer",))
    assert net.outputs["layer"].sparse_dim == net.net.get_layer("data:ids").output.sparse_dim
