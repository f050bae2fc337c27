"""Parameters that do not just follow the gradient of the losses: running means, and predictions of gradients."""

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.updater import Updater
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LayerNet, batch_of

tf1 = tf.compat.v1
HIDDEN = {"class": "linear", "n_out": 4, "activation": "tanh", "from": "data"}
PREDICTION = {"class": "linear", "n_out": 4, "activation": None, "from": "data"}
OUTPUT = {"class": "softmax", "n_out": 5, "loss": "ce", "target": "ids"}
BATCH = batch_of(padding={"float32": 0.0, "int32": 0})
LEARNING_RATE = 0.5


class OneStep:
    """Values before and after a step of training."""

    def __init__(self, net_dict, fetch, *, values=None, **options):
        """
        :param net_dict: the layers
        :param fetch: layers whose output of the step is wanted
        :param values: function of the network that makes further tensors whose values are wanted
        :param options: of the updater
        """
        net = LayerNet(net_dict, fetch=fetch, train_flag=True)
        with net.graph.as_default():
            self.updater = Updater(Config(options), net.net, LEARNING_RATE)
            self.updater.set_trainable_vars(net.net.get_trainable_params())
            params = {param.op.name: param.read_value() for param in net.net.get_params_list()}
            further = values(net.net) if values else {}
            op = self.updater.get_optim_op()
            net.session = tf1.Session(graph=net.graph)
            net.session.run(tf1.global_variables_initializer())
            self.updater.init_optimizer_vars(net.session)
        self.before = net.session.run(params)
        outputs = net.fetches
        net.fetches = {"outputs": outputs, "further": further}
        result = net.run(BATCH)
        self.outputs, self.further = result["outputs"], result["further"]
        net.fetches = {"op": op}
        net.run(BATCH)
        self.after = net.session.run(params)

    def change(self, name):
        return self.after[name] - self.before[name]


@pytest.mark.parametrize("has_other_params", [True, False])
def test_running_mean_moves_towards_the_mean_of_the_batch(has_other_params):
    mean = {"class": "accumulate_mean", "exp_average": 0.25, "from": "output", "is_prob_distribution": True}
    net_dict = {"output": {**OUTPUT, "from": "data", "trainable": has_other_params}, "mean": mean}
    step = OneStep(net_dict, fetch=("output",))
    of_batch = step.outputs["output"].sum(axis=(0, 1)) / 12
    expected = 0.75 * step.before["mean/mean_1"] + 0.25 * of_batch
    numpy.testing.assert_allclose(step.after["mean/mean_1"], expected, rtol=1e-5)
    assert step.change("output/W").any() == has_other_params


def test_running_mean_that_is_not_trainable_stays():
    mean = {"class": "accumulate_mean", "exp_average": 0.25, "from": "output", "trainable": False}
    step = OneStep({"output": {**OUTPUT, "from": "data"}, "mean": mean}, fetch=())
    assert step.change("output/W").any()
    assert not step.change("mean/mean_1").any()


def test_running_mean_in_a_loop():
    mean = {"class": "accumulate_mean", "exp_average": 0.25, "axes": "B", "from": "data:source"}
    loop = {"class": "rec", "from": "data", "optimize_move_layers_out": False}
    loop["unit"] = {"mean": mean, "output": {"class": "combine", "kind": "sub", "from": ["data:source", "mean"]}}
    LayerNet({"loop": loop})
    with pytest.raises(ConfigError) as info:
        LayerNet({"loop": loop}, train_flag=True)
    assert "layer 'loop/mean' (class 'accumulate_mean'): cannot be trained frame by frame" in str(info.value)


def gradient_of_hidden(net):
    hidden, output = net.get_layer("h").output.raw_tensor, net.get_layer("top").output.raw_tensor
    return {"real": tf.gradients(net.get_objective(), output)[0], "hidden": hidden}


@pytest.mark.parametrize("options", [{}, {"optimizer": {"class": "sgd", "loss_scale_factor": 8.0}}])
def test_predicted_gradient_learns_from_the_real_one(options):
    net_dict = {
        "h": HIDDEN,
        "prediction": PREDICTION,
        "top": {"class": "synthetic_gradient", "gradient": "prediction", "meta_loss_scale": 3.0, "from": "h"},
        "output": {**OUTPUT, "from": "top"},
    }
    step = OneStep(net_dict, fetch=("prediction", "h"), values=gradient_of_hidden, **options)
    difference = step.outputs["prediction"] - step.further["real"]
    valid = numpy.arange(5)[None, :, None] < numpy.array([5, 3, 4])[:, None, None]
    x = BATCH["data"]
    expected = numpy.einsum("bti,bto->io", x, 2.0 * difference * valid) / (12 * 4)
    numpy.testing.assert_allclose(step.change("prediction/W"), -3.0 * LEARNING_RATE * expected, rtol=1e-3, atol=1e-6)
    hidden = step.outputs["h"]
    by_prediction = numpy.einsum("bti,bto->io", x, step.outputs["prediction"] * (1 - hidden**2))
    numpy.testing.assert_allclose(step.change("h/W"), -LEARNING_RATE * by_prediction, rtol=1e-3, atol=1e-5)


def test_tikhonov_regularization_makes_gradients_smaller():
    def values(net):
        gradient = tf.gradients(net.get_objective(), net.get_layer("h").output.raw_tensor)[0]
        objective = net.get_objective() + 2.0 * tf.reduce_sum(gradient**2) / (12 * 4)
        return {"expected": tf.gradients(objective, net.get_layer("output").params["W"])[0]}

    top = {"class": "tikhonov_regularization", "meta_loss_scale": 2.0, "from": "h"}
    step = OneStep({"h": HIDDEN, "top": top, "output": {**OUTPUT, "from": "top"}}, fetch=(), values=values)
    expected = -LEARNING_RATE * step.further["expected"]
    numpy.testing.assert_allclose(step.change("output/W"), expected, rtol=1e-3, atol=1e-6)
    assert list(step.updater.optim_meta_losses_dict) == ["top_tikhonov"]


@pytest.mark.parametrize(
    "desc", [{"class": "tikhonov_regularization"}, {"class": "synthetic_gradient", "gradient": "h"}]
)
def test_losses_on_gradients_in_a_loop(desc):
    unit = {"h": {**HIDDEN, "from": ["data:source", "prev:h"]}, "top": {**desc, "from": "h"}}
    loop = {"class": "rec", "from": "data", "unit": {**unit, "output": {"class": "copy", "from": "top"}}}
    loop["optimize_move_layers_out"] = False
    with pytest.raises(ConfigError) as info:
        OneStep({"loop": loop, "output": {**OUTPUT, "from": "loop"}}, fetch=())
    assert str(info.value).startswith("layer 'loop/top'")
    assert "cannot be trained inside of a loop or condition." in str(info.value)
