"""Sources with time dims of data of several keys, which the config does not say to be the same one."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, construct

ZEROS = {"float32": 0.0, "int32": 0}
HINT = (
    "If the data of 'data' and 'ids' has the same lengths, give these the same dim in 'extern_data': "
    "'same_dim_tags_as': {'t': time_dim}, with time_dim = Dim(None, name='time')."
)
FRAMES = {"class": "linear", "activation": None, "n_out": 3, "from": "data"}
LABELS = {"class": "linear", "activation": None, "n_out": 3, "from": "data:ids"}
SAME_TIME = {"class": "reinterpret_data", "from": "labels", "size_base": "data"}


def construct_layer(desc, behavior_version):
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        net = construct({"frames": FRAMES, "labels": LABELS, "output": desc}, behavior_version=behavior_version)
        return net.get_layer("output")


@pytest.mark.parametrize(
    "sources", [["frames", "labels"], ["labels", "frames", "labels"], ["frames", "labels", "data:vec"]]
)
def test_joined_in_old_configs_they_are_one(sources):
    joined = {"class": "copy", "from": sources}
    again = {"class": "copy", "from": ["same_time" if name == "labels" else name for name in sources]}
    net_dict = {"frames": FRAMES, "labels": LABELS, "same_time": SAME_TIME, "joined": joined, "again": again}
    net = LayerNet(net_dict, fetch=("joined", "again"), behavior_version=0)
    assert len(net.outputs["joined"].dims) == 3
    outputs = net.run(batch_of(padding=ZEROS))
    assert numpy.abs(outputs["joined"]).max() > 0
    numpy.testing.assert_array_equal(outputs["joined"], outputs["again"])


def test_joined_as_one_they_need_the_same_lengths():
    net = LayerNet(
        {"frames": FRAMES, "labels": LABELS, "joined": {"class": "copy", "from": ["frames", "labels"]}},
        fetch=("joined",),
        behavior_version=0,
    )
    batch = batch_of(padding=ZEROS)
    data = net.net.extern_data.data
    feed = {data[key].raw_tensor: batch[key] for key in ("data", "ids")}
    with net.graph.as_default():
        feed[data["data"].get_time_dim_tag().dyn_size] = LENGTHS
        feed[data["ids"].get_time_dim_tag().dyn_size] = (5, 3, 3)
        feed[data["data"].batch.dim] = len(LENGTHS)
    match = "the source .*labels.* needs as many labels as the source .*frames.* has frames. Sequence 2 .*: 3 labels, 4"
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        net.session.run(net.fetches, feed)


def test_old_configs_are_told():
    warning = construct_layer({"class": "copy", "from": ["frames", "labels"]}, 0).warning
    assert warning == (
        "layer 'output' (class 'copy'): joins sources with time dims of several data keys as if these were one. "
        f"{HINT} Since behavior_version 1, it is an error."
    )
    assert construct_layer({"class": "copy", "from": ["frames", "data"]}, 0).warning is None
    assert construct_layer({"class": "combine", "kind": "add", "from": ["frames", "labels"]}, 0).warning.endswith(HINT)


@pytest.mark.parametrize("layer", [{"class": "copy"}, {"class": "combine", "kind": "add"}, {"class": "compare"}])
def test_since_then_the_error_says_what_to_do(layer):
    with pytest.raises(ConfigError) as info:
        construct_layer({**layer, "from": ["frames", "labels"]}, 30)
    assert HINT in str(info.value)


def test_frames_of_a_loop_over_one_of_them_stay_apart():
    """Each step joins one label with all frames."""
    unit = {"label": {**LABELS, "from": "data:source"}, "output": {"class": "copy", "from": ["base:frames", "label"]}}
    output = construct_layer({"class": "rec", "from": "data:ids", "unit": unit}, 0).output
    assert len([dim for dim in output.dims if dim.kind == Dim.Types.Spatial]) == 2


REPEATED = {"class": "repeat", "from": "frames", "repetitions": "times"}
TIMES = {"class": "eval", "from": "data:ids", "eval": "source(0) % 3", "out_type": {"sparse": False, "dim": None}}


def test_repetitions_are_for_the_frames_of_the_source():
    """Durations from another file: without `behavior_version`, no config has to say that they are for the phones."""
    net_dict = {"frames": FRAMES, "times": TIMES, "same_time": {**SAME_TIME, "from": "times"}, "out": REPEATED}
    net_dict["again"] = {**REPEATED, "repetitions": "same_time"}
    net = LayerNet(net_dict, fetch=("out", "again"), behavior_version=0)
    assert len(net.outputs["out"].dims) == 3
    outputs = net.run(batch_of(padding=ZEROS))
    assert numpy.abs(outputs["out"]).max() > 0
    numpy.testing.assert_array_equal(outputs["out"], outputs["again"])


def test_repetitions_of_another_data_key_are_told():
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        net = construct({"frames": FRAMES, "times": TIMES, "output": REPEATED}, behavior_version=0)
    start = "layer 'output' (class 'repeat'): option 'repetitions': has the time dim of another data key, and counts "
    assert net.get_layer("output").warning == f"{start}as if they were for the frames of the source. {HINT}"
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        net = construct({"frames": FRAMES, "times": TIMES, "output": REPEATED}, behavior_version=30)
    assert net.get_layer("output").warning == f"{start}once for each of their frames. {HINT}"
    assert len(net.get_layer("output").output.dims) == 4
