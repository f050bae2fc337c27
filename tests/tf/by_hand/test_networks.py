"""Scripts that make networks, data and layers by hand, run them in a session of their own, and copy parameters."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.layers.base import InternalLayer, LayerBase
from returnn.tf.layers.basic import (
    BatchNormLayer,
    CombineLayer,
    LinearLayer,
    MergeDimsLayer,
    SourceLayer,
    SplitDimsLayer,
    SubnetworkLayer,
    register_layer_class,
)
from returnn.tf.network import CustomCheckpointLoader, ExternData, TFNetwork
from returnn.tf.util.data import Data
from tests.tf.by_hand.scripts import make_feed_dict, make_network, make_scope, run_network, tf1

LINEAR = {"output": {"class": "linear", "n_out": 2, "activation": None, "from": "data"}}


def test_values_by_hand_beside_placeholders_that_are_never_fed():
    with make_scope() as session:
        network = TFNetwork(config=Config({"extern_data": {"data": {"dim": 2}}}), train_flag=True)
        source = InternalLayer(name="src", network=network, out_type={"dim": 2, "shape": (None, 2)})
        source.output.placeholder = tf.constant([[[1.0, 2.0], [3.0, 4.0]]])
        source.output.size_placeholder = {0: tf.constant([2])}
        options = {"name": "bn", "sources": [source], "network": network, "masked_time": True}
        with tf1.variable_scope("bn"):
            layer = BatchNormLayer(output=BatchNormLayer.get_out_data_from_opts(**options), **options)
        session.run(tf1.global_variables_initializer())
        value = session.run(layer.output.placeholder)
        numpy.testing.assert_allclose(value.mean(axis=(0, 1)), [0, 0], atol=1e-5)


@pytest.mark.parametrize("is_of_network", [True, False])
def test_values_by_hand_beside_placeholders_by_hand(is_of_network):
    with make_scope() as session:
        extern_data = ExternData()
        data = Data("x", shape=(None, 3), auto_create_placeholders=True)
        if is_of_network:
            extern_data.register_data(data)
        network = TFNetwork(config=Config(), extern_data=extern_data)
        values = Data("y", shape=(None, 4), placeholder=tf.ones((2, 3, 4)), size_placeholder={0: tf.constant([3, 2])})
        source = InternalLayer(name="source", network=network, output=values)
        options = {"name": "split", "network": network, "sources": [source], "axis": "F", "dims": (2, -1)}
        layer = SplitDimsLayer(output=SplitDimsLayer.get_out_data_from_opts(**options), **options)
        assert session.run(layer.output.placeholder).shape == (2, 3, 2, 2)


def test_sources_with_own_placeholders():
    with make_scope() as session:
        network = TFNetwork(config=Config({"extern_data": {"data": {"dim": 3}}}))
        values, lengths = tf1.placeholder(tf.float32, (None, None, 3)), tf1.placeholder(tf.int32, (None,))
        data = Data(name="a", shape=(None, 3), dim=3, placeholder=values, size_placeholder={0: lengths})
        layers = [InternalLayer(name=name, network=network, output=data.copy()) for name in "ab"]
        options = {"name": "sum", "network": network, "sources": layers, "kind": "add"}
        layer = CombineLayer(output=CombineLayer.get_out_data_from_opts(**options), **options)
        feed = {values: numpy.ones((2, 4, 3)), lengths: [4, 3]}
        value, size = session.run([layer.output.placeholder, layer.output.get_batch_dim()], feed)
        assert (value == 2).all()
        assert size == 2


def test_merged_axes_by_hand():
    values = numpy.random.RandomState(1).normal(size=(2, 5, 3, 4)).astype("float32")
    with make_scope() as session:
        network = TFNetwork(config=Config(), extern_data=ExternData())
        source = InternalLayer(name="src", network=network, out_type={"shape": (None, 3, 4), "dim": 4})
        source.output.placeholder = tf.constant(values)
        source.output.size_placeholder = {0: tf.constant([5, 4])}
        options = {"name": "merged", "network": network, "axes": "static", "sources": [source]}
        output = MergeDimsLayer.get_out_data_from_opts(**options)
        assert output.batch_shape == (None, None, 12)
        layer = MergeDimsLayer(output=output, **options)
        numpy.testing.assert_array_equal(session.run(layer.output.placeholder), values.reshape(2, 5, 12))
        assert list(layer.output.size_placeholder) == [0]


def test_layer_of_subnetwork():
    inner = {
        "hidden": {"class": "linear", "n_out": 5, "activation": "tanh", "from": "data"},
        "output": {"class": "linear", "n_out": 2, "activation": None, "from": "hidden"},
    }
    net_dict = {
        "sub": {"class": "subnetwork", "from": "data", "subnetwork": inner},
        "output": {"class": "softmax", "n_out": 2, "from": "sub"},
    }
    with make_scope() as session:
        network = make_network(net_dict)
        layer = network.layers["sub"]
        assert isinstance(layer, SubnetworkLayer)
        assert isinstance(layer.subnetwork, TFNetwork)
        assert layer.subnetwork.layers["hidden"].output.dim == 5
        assert layer.subnetwork.get_absolute_name_prefix() == "sub/"
        assert set(layer.params) == {"hidden/W", "hidden/b", "output/W", "output/b"}
        assert network.get_params_nested_dict() == {"sub": layer.params, "output": network.layers["output"].params}
        value, _ = run_network(session, network, network.get_default_output_layer().output.placeholder)
        numpy.testing.assert_allclose(value.sum(axis=-1), 1, rtol=1e-5)


def test_layers_added_one_by_one():
    with make_scope() as session:
        network = TFNetwork(config=Config(), extern_data=ExternData({"data": {"dim": 3}}))
        source = network.add_layer(name="src", layer_class=SourceLayer)
        layer = network.add_layer(name="lin", layer_class=LinearLayer, sources=[source], n_out=4, activation="relu")
        assert network.layers["lin"] is layer
        value, _ = run_network(session, network, layer.output.placeholder)
        assert value.shape == (3, 7, 4)
        assert (value >= 0).all()


@pytest.mark.parametrize("way", ["init", "register_from_dict", "register_data_from_dict", "init_from_config"])
def test_described_data_gets_placeholders(way):
    with make_scope() as session:
        described = {"data": {"dim": 3, "shape": (None, 3)}, "classes": {"dim": 5, "sparse": True}}
        data = ExternData(described if way == "init" else None)
        if way != "init":
            getattr(data, way)(Config({"extern_data": described}) if way == "init_from_config" else described)
        network = TFNetwork(config=Config(), extern_data=data, train_flag=True)
        network.construct_from_dict({"output": {"class": "softmax", "loss": "ce", "from": "data"}})
        loss, _ = run_network(session, network, network.get_total_loss(), same_time=True)
        assert loss > 0


def test_described_data_can_be_given_values():
    with make_scope() as session:
        network = TFNetwork(config=Config(), extern_data=ExternData({"data": {"dim": 3}}))
        data = network.extern_data.data["data"]
        data.placeholder = tf.ones((2, 4, 3))
        data.size_placeholder = {0: tf.constant([4, 2])}
        network.construct_from_dict({"output": {"class": "reduce", "mode": "sum", "axis": "T", "from": "data"}})
        value = session.run(network.get_default_output_layer().output.placeholder)
        assert value.tolist() == [[4] * 3, [2] * 3]


def test_registered_data():
    with make_scope():
        data = ExternData()
        data.register_data(Data(name="data", shape=(None, 3), dim=3, auto_create_placeholders=True))
        data.register_data(Data(name="classes", shape=(None,), dim=5, sparse=True, available_for_inference=False))
        network = TFNetwork(config=Config(), extern_data=data)
        assert SourceLayer(name="src", network=network, data_key="data").output.dim == 3
        assert data.has_data("classes")
        assert data.get_default_target_data().dim == 5
        assert [key for key, _ in data.get_sorted_data_items()] == ["data", "classes"]


def test_options_of_a_config_become_arguments():
    with make_scope():
        network = TFNetwork(config=Config(), extern_data=ExternData({"data": {"dim": 3}}))
        network.construct_layer({"copy": {"class": "copy", "from": "data"}}, "copy")
        options = {"from": "copy", "n_out": 4, "activation": "tanh"}
        LinearLayer.transform_config_dict(options, network=network, get_layer=lambda name: network.layers[name])
        assert options["sources"] == [network.layers["copy"]]
        output = LinearLayer.get_out_data_from_opts(name="lin", network=network, **options)
        with tf1.variable_scope("lin"):
            layer = LinearLayer(name="lin", network=network, output=output, **options)
        assert set(layer.params) == {"W", "b"}


def test_losses_of_a_network():
    net_dict = {
        "hidden": {"class": "linear", "activation": "tanh", "n_out": 4, "L2": 0.1, "from": "data:data"},
        "output": {"class": "softmax", "loss": "ce", "from": "hidden"},
    }
    with make_scope() as session:
        network = TFNetwork(config=Config({"num_inputs": 3, "num_outputs": 5}), train_flag=True)
        network.construct_from_dict(net_dict)
        network.maybe_construct_objective()
        assert list(network.losses_dict) == ["output"]
        names = {param.name for param in network.get_params_list()}
        assert names == {"hidden/W:0", "hidden/b:0", "output/W:0", "output/b:0"}
        fetches = [network.get_objective(), network.get_total_loss(), network.get_total_constraints()]
        (objective, loss, constraints), _ = run_network(session, network, fetches, same_time=True)
        numpy.testing.assert_allclose(objective, loss + constraints, rtol=1e-5)


@pytest.mark.parametrize(
    "layer",
    [
        {"class": "softmax", "loss": "ce", "target": "classes"},
        {"class": "softmax", "n_out": 6, "loss": "ctc", "target": "classes", "loss_opts": {"use_native": True}},
        {"class": "linear", "n_out": 2, "activation": "tanh", "loss": "as_is"},
        {"class": "linear", "n_out": 3, "activation": None, "loss": "mse", "target": "data"},
    ],
    ids=lambda layer: layer["loss"],
)
def test_losses_of_single_sequences(layer):
    with make_scope() as session:
        network = make_network({"output": {**layer, "from": "data"}})
        network.maybe_construct_objective()
        holder = network.losses_dict["output"]
        key = layer.get("target", "data")
        lengths = network.extern_data.data[key].get_sequence_lengths()
        means = holder.get_normalized_loss_value_per_seq()
        (values, sums, counts), _ = run_network(
            session, network, [means, holder.get_loss_value(), lengths], same_time=layer["loss"] != "ctc"
        )
        assert values.shape == counts.shape
        numpy.testing.assert_allclose((values * counts).sum(), sums, rtol=1e-4)


def test_parameters_of_a_layer():
    with make_scope() as session:
        network = make_network(LINEAR)
        layer = network.layers["output"]
        network.initialize_params(session)
        before = network.get_params_serialized(session)
        ones = {"W": numpy.ones((3, 2), "float32"), "b": numpy.zeros((2,), "float32")}
        layer.set_param_values_by_dict(ones, session)
        feed = make_feed_dict(network.extern_data)
        data = feed[network.extern_data.data["data"].placeholder]
        value = session.run(layer.output.placeholder, feed)
        numpy.testing.assert_allclose(value[..., 1], data.sum(axis=-1), rtol=1e-4, atol=1e-5)
        network.set_params_by_serialized(before, session)
        numpy.testing.assert_array_equal(session.run(layer.params["W"]), before.values_dict["output"]["W"])


@pytest.mark.parametrize("way", ["network", "saver"])
def test_checkpoints(tmp_path, way):
    path = str(tmp_path / "model")
    with make_scope() as session:
        network = make_network(LINEAR)
        network.initialize_params(session)
        weights = network.layers["output"].params["W"].eval(session)
        if way == "network":
            network.save_params_to_file(path, session)
        else:
            tf1.train.Saver(network.get_saveable_params_list()).save(session, path)
    with make_scope() as session:
        network = make_network(LINEAR)
        if way == "network":
            network.load_params_from_file(path, session)
        else:
            params = network.get_trainable_params()
            loader = CustomCheckpointLoader(filename=path, saveable_params=params, network=network)
            loader.load_now(session=session)
        numpy.testing.assert_array_equal(session.run(network.layers["output"].params["W"]), weights)


class ScaleLayer(LayerBase):
    """Each feature is scaled, on raw tensors."""

    layer_class = "by_hand_scale"

    def __init__(self, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        source = self.sources[0].output
        with self.var_creation_scope():
            ones = tf1.ones_initializer()
            weights = self.add_param(tf1.get_variable("w", shape=(source.dim,), initializer=ones))
        self.output.placeholder = source.placeholder * weights * scale
        self.output.size_placeholder = source.size_placeholder.copy()

    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name=f"{name}_output")


def test_own_class_on_raw_tensors():
    register_layer_class(ScaleLayer)
    with make_scope() as session:
        network = make_network({"output": {"class": "by_hand_scale", "scale": 3.0, "from": "data"}})
        assert set(network.layers["output"].params) == {"w"}
        value, data = run_network(session, network, network.layers["output"].output.placeholder)
        numpy.testing.assert_allclose(value, data["data"] * 3, rtol=1e-5)


def test_data_by_shapes():
    data = Data(name="x", shape=(None, 7), dim=7, dtype="float32", batch_dim_axis=1, time_dim_axis=0)
    assert data.batch_shape == (None, None, 7)
    assert data.is_time_major
    assert data.feature_dim_axis == 2
    assert data.time_dim_axis_excluding_batch == 0
    assert Data(**data.get_kwargs()).batch_shape == data.batch_shape
    assert data.copy_template("y").name == "y"
    without_time = data.copy_template_excluding_time_dim()
    assert without_time.shape == (7,)
    assert without_time.time_dim_axis is None
    assert data.copy_template_adding_time_dim(time_dim_axis=0).batch_ndim == 4
    assert data.get_axes_from_description("spatial") == [0]
    assert [data.get_axis_from_description(axis) for axis in "TBF"] == [0, 1, 2]
    assert data.get_spatial_batch_axes() == [0]
    assert data.copy_as_batch_major().batch_shape == (None, None, 7)


def test_data_with_values():
    with make_scope() as session:
        values, lengths = tf1.placeholder(tf.float32, (None, None, 3)), tf1.placeholder(tf.int32, (None,))
        data = Data(name="x", shape=(None, 3), dim=3, placeholder=values, size_placeholder={0: lengths})
        fetches = {
            "mask": data.get_sequence_mask(),
            "lengths": data.get_sequence_lengths(),
            "time_major": data.get_placeholder_as_time_major(),
            "flat": data.get_placeholder_flattened(),
            "time_flat": data.get_placeholder_time_flattened(),
            "copied": data.copy_time_flattened().placeholder,
            "num_frames": data.time_dimension(),
            "batch": data.get_batch_dim(),
        }
        out = session.run(fetches, {values: numpy.zeros((2, 4, 3)), lengths: [4, 2]})
    assert out["mask"].tolist() == [[True] * 4, [True, True, False, False]]
    assert out["lengths"].tolist() == [4, 2]
    assert out["time_major"].shape == (4, 2, 3)
    assert out["flat"].shape == out["time_flat"].shape == out["copied"].shape == (6, 3)
    assert (out["num_frames"], out["batch"]) == (4, 2)
