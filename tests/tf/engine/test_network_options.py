"""Options of the config that hold for all layers."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tf.network import TFNetwork

tf1 = tf.compat.v1


@pytest.fixture
def run():
    """:return: function: outputs of a network in training for constant data"""

    def run_network(net_dict, extern_data, **options):
        with tf.Graph().as_default(), tf1.Session() as session, rf.backend_ctx("tf"):
            config = Config({"extern_data": extern_data, **options})
            network = TFNetwork(config=config, train_flag=True, rnd_seed=1)
            network.construct_from_dict(net_dict)
            network.initialize_params(session)
            feed = {}
            for data in network.extern_data.data.values():
                feed[data.raw_tensor] = numpy.ones((2, 3, data.dim), "float32")
                feed[data.get_sequence_lengths()] = [3, 3]
            feed[tf1.get_default_graph().get_tensor_by_name("extern_data/placeholders/batch_dim:0")] = 2
            return network, session.run(network.layers["output"].output.raw_tensor, feed)

    return run_network


LINEAR = {"output": {"class": "linear", "activation": None, "n_out": 50, "from": "data", "forward_weights_init": 1.0}}
DATA = {"data": {"dim": 1, "shape": (None, 1)}}


def test_noise_on_all_parameters(run):
    _, plain = run(LINEAR, DATA)
    numpy.testing.assert_array_equal(plain, 1.0)
    _, noisy = run(LINEAR, DATA, param_variational_noise=0.5)
    assert 0.2 < noisy[0, 0].std() < 1.0
    own = {"output": {**LINEAR["output"], "param_variational_noise": 0.0}}
    _, without = run(own, DATA, param_variational_noise=0.5)
    numpy.testing.assert_array_equal(without, 1.0)


def test_dropout_on_all_parameters_with_enough_axes(run):
    _, dropped = run(LINEAR, DATA, param_dropout=0.5)
    assert 0 < (dropped[0, 0] == 0).sum() < 50
    _, kept = run(LINEAR, DATA, param_dropout=0.5, param_dropout_min_ndim=3)
    numpy.testing.assert_array_equal(kept, 1.0)


def test_default_input_and_printed_templates(run, capsys):
    data = {"other": {"dim": 2, "shape": (None, 2)}, "features": {"dim": 1, "shape": (None, 1)}}
    network, _ = run(LINEAR, data, default_input="features", debug_print_layer_output_template=True)
    assert network.extern_data.default_input == "features"
    assert network.get_used_data_keys() == {"features"}
    assert "layer 'output': " in capsys.readouterr().out


def test_layers_that_stay_in_all_loops(run):
    unit = {"output": {"class": "linear", "activation": None, "n_out": 2, "from": "data:source"}}
    net = {"output": {"class": "rec", "unit": unit, "from": "data"}}
    network, outside = run(net, DATA)
    assert {p.place for p in network.layers["output"].compiled.plan.placements.values()} == {"before"}
    network, inside = run(net, DATA, optimize_move_layers_out=False)
    assert {p.place for p in network.layers["output"].compiled.plan.placements.values()} == {"inside"}
    numpy.testing.assert_allclose(inside.swapaxes(0, 1), outside, rtol=1e-6)  # time is the first axis in loops
