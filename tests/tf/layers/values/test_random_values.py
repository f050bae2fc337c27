"""Layers with random values, outside and inside of loops."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, batch_dim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LayerNet, batch_of, construct

NORMAL = {"class": "random", "distribution": "normal", "mean": 0.0, "stddev": 1.0, "shape": [2]}
STATE = {"init": {"class": "random_state_init", "seed": 3}, "counter": {"class": "variable", "shape": (3,)}}
STATE["counter"].update(init_by_layer="init", dtype="int64", trainable=False)
NEW_IN_EACH_FRAME = {
    "normal": NORMAL,
    "seed": {**NORMAL, "seed": 4},
    "integers": {"class": "rand_int", "maxval": 1000000, "shape": [2]},
    "state_of_variable": {**NORMAL, "explicit_state": "base:counter"},
    "algorithm": {**NORMAL, "algorithm": "philox"},
}
THE_SAME = {
    "static": {**NORMAL, "static": True, "seed": 4},
    "state": {**NORMAL, "explicit_state": "base:init"},
    "state_not_updated": {**NORMAL, "explicit_state": "base:counter", "auto_update_state": False},
}


@pytest.fixture(scope="module")
def frames():
    """:return: by name, (T, 2), of the longest sequence"""

    def loop(desc):
        number = {"class": "cast", "dtype": "float32", "from": "random"}
        zero = {"class": "eval", "eval": "source(0) * 0", "from": "sum"}
        total = {"class": "reduce", "mode": "sum", "axis": "F", "from": "data:source"}
        out = {"class": "combine", "kind": "add", "from": ["zero", "number"], "allow_broadcast_all_sources": True}
        unit = {"random": desc, "number": number, "sum": total, "zero": zero, "output": out}
        return {"class": "rec", "from": "data", "unit": unit}

    loops = {name: loop(desc) for name, desc in {**NEW_IN_EACH_FRAME, **THE_SAME}.items()}
    result = LayerNet({**STATE, **loops}, fetch=tuple(loops)).run(batch_of())
    return {name: value[0] for name, value in result.items()}


@pytest.mark.parametrize("name", NEW_IN_EACH_FRAME)
def test_each_frame_has_new_values(frames, name):
    assert len(numpy.unique(frames[name], axis=0)) == len(frames[name])


@pytest.mark.parametrize("name", THE_SAME)
def test_values_that_only_depend_on_seed_or_state_are_the_same_in_all_frames(frames, name):
    assert frames[name].any()
    assert len(numpy.unique(frames[name], axis=0)) == 1


UNIFORM = {"class": "random", "distribution": "uniform", "shape": [400]}
LABELS, FEATURES = Dim(4, name="labels"), Dim(400, name="features", kind=Dim.Types.Spatial)
INTEGERS = ("uint8", "int32", "int64")
FIXED = {
    None: {**UNIFORM, "static": True, "seed": 4},
    "philox": {**UNIFORM, "static": True, "seed": 4, "algorithm": "philox"},
    "auto-select": {**UNIFORM, "static": True, "seed": 4, "algorithm": "auto-select"},
}
OF_STATE = {
    "state": {**UNIFORM, "explicit_state": "init"},
    "state_philox": {**UNIFORM, "explicit_state": "init", "algorithm": "philox"},
    "moving": {**UNIFORM, "explicit_state": "counter", "algorithm": "auto_select"},
}


@pytest.fixture(scope="module")
def two_runs():
    lengths = Dim(None, name="lengths")
    layers = {f"ints_{dtype}": integers(dtype=dtype) for dtype in (*INTEGERS, "float32")}
    layers |= {f"static_{name}": desc for name, desc in FIXED.items()}
    layers |= {**STATE, **OF_STATE}
    layers |= {
        "of_range": {**UNIFORM, "shape": [batch_dim, lengths], "shape_deps": ["range"]},
        "constant": {"class": "constant", "value": 3, "shape": [batch_dim, lengths], "shape_deps": ["range"]},
        "range": {"class": "range_from_length", "out_spatial_dim": lengths, "from": "data:number"},
        "labels": integers(sparse_dim=LABELS, maxval=4, minval=0),
        "bound": {**UNIFORM, "shape": [batch_dim, FEATURES], "feature_dim": FEATURES, "bound": 3},
        "bound_of_layer": {**UNIFORM, "shape": [batch_dim, FEATURES], "bound": "float_number"},
        "float_number": {"class": "cast", "dtype": "float32", "from": "data:number"},
    }
    net = LayerNet(layers)
    with net.graph.as_default():
        net.fetches["end"] = net.net.get_post_control_dependencies()
    return net.outputs, [net.run(batch_of()) for _ in range(2)]


def integers(**options):
    return {"class": "rand_int", "minval": 2, "maxval": 5, "shape": [400], **options}


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32"])
def test_random_numbers_of_all_dtypes_are_in_their_range(two_runs, dtype):
    _, (first, second) = two_runs
    values = first[f"ints_{dtype}"]
    assert values.dtype == dtype
    assert values.min() >= 2 and values.max() < 5  # noqa: PT018
    assert len(set(values)) == (3 if dtype in INTEGERS else 400)
    assert (values != second[f"ints_{dtype}"]).any()


def test_random_labels(two_runs):
    outputs, (first, _) = two_runs
    assert outputs["labels"].sparse_dim is LABELS
    assert set(first["labels"]) == {0, 1, 2, 3}


def test_bound_is_on_both_sides(two_runs):
    outputs, (first, _) = two_runs
    assert outputs["bound"].feature_dim is FEATURES
    assert outputs["bound_of_layer"].feature_dim is None
    limits = numpy.full(3, 3.0), batch_of()["number"]
    for value, bounds in zip((first["bound"], first["bound_of_layer"]), limits, strict=True):
        for row, bound in zip(value, bounds, strict=True):
            assert (numpy.abs(row) <= bound).all()
            assert row.min() <= -0.95 * bound
            assert row.max() >= 0.95 * bound


def test_layers_that_dims_of_the_shape_depend_on_are_made_before(two_runs):
    outputs, (first, _) = two_runs
    for name in ("of_range", "constant"):
        assert outputs[name].dims[1] == outputs["range"].dims[0]
        valid = numpy.arange(2) < batch_of()["number"][:, None]
        numpy.testing.assert_array_equal(first[name] != 0, valid)


def test_philox_is_the_default_algorithm(two_runs):
    _, (first, second) = two_runs
    for name in ("philox", "auto-select"):
        numpy.testing.assert_array_equal(first[f"static_{name}"], first["static_None"])
    for name in ("state_philox", "moving"):
        numpy.testing.assert_array_equal(first[name], first["state"])
    numpy.testing.assert_array_equal(second["state"], first["state"])
    assert (second["moving"] != first["moving"]).mean() > 0.9


@pytest.mark.parametrize("stop_grad", [False, True])
def test_the_gradient_of_random_values_can_be_stopped(stop_grad):
    desc = {**NORMAL, "stddev": "number", "shape": [batch_dim, 2], "stop_grad": stop_grad}
    number = {"class": "reduce", "mode": "mean", "axis": "F", "from": "data:vec"}
    net = LayerNet({"number": number, "random": desc})
    with net.graph.as_default():
        (gradient,) = tf.gradients(net.fetches["random"], net.net.get_layer("number").output.raw_tensor)
    assert (gradient is None) == stop_grad


@pytest.mark.parametrize(
    ("desc", "message"),
    [
        ({**UNIFORM, "algorithm": "philxo"}, "there is no algorithm 'philxo'.\n  Did you mean 'philox'"),
        ({"class": "random_state_init", "algorithm": "philxo"}, "there is no algorithm 'philxo'.\n  Did you mean"),
        ({**UNIFORM, "algorithm": "three-fry"}, "TensorFlow has the algorithm Threefry"),
        ({**UNIFORM, "explicit_state": "init_2"}, "TensorFlow has the algorithm Threefry"),
        ({**UNIFORM, "explicit_state": "data:vec"}, "the explicit_state should have one dim of size 3"),
        ({**UNIFORM, "auto_update_state": True}, "'auto_update_state' is about an 'explicit_state'"),
        ({**UNIFORM, "bound": 1, "maxval": 2}, "'bound' and 'maxval' exclude each other"),
    ],
)
def test_errors(desc, message):
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({**STATE, "init_2": {**STATE["init"], "algorithm": "three-fry"}, "output": desc})
    assert str(info.value).startswith(f"layer 'output' (class '{desc['class']}'): ")
    assert message in str(info.value)
