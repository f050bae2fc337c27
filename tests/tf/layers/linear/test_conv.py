"""Convolution and pooling: forms of options."""

import itertools

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.frontend._ops.nn.conv_windows import Window
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LayerNet, batch_of, construct

CONV = {"class": "conv", "filter_size": [3], "padding": "same", "n_out": 4, "with_bias": False, "from": "data"}
FILTER = {"class": "variable", "shape": (3, 6, 4), "init": "glorot_uniform"}
TURNED = {
    "class": "eval", "eval": "tf.transpose(source(0), [2, 1, 0])", "from": "w",
    "out_type": {"shape": (4, 6, 3), "batch_dim_axis": None},
}  # fmt: skip
TURN = {"dim:4": "dim:3", "dim:3": "dim:4"}


def test_filter_of_another_layer_can_be_transposed():
    plain, perm = {**CONV, "filter": "w"}, {**CONV, "filter": "turned", "filter_perm": TURN}
    result = LayerNet({"w": FILTER, "turned": TURNED, "plain": plain, "perm": perm}).run(batch_of())
    assert result["plain"].any()
    numpy.testing.assert_allclose(result["perm"], result["plain"], rtol=1e-5)


@pytest.mark.parametrize("channels", [2, 3])
def test_features_are_split_into_a_spatial_dim_and_channels(channels):
    """Also where both have the same size."""
    batch = batch_of(padding={"float32": 0.0, "int32": 0})
    source = {"class": "slice", "axis": "F", "slice_end": channels**2, "from": "data"} if channels == 2 else {}
    source = source or {"class": "copy", "from": "data"}
    conv = {**CONV, "filter_size": [1, 1], "input_split_feature_dim": channels, "from": "source"}
    net = LayerNet({"source": source, "conv": conv})
    found = net.run(batch)["conv"]
    params = {param.op.name: net.session.run(param) for param in net.net.get_params_list()}
    values = batch["data"][..., : channels**2] if channels == 2 else batch["data"]
    expected = values.reshape(*values.shape[:2], -1, channels) @ params["conv/W"][0, 0]
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_axis_that_occurs_twice_in_filter_perm():
    conv = {**CONV, "filter": "w", "filter_perm": {"dim:3": "dim:4", "dim:6": "dim:4"}}
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"w": FILTER, "output": conv})
    assert "option 'filter_perm': an axis of 'w'" in str(info.value)
    assert "occurs twice in {'dim:3': 'dim:4', 'dim:6': 'dim:4'}" in str(info.value)


def test_one_size_is_a_window_along_one_dim():
    pool = {"class": "pool", "mode": "avg", "from": "data"}
    nets = {"conv": {**CONV, "filter_size": 3, "reuse_params": "conv_list"}, "conv_list": CONV}
    nets |= {"pool": {**pool, "pool_size": 2}, "pool_list": {**pool, "pool_size": [2]}}
    result = LayerNet(nets).run(batch_of())
    for name in ("conv", "pool"):
        numpy.testing.assert_array_equal(result[name], result[f"{name}_list"])


def test_pooling_over_features():
    pool = {"class": "pool", "mode": "max", "pool_size": [2], "in_spatial_dims": "F", "from": "data"}
    batch = batch_of(padding={"float32": 0.0, "int32": 0})
    net = LayerNet({"pool": pool})
    assert net.outputs["pool"].feature_dim.dimension == 3
    expected = batch["data"].reshape(3, 5, 3, 2).max(axis=-1)
    numpy.testing.assert_array_equal(net.run(batch)["pool"], expected)


@pytest.mark.parametrize(
    ("sizes", "words"), [([0], "at least 1, but it is [0]"), (-3, "at least 1, but it is [-3]"), ([], "one to three")]
)
def test_sizes_that_a_filter_cannot_have(sizes, words):
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"output": {**CONV, "filter_size": sizes}})
    assert words in str(info.value)


@pytest.mark.parametrize(
    ("axes", "words"), [("B", "along batch"), ("F", "along feature:"), (["T", "T"], "twice"), (["T", "F"], "feature:")]
)
def test_dims_that_a_window_cannot_move_along(axes, words):
    sizes = [3] if isinstance(axes, str) else [3, 3]
    conv = {**CONV, "filter_size": sizes, "in_spatial_dims": axes}
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"output": conv})
    first, second = str(info.value).splitlines()
    assert first.startswith("layer 'output' (class 'conv'): option 'in_spatial_dims': the window cannot move along ")
    assert words in first
    assert "Possible are dims other than the batch and the feature dim." in second


def test_a_window_of_one_dim_moves_over_time_if_there_are_more_dims():
    split = {"class": "split_dims", "axis": "F", "dims": (3, 2), "from": "data"}
    nets = {}
    for name, layer in (
        ("conv", {**CONV, "name_scope": "w"}),
        ("pool", {"class": "pool", "mode": "max", "pool_size": 2}),
    ):
        nets[name] = {**layer, "from": "split"}
        nets[f"{name}_given"] = {**nets[name], "in_spatial_dims": ["T"]}
    result = LayerNet({"split": split, **nets}).run(batch_of())
    for name in ("conv", "pool"):
        assert 3 in result[name].shape
        numpy.testing.assert_array_equal(result[name], result[f"{name}_given"])


def test_dims_of_pooling_are_found_by_the_layers_that_made_them():
    pool = {"class": "pool", "mode": "max", "pool_size": 2, "padding": "same"}
    net = {
        "lstm0_pool": {**pool, "from": "data"},
        "above": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "lstm0_pool"},
        "second": {**pool, "from": "above"},
        "of_first": {"class": "reduce", "mode": "mean", "axes": "stag:lstm", "from": "above"},
        "of_second": {"class": "reduce", "mode": "mean", "axes": "stag:lstm0_pool", "from": "second"},
        "of_time": {"class": "reduce", "mode": "mean", "axes": "T", "from": "second"},
    }
    result = LayerNet(net).run(batch_of())
    assert result["of_first"].ndim == 2
    numpy.testing.assert_array_equal(result["of_second"], result["of_time"])
    with (
        tf.Graph().as_default(),
        rf.backend_ctx("tf"),
        pytest.raises(ConfigError, match="there is no axis 'stag:lstm'"),
    ):
        construct({**net, "output": {**net["of_first"], "from": "data"}})


def test_which_windows_move_with_the_size_of_the_axis():
    for size, stride, dilation in itertools.product(range(1, 7), range(1, 6), (1, 2)):
        window = Window(size, stride, dilation, "same_dynamic")
        assert window.moves == (len({window.padding_for(frames)[0] for frames in range(1, 50)}) > 1), window
        assert not Window(size, stride, dilation, "same_of_multiple").moves
