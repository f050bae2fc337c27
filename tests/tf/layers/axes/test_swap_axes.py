"""Which dim is the feature dim after two axes were swapped."""

import pytest

from tests.tf.layers.layer_net import LayerNet


@pytest.mark.parametrize(
    ("axes", "feature"),
    [
        (("F", "dim:4"), 4),  # at the position of the feature dim
        (("T", "dim:4"), 6),
        (("B", "T"), 6),
        (("F", "T"), 4),  # a dynamic dim cannot be the feature dim
        (("F", "B"), 4),
    ],
)
@pytest.mark.parametrize("is_given", [False, True])
def test_the_feature_axis_stays_where_it_was(axes, feature, is_given):
    source = {"class": "reinterpret_data", "set_axes": {"F": "F"}, "from": "data:image"}
    net_dict = {
        "x": source if is_given else {"class": "copy", "from": "data:image"},
        "swapped": {"class": "swap_axes", "axis1": axes[0], "axis2": axes[1], "from": "x"},
        "y": {"class": "linear", "n_out": 3, "activation": None, "from": "swapped"},
    }
    net = LayerNet(net_dict).net
    assert net.get_layer("swapped").output.feature_dim.dimension == feature
    assert net.get_layer("y").params["W"].shape.as_list() == [feature, 3]


def test_parts_of_the_feature_dim_are_swapped():
    net_dict = {
        "parts": {"class": "split_dims", "axis": "F", "dims": (2, 3), "from": "data"},
        "swapped": {"class": "swap_axes", "axis1": "dim:2", "axis2": "F", "from": "parts"},
    }
    assert LayerNet(net_dict).outputs["swapped"].feature_dim.dimension == 2
