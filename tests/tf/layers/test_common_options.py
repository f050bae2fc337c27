"""The options that all layers have: what each of them does, in a small network."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, batch_of, construct

tf1 = tf.compat.v1
LINEAR = {"class": "linear", "activation": None, "n_out": 4, "from": "data"}
DENSE = {"float32": 0.0, "int32": 0}


class Net:
    """A network in a graph of its own."""

    def __init__(self, net_dict, **options):
        with tf.Graph().as_default() as self.graph, rf.backend_ctx("tf"):
            tf1.set_random_seed(1)
            self.net = construct({"output": {"class": "copy", "from": "data"}, **net_dict}, **options)
            self.session = tf1.Session(graph=self.graph)

    def param(self, name):
        return next(param for param in self.net.get_params_list() if param.name == f"{name}:0")

    def run(self, *layers_or_tensors):
        """:return: values of layers by name, or of raw tensors; variables keep what they have after the first run"""
        batch = batch_of(padding=DENSE)
        with self.graph.as_default():
            feed = {self.net.extern_data.data[key].raw_tensor: batch[key] for key in ("data", "ids", "vec")}
            for key in ("data", "ids"):
                data = self.net.extern_data.data[key]
                feed.update((dim.dyn_size, LENGTHS) for dim in data.dims if dim.is_dynamic_seq_length())
                feed[data.batch.dim] = len(LENGTHS)
            fetches = [self.net.get_layer(x).output.raw_tensor if isinstance(x, str) else x for x in layers_or_tensors]
            missing = self.session.run(tf1.report_uninitialized_variables())
            if len(missing):
                self.session.run(tf1.global_variables_initializer())
        values = self.session.run(fetches, feed_dict=feed)
        return values[0] if len(values) == 1 else values


def constraints_of(**options):
    """:return: what the options of a layer add to the objective; output of the layer, its parameters by name"""
    net = Net({"output": {**LINEAR, **options}}, train_flag=True)
    with net.graph.as_default(), rf.backend_ctx("tf"):
        _, _, total = net.net.get_losses_initialized(with_total=True)
        return net.run(total, net.net.get_layer("output").output.raw_tensor, net.param("output/W"))


def test_out_dim_is_the_feature_dim():
    out_dim = Dim(4, name="own", kind=Dim.Types.Feature)
    net = Net({"output": {**LINEAR, "out_dim": out_dim}}).net
    assert net.get_layer("output").output.feature_dim is out_dim


def test_out_type_says_the_size_of_the_output():
    desc = {key: value for key, value in LINEAR.items() if key != "n_out"}
    assert Net({"output": {**desc, "out_type": {"dim": 7}}}).net.get_layer("output").output.dim == 7


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out_dim": Dim(5, name="five")}, ["'n_out' is 4", "five"]),
        ({"out_shape": {Dim(9, name="nine")}}, ["nine"]),
        ({"reuse_params": {"reuse_layr": "other"}}, ["'reuse_layr'", "Did you mean 'reuse_layer'"]),
        ({"reuse_params": {"map": ["W"]}}, ["option 'reuse_params': 'map' has to be a dict, not ['W']"]),
        ({"custom_param_importer": 5}, ["'custom_param_importer' has to be a text or a function"]),
        ({"batch_norm": {"momentumm": 0.1}}, ["momentumm", "momentum"]),
        ({"bias_init": [0.0, 1.0]}, ["initial value of the parameter 'b': [0.0, 1.0] is no initializer", "a number"]),
        ({"forward_weights_init": "glorot"}, ["parameter 'W': there is no initializer 'glorot'", "glorot_uniform"]),
        ({"debug_print_layer_output": "yes"}, ["'debug_print_layer_output' has to be True or False or a dict"]),
    ],
)
def test_what_contradicts_is_explained(options, words):
    with pytest.raises(ConfigError) as info:
        Net({"output": {**LINEAR, **options}})
    assert len(str(info.value).splitlines()) <= 5
    for word in ["layer 'output'", *words]:
        assert word in str(info.value)


def test_l2_is_the_sum_of_the_squares_of_all_parameters():
    total, _, weights = constraints_of(L2=0.5)
    numpy.testing.assert_allclose(total, 0.5 * (weights**2).sum(), rtol=1e-5)


@pytest.mark.parametrize(("activation", "inverse"), [(None, lambda x: x), ("tanh", numpy.arctanh)])
def test_darc1_is_the_largest_sum_over_the_frames_before_the_activation(activation, inverse):
    total, output, _ = constraints_of(darc1=0.5, activation=activation)
    frames = numpy.concatenate([inverse(row[:length]) for row, length in zip(output, LENGTHS, strict=True)])
    numpy.testing.assert_allclose(total, 0.5 * abs(frames).sum(0).max(), rtol=1e-4)


def test_spatial_smoothing_grows_with_the_differences_of_neighbours():
    once, twice = constraints_of(spatial_smoothing=0.1)[0], constraints_of(spatial_smoothing=0.2)[0]
    assert once > 0
    numpy.testing.assert_allclose(twice, 2 * once, rtol=1e-5)


def test_spatial_smoothing_of_an_output_without_time():
    mean = {"class": "reduce", "mode": "mean", "axis": "T", "from": "data", "spatial_smoothing": 0.1}
    net = Net({"mean": {**mean, "is_output_layer": True}}, train_flag=True)
    with net.graph.as_default():
        assert net.run(net.net.get_total_constraints()) > 0


def test_l2_of_a_layer_whose_network_has_only_this_layer_and_is_in_another_one():
    inner = {"class": "subnetwork", "from": "data", "subnetwork": {"x": {**LINEAR, "L2": 0.5}, "output": LINEAR}}
    subnetwork = {"inner": inner, "output": {"class": "copy", "from": "inner/x"}}
    net = Net({"output": {"class": "subnetwork", "from": "data", "subnetwork": subnetwork}}, train_flag=True)
    with net.graph.as_default():
        total, weights = net.run(net.net.get_total_constraints(), net.param("output/inner/x/W"))
    numpy.testing.assert_allclose(total, 0.5 * (weights**2).sum(), rtol=1e-5)


# Which parameters training changes.


def trained(net_dict):
    net = Net(net_dict, train_flag=True)
    with net.graph.as_default():
        names = {param.op.name.rpartition("/")[0] for param in net.net.get_trainable_params()}
        in_graph = {variable.op.name.rpartition("/")[0] for variable in tf1.trainable_variables()}
    return names, in_graph


@pytest.mark.parametrize(
    "frozen",
    [
        {**LINEAR, "trainable": False},
        {"class": "subnetwork", "from": "data", "trainable": False, "subnetwork": {"output": LINEAR}},
        {"class": "subnetwork", "from": "data", "subnetwork": {"#trainable": False, "output": LINEAR}},
        {"class": "rec", "from": "data", "trainable": False, "unit": {"output": {**LINEAR, "from": "prev:output"}}},
        {"class": "rec", "from": "data", "trainable": False, "unit": {"output": {**LINEAR, "from": "data:source"}}},
        {"class": "rec", "from": "data", "trainable": False, "unit": "lstm", "n_out": 4},
    ],
    ids=["layer", "subnetwork", "dict", "loop", "loop-outside", "unit"],
)
def test_parameters_that_training_does_not_change(frozen):
    assert trained({"frozen": frozen, "output": {**LINEAR, "from": "frozen"}}) == ({"output"}, {"output"})


def test_shared_parameters_are_trained_if_all_layers_are_that_have_them():
    def net(first, second):
        return {"first": {**LINEAR, **first}, "output": {**LINEAR, "reuse_params": "first", **second}}

    frozen = {"trainable": False}
    assert trained(net({}, {}))[0] == {"first"}
    assert trained(net({}, frozen))[0] == set()
    assert trained(net(frozen, {}))[0] == set()


SHARED = {
    "linear": LINEAR,
    "batch_norm": {"class": "batch_norm", "masked_time": True, "from": "data"},
    "layer_norm": {"class": "layer_norm", "from": "data"},
    "conv": {"class": "conv", "filter_size": (3,), "padding": "same", "n_out": 6, "from": "data"},
    "lstm": {"class": "rec", "unit": "lstm", "n_out": 6, "from": "data"},
    "attention": {"class": "self_attention", "num_heads": 2, "n_out": 6, "total_key_dim": 4, "from": "data"},
}


@pytest.mark.parametrize("desc", SHARED.values(), ids=SHARED)
def test_all_parameters_of_a_layer_can_be_shared(desc):
    net = Net({"first": desc, "output": {**desc, "reuse_params": "first"}}, train_flag=True)
    first, second = (net.net.get_layer(name).params for name in ("first", "output"))
    assert {name: param.name for name, param in second.items()} == {name: param.name for name, param in first.items()}
    assert len(net.net.get_params_list()) == len(first)
    numpy.testing.assert_array_equal(*net.run("first", "output"))


# What `dropout` drops together, as fractions of dropped entries in the sources.


def dropped(train_flag=True, **options):
    """:return: (B, T, F), where the input is dropped"""
    ones = {"class": "eval", "eval": "tf.ones_like(source(0))", "from": "data"}
    net = Net(
        {"ones": ones, "output": {"class": "copy", "dropout": 0.5, "from": "ones", **options}}, train_flag=train_flag
    )
    return net.run("output") == 0


ON_THEIR_OWN = {"dropout_noise_shape": {"*": None}}


def test_dropout_is_only_in_training():
    assert 0.2 < dropped(**ON_THEIR_OWN).mean() < 0.8
    assert not dropped(train_flag=False).any()
    assert 0.2 < dropped(train_flag=False, dropout_on_forward=True, **ON_THEIR_OWN).mean() < 0.8


def test_dropout_drops_the_same_features_in_all_frames_of_all_sequences_by_default():
    drops = dropped()
    assert (drops == drops[:1, :1]).all()
    assert 0 < drops.mean() < 1


@pytest.mark.parametrize(
    "options",
    [
        {"dropout_noise_shape": [None, 1, None]},
        {"dropout_noise_shape": {"T": 1, "B": None}},
        {"dropout_axis": ["B", "F"]},
    ],
)
def test_dropout_drops_the_same_in_all_frames(options):
    drops = dropped(**options)
    assert (drops == drops[:, :1]).all()
    assert 0 < drops.mean() < 1


def test_dropout_for_one_axis_alone():
    drops = dropped(dropout_noise_shape={"*": 1, "F": None})
    assert (drops == drops[:1, :1]).all()
    assert 0 < drops.mean() < 1


# Parameters.


def test_reused_parameters_are_the_same_variables():
    net = Net({"output": LINEAR, "again": {**LINEAR, "reuse_params": "output", "is_output_layer": True}})
    assert [param.name for param in net.net.get_params_list()] == ["output/W:0", "output/b:0"]
    numpy.testing.assert_array_equal(*net.run("output", "again"))


def test_map_of_reused_parameters():
    reuse = {"map": {"W": {"reuse_layer": "output"}, "b": None}}
    net = Net({"output": LINEAR, "again": {**LINEAR, "reuse_params": reuse, "is_output_layer": True}})
    assert {param.name for param in net.net.get_params_list()} == {"output/W:0", "output/b:0", "again/b:0"}
    numpy.testing.assert_array_equal(*net.run("output", "again"))


@pytest.mark.parametrize(("name_scope", "scope"), [("own", "own/"), ("/a/b", "a/b/"), ("", ""), (None, "output/")])
def test_name_scope_of_parameters(name_scope, scope):
    net = Net({"output": {**LINEAR, "name_scope": name_scope}}).net
    assert {param.name for param in net.get_params_list()} == {f"{scope}W:0", f"{scope}b:0"}


def test_trainable():
    net = Net({"output": LINEAR, "fixed": {**LINEAR, "trainable": False, "is_output_layer": True}})
    with net.graph.as_default():
        assert {param.name for param in net.net.get_trainable_params()} == {"output/W:0", "output/b:0"}
    assert len(net.net.get_params_list()) == 4


@pytest.mark.parametrize(("min_ndim", "drops_bias"), [(None, True), (2, False)])
def test_param_dropout_drops_entries_of_parameters_in_training(min_ndim, drops_bias):
    options = {"param_dropout": 0.5, "bias_init": 1.0, "n_out": 50}
    if min_ndim:
        options["param_dropout_min_ndim"] = min_ndim
    net_dict = {"zeros": {"class": "eval", "eval": "source(0) * 0", "from": "data"}}
    net_dict["output"] = {**LINEAR, **options, "from": "zeros"}
    assert (Net(net_dict, train_flag=True).run("output") == 0).any() == drops_bias
    assert (Net(net_dict, train_flag=False).run("output") == 1).all()


def test_param_variational_noise_is_only_in_training():
    net_dict = {"output": {**LINEAR, "param_variational_noise": 0.1}}
    noisy, plain = Net(net_dict, train_flag=True), Net(net_dict, train_flag=False)
    assert (noisy.run("output") != noisy.run("output")).any()
    numpy.testing.assert_array_equal(plain.run("output"), plain.run("output"))


def test_param_device():
    net = Net({"output": {**LINEAR, "param_device": "CPU"}})
    assert "CPU" in net.param("output/W").device.upper()


def test_updater_opts_are_kept_with_the_parameters():
    net = Net({"output": {**LINEAR, "updater_opts": {"lr_multiplier": 2.0}}})
    assert net.param("output/W")._returnn_updater_opts == {"lr_multiplier": 2.0}


def test_custom_param_importer_gets_the_values():
    given = []
    net = Net({"output": {**LINEAR, "custom_param_importer": lambda **kwargs: given.append(kwargs)}})
    net.net.get_layer("output").set_param_values_by_dict({"W": numpy.zeros((6, 4))}, session=net.session)
    assert set(given[0]["values_dict"]) == {"W"}
    assert given[0]["layer"] is net.net.get_layer("output")


# Output.


def test_register_as_extern_data():
    net = Net({"output": {"class": "copy", "from": "data:key"}, "source": {**LINEAR, "register_as_extern_data": "key"}})
    assert net.net.extern_data.data["key"].dim == 4
    numpy.testing.assert_array_equal(*net.run("output", "source"))


def test_registered_data_can_be_a_target():
    source = {**LINEAR, "register_as_extern_data": "key"}
    net = Net({"output": {**LINEAR, "loss": "mse", "target": "key"}, "source": source}, train_flag=True)
    with net.graph.as_default(), rf.backend_ctx("tf"):
        losses, _, _ = net.net.get_losses_initialized()
        assert net.run(losses["output"].get_loss_value()) > 0


def test_control_dependencies_on_output_run_before_it():
    counter = []

    def count(layer):
        counter.append(tf1.get_variable("counter", (), initializer=tf1.zeros_initializer(), trainable=False))
        return [counter[0].assign_add(1.0)]

    net = Net({"output": {**LINEAR, "control_dependencies_on_output": count}})
    net.run("output")
    net.run("output")
    with net.graph.as_default():
        value = counter[0].read_value()
    assert net.run(value) == 2


@pytest.mark.parametrize("options", [True, {"summarize": 2, "extra_print_args": ["and more"]}])
def test_debug_print_layer_output(options, capfd):
    Net({"output": {**LINEAR, "debug_print_layer_output": options}}).run("output")
    text = capfd.readouterr().err
    assert "layer 'output'" in text
    assert "lengths: [5 3 4]" in text
    assert ("and more" in text) == isinstance(options, dict)


def test_copy_output_loss_from_source_idx():
    layers = {
        "logits": {**LINEAR, "n_out": 6, "activation": "log_softmax"},
        "align": {"class": "fast_bw", "from": "logits", "align_target": "ctc", "align_target_key": "ids"},
        "output": {"class": "copy", "from": ["logits", "align"], "copy_output_loss_from_source_idx": 1},
    }
    net = Net(layers).net
    assert net.get_layer("output").output_loss is net.get_layer("align").output_loss is not None


@pytest.mark.parametrize("train_flag", [True, False])
def test_only_on_eval(train_flag):
    layers = {"output": {**LINEAR, "n_out": 6, "loss": "mse", "target": "data", "only_on_eval": True}}
    net = Net(layers, train_flag=train_flag)
    with net.graph.as_default(), rf.backend_ctx("tf"):
        losses, _, _ = net.net.get_losses_initialized()
        values = net.run(losses["output"].get_loss_value())
    assert (values > 0) == (not train_flag)


def test_only_on_search_is_left_out_otherwise():
    assert "extra" not in Net({"extra": {**LINEAR, "only_on_search": True, "is_output_layer": True}}).net.layers


def test_masked_batch_norm_as_option():
    options = {"masked_time": True, "epsilon": 1e-9, "momentum": 0.5, "use_shift": False, "use_std": False}
    output = Net({"output": {**LINEAR, "batch_norm": options}}, train_flag=True).run("output")
    frames = numpy.concatenate([row[:length] for row, length in zip(output, LENGTHS, strict=True)])
    numpy.testing.assert_allclose(frames.mean(0), 0, atol=1e-5)
    numpy.testing.assert_allclose(frames.std(0), 1, rtol=1e-3)


def test_in_dim_chooses_the_feature_dim():
    first, second = Dim(2, name="first"), Dim(3, name="second")
    split = {"class": "split_dims", "axis": "F", "dims": (first, second), "from": "data"}
    net = Net({"split": split, "output": {**LINEAR, "from": "split", "in_dim": first}})
    assert net.param("output/W").shape.as_list() == [2, 4]


@pytest.mark.parametrize("encapsulate", [False, True])
def test_encapsulated_subnetwork_gives_the_same_in_a_loop(encapsulate):
    layers = {"inner": {**LINEAR, "n_out": 6}, "output": {"class": "activation", "activation": "tanh", "from": "inner"}}
    unit = {
        "sub": {"class": "subnetwork", "from": "data:source", "encapsulate": encapsulate, "subnetwork": layers},
        "output": {"class": "combine", "kind": "add", "from": ["sub/inner", "prev:output"]},
    }
    net = Net({"output": {"class": "rec", "from": "data", "unit": unit}})
    names = {param.name for param in net.net.get_params_list()}
    assert names == {"output/rec/sub/inner/W:0", "output/rec/sub/inner/b:0"}
    output, weights = net.run("output", net.param("output/rec/sub/inner/W"))
    batch_axis = [dim.is_batch_dim() for dim in net.net.get_layer("output").output.dims].index(True)
    expected = numpy.cumsum(batch_of(padding=DENSE)["data"] @ weights, axis=1)[:, :3]
    numpy.testing.assert_allclose(numpy.moveaxis(output, batch_axis, 0)[:, :3], expected, rtol=1e-4, atol=1e-5)
