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


@pytest.mark.parametrize(
    "options",
    [
        {"class": "pad", "axes": "T", "padding": 1, "value": 3},
        {"class": "shift_axis", "axis": "T", "amount": 1, "adjust_size_info": False, "pad_value": 3},
        {"class": "resize", "axis": "T", "factor": 2, "kind": "fill", "fill_value": 3},
        {"class": "prefix_in_time", "prefix": 3},
        {"class": "seq_len_mask", "mask_value": 3},
        {"class": "compare", "value": 3},
        {"class": "switch", "condition": "is_small", "true_from": 3, "false_from": "data:ids"},
    ],
    ids=lambda options: options["class"],
)
def test_number_beside_labels_can_be_written_as_float(options):
    as_float = {option: 3.0 if value == 3 else value for option, value in options.items()}
    net = {"integer": options, "float": as_float}
    net = {name: {"from": "data:ids", **desc} for name, desc in net.items()}
    net["is_small"] = {"class": "compare", "kind": "less", "value": 2, "from": "data:ids"}
    result = LayerNet(net, fetch=("integer", "float")).run(batch_of())
    numpy.testing.assert_array_equal(result["float"], result["integer"])
