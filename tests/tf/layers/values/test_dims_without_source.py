"""Layers that look at nothing but dims, with these given, and no source."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import Dim, batch_dim
from returnn.tensor.dim import single_step_dim
from returnn.tf.network import TFNetwork
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1
LENGTHS, LABEL_LENGTHS = [5, 3, 4], [2, 4, 3]


class Net:
    """Two kinds of data, with dims of their own."""

    def __init__(self, make_layers, **options):
        BehaviorVersion.reset()
        BehaviorVersion.set(16)
        self.time, self.label_time = Dim(None, name="time"), Dim(None, name="labels")
        self.feature = Dim(3, name="feature", kind=Dim.Types.Feature)
        extern_data = {
            "data": {"dims": (batch_dim, self.time, self.feature), "dtype": "float32"},
            "labels": {"dims": (batch_dim, self.label_time), "sparse_dim": Dim(5, name="label"), "dtype": "int32"},
        }
        with tf.Graph().as_default() as self.graph, rf.backend_ctx("tf"):
            tf1.set_random_seed(1)
            config = Config({"extern_data": extern_data, "behavior_version": 16, **options})
            self.net = TFNetwork(config=config, eval_flag=True)
            self.net.construct_from_dict(make_layers(self))
            self.session = tf1.Session()
            self.session.run(tf1.global_variables_initializer())

    def run(self):
        """:return: the layer "output", with the batch in front where it has one"""
        random = numpy.random.RandomState(1)
        with self.graph.as_default(), rf.backend_ctx("tf"):
            output = self.net.get_layer("output").output
            if output.have_batch_axis():
                output = output.copy_as_batch_major()
            feed = {
                self.net.extern_data.data["data"].raw_tensor: random.normal(size=(3, 5, 3)),
                self.time.dyn_size: LENGTHS,
                self.label_time.dyn_size: LABEL_LENGTHS,
                batch_dim.dyn_size: 3,
            }
            return self.session.run(output.raw_tensor, feed)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [({"class": "length"}, LABEL_LENGTHS), ({"class": "range_in_axis"}, [0, 1, 2, 3])],
    ids=["length", "range_in_axis"],
)
def test_a_dim_of_data_that_no_layer_looks_at(options, wanted):
    net = Net(lambda net: {"output": {**options, "from": [], "axis": net.label_time}})
    numpy.testing.assert_array_equal(net.run(), wanted)
    assert net.net.get_used_data_keys() == {"labels"}  # so that a training feeds the lengths


@pytest.mark.parametrize(
    "options",
    [{"class": "constant", "value": 1.0}, {"class": "random", "distribution": "uniform", "minval": 0.0, "maxval": 1.0}],
    ids=["constant", "random"],
)
def test_a_shape_with_a_dim_of_data_that_no_layer_looks_at(options):
    net = Net(lambda net: {"output": {**options, "shape": [batch_dim, net.label_time]}})
    assert net.net.get_used_data_keys() == {"labels"}
    assert net.run().shape == (3, max(LABEL_LENGTHS))


def test_a_dim_of_fixed_size_needs_no_data():
    variable = {"class": "variable", "init": 1.0}
    net = Net(lambda net: {"output": {**variable, "shape": [net.feature]}})
    assert not net.net.get_used_data_keys()


def test_data_with_the_same_dim_that_is_used_is_enough():
    def layers(net):
        total = {"class": "reduce", "mode": "sum", "axis": net.feature, "from": "data"}
        length = {"class": "length", "from": [], "axis": net.time, "dtype": "float32"}
        return {"x": total, "l": length, "output": {"class": "combine", "kind": "add", "from": ["x", "l"]}}

    assert Net(layers).net.get_used_data_keys() == {"data"}


def test_relative_positions_of_given_dims():
    def layers(net, source):
        keys = Dim(None, name="keys")
        encoding = {"class": "relative_positional_encoding", "from": source, "out_dim": net.feature, "clipping": 2}
        return {
            "keys": {"class": "reinterpret_data", "from": "data", "set_dim_tags": {net.time: keys}},
            "k": {"class": "copy", "from": "keys"},
            "encoding": {**encoding, "query_spatial_dim": net.time, "key_value_spatial_dim": keys},
            "output": {"class": "dot", "from": ["k", "encoding"], "reduce": keys},
        }

    without, with_source = (Net(lambda net, s=source: layers(net, s)).run() for source in ([], "data"))
    numpy.testing.assert_allclose(without, with_source, atol=1e-6)


@pytest.mark.parametrize("moved_out", [True, False])
def test_in_a_loop(moved_out):
    def layers(net, with_source):
        past = Dim(None, name="past")
        encoding = {"class": "relative_positional_encoding", "out_dim": net.feature, "clipping": 2}
        frames = {"class": "range_in_axis", "axis": net.label_time, "dtype": "float32"}
        unit = {
            "x": {"class": "rec_unstack", "from": "base:data:data", "axis": net.time},
            "past": {"class": "cum_concat", "from": "x", "out_spatial_dim": past, "axis": single_step_dim},
            "encoding": {**encoding, "query_spatial_dim": single_step_dim, "key_value_spatial_dim": past}
            | {"from": "x" if with_source else []},
            "weighted": {"class": "combine", "kind": "mul", "from": ["past", "encoding"]},
            "sum": {"class": "reduce", "mode": "sum", "axis": past, "from": "weighted"},
            "frames": {**frames, "from": "base:labels" if with_source else []},
            "number": {"class": "reduce", "mode": "sum", "axis": net.label_time, "from": "frames"},
            "length": {"class": "length", "axis": net.time, "dtype": "float32"}
            | {"from": "base:data:data" if with_source else []},
            "more": {"class": "combine", "kind": "add", "from": ["sum", "number"]},
            "output": {"class": "combine", "kind": "mul", "from": ["more", "length"]},
        }
        labels = {"class": "copy", "from": "data:labels"}
        return {"labels": labels, "output": {"class": "rec", "from": [], "axis": net.time, "unit": unit}}

    nets = [
        Net(lambda net, s=with_source: layers(net, s), optimize_move_layers_out=moved_out)
        for with_source in (True, False)
    ]
    with_source, without = (net.run() for net in nets)
    for row, other, length in zip(without, with_source, LENGTHS, strict=True):
        numpy.testing.assert_allclose(row[:length], other[:length], rtol=1e-5)


@pytest.mark.parametrize("options", [{"class": "length"}, {"class": "range_in_axis", "axis": "T"}])
def test_a_description_needs_a_source(options):
    with pytest.raises(ConfigError) as info:
        Net(lambda _: {"output": {**options, "from": []}})
    assert "layer 'output'" in str(info.value)
    assert "the number of sources has to be at least 1" in str(info.value)


def test_a_dim_that_no_layer_before_has():
    with pytest.raises(ConfigError) as info:
        Net(lambda _: {"output": {"class": "length", "from": [], "axis": Dim(None, name="other")}})
    assert "layer 'output' (class 'length'): the lengths of other[?] are not known yet" in str(info.value)
    assert "Give one that has it as source (option 'from')." in str(info.value)
