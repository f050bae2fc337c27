"""Parameters that do not just follow the gradient of the losses: running means, and predictions of gradients."""

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tensor import Tensor
from returnn.tf.updater import Updater
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

tf1 = tf.compat.v1
HIDDEN = {"class": "linear", "n_out": 4, "activation": "tanh", "from": "data"}
PREDICTION = {"class": "linear", "n_out": 4, "activation": None, "from": "data"}
OUTPUT = {"class": "softmax", "n_out": 5, "loss": "ce", "target": "ids"}
BATCH = batch_of(padding={"float32": 0.0, "int32": 0})
LEARNING_RATE = 0.5


class OneStep:
    """Values before and after a step of training."""

    def __init__(self, net_dict, fetch, *, values=None, lengths=LENGTHS, batch=None, set_params=False, **options):
        """
        :param net_dict: the layers
        :param fetch: layers whose output of the step is wanted
        :param values: function of the network that makes further tensors whose values are wanted
        :param lengths: of the sequences
        :param batch: default: with zeros as padding
        :param set_params: give the parameters values which do not depend on what else is in the graph
        :param options: of the updater
        """
        batch = BATCH if batch is None else batch
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
            if set_params:
                for param in net.net.get_params_list():
                    count = param.shape.num_elements()
                    param.load(numpy.sin(numpy.arange(count)).reshape(param.shape) * 0.5, net.session)
        self.before = net.session.run(params)
        outputs = net.fetches
        net.fetches = {"outputs": outputs, "further": further}
        result = net.run(batch, lengths)
        self.outputs, self.further = result["outputs"], result["further"]
        net.fetches = {"op": op}
        net.run(batch, lengths)
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


def in_loop(**layers):
    """:return: a loop of which nothing is moved out, and an output with a loss"""
    loop = {"class": "rec", "from": "data", "optimize_move_layers_out": False, "unit": layers}
    return {"loop": loop, "output": {**OUTPUT, "from": "loop"}}


def test_running_mean_in_a_loop():
    """It is the same parameter in all frames, and moves towards the mean of all of them."""
    mean = {"class": "accumulate_mean", "exp_average": 0.25, "axes": "B", "from": "x"}
    x = {"class": "linear", "n_out": 5, "activation": "tanh", "from": ["data:source", "prev:x"]}
    output = {"class": "combine", "kind": "sub", "from": ["x", "mean"]}
    step = OneStep(in_loop(mean=mean, x={**x, "is_output_layer": True}, output=output), fetch=("loop/x", "loop"))
    before = step.before["loop/rec/mean/mean_1"]
    valid = numpy.arange(5)[None, :, None] < numpy.array(LENGTHS)[:, None, None]
    numpy.testing.assert_allclose(step.outputs["loop"], (step.outputs["loop/x"] - before) * valid, atol=1e-6)
    expected = 0.75 * before + 0.25 * step.outputs["loop/x"].sum(axis=(0, 1)) / 12
    numpy.testing.assert_allclose(step.after["loop/rec/mean/mean_1"], expected, rtol=1e-5)


@pytest.mark.parametrize("delay", [True, False])
@pytest.mark.parametrize("as_option", [True, False])
def test_batch_norm_in_a_loop_changes_once_in_a_step(as_option, delay):
    options = {"masked_time": True, "delay_sample_update": delay, "momentum": 0.5}
    x = {"class": "linear", "n_out": 5, "activation": "tanh", "from": ["data:source", "prev:x"]}
    x["is_output_layer"] = True
    norm = {"class": "batch_norm", **options, "from": "x"}
    if as_option:
        norm = {"class": "linear", "with_bias": False, "activation": None, "n_out": 5, "from": "x"}
        norm |= {"batch_norm": options, "forward_weights_init": "identity"}
    net_dict = in_loop(x=x, norm=norm, output={"class": "copy", "from": "norm"})
    step = OneStep(net_dict, fetch=("loop/x",), lengths=(5, 5, 5))
    frames = step.outputs["loop/x"]
    numpy.testing.assert_allclose(
        step.change("loop/rec/norm/batch_norm/v2_mean"), 0.5 * frames.mean(axis=(0, 1)), rtol=1e-4, atol=1e-6
    )
    variance = 1.0 + 0.5 * (frames.var(axis=0).mean(axis=0) - 1.0)
    numpy.testing.assert_allclose(step.after["loop/rec/norm/batch_norm/v2_variance"], variance, rtol=1e-4)


def in_condition(layer, source):
    """:return: layers, where one of a condition is computed in training; which is not known before"""
    is_true = {"class": "eval", "eval": "tf.shape(source(0))[0] > 0", "from": source}
    is_true["out_type"] = lambda name, **_: Tensor(name, dims=(), dtype="bool")
    other = {"class": "copy", "from": source}
    return {
        "is_true": is_true,
        "c": {"class": "cond", "condition": "is_true", "true_layer": layer, "false_layer": other},
    }


@pytest.mark.parametrize("delay", [True, False])
def test_batch_norm_in_a_condition(delay):
    norm = {"class": "batch_norm", "masked_time": True, "delay_sample_update": delay, "from": "h"}
    output = {"output": {**OUTPUT, "from": "c"}}
    inside = OneStep({"h": HIDDEN, **in_condition(norm, "h"), **output}, fetch=("h",))
    outside = OneStep({"h": HIDDEN, "c": norm, **output}, fetch=("h",))
    names = [name for name in inside.before if "mean" in name or "variance" in name]
    assert len(names) == 2
    for name in names:
        assert inside.change(name).any()
    hidden = inside.outputs["h"].sum(axis=(0, 1)) / 12
    numpy.testing.assert_allclose(inside.change("c/batch_norm/v2_mean"), 0.1 * hidden, rtol=1e-4, atol=1e-6)
    assert outside.change("c/batch_norm/v2_mean").any()


def only_in_frame(number, layer, **options):
    """:return: layers of a loop, where one is computed in a single frame"""
    out_type = {"dtype": "bool"}
    condition = {"class": "eval", "from": ":i", "eval": f"tf.equal(source(0), {number})", "out_type": out_type}
    cond = {"class": "cond", "condition": "is_one", "true_layer": layer, "false_layer": "data:source"}
    return in_loop(is_one=condition, c=cond, output={"class": "copy", "from": "c"}, **options)


@pytest.mark.parametrize("delay", [True, False])
@pytest.mark.parametrize("frame", [1, 4, 7])
def test_running_mean_of_a_condition_in_a_loop_is_that_of_the_frames_in_which_it_is_computed(frame, delay):
    norm = {"class": "batch_norm", "masked_time": True, "delay_sample_update": delay, "momentum": 0.5}
    unit = {"norm": {**norm, "from": "data"}, "mean": {"class": "accumulate_mean", "exp_average": 0.25, "axes": "B"}}
    unit["mean"].update({"from": "data", "is_output_layer": True})
    unit["output"] = {"class": "copy", "from": "norm"}
    step = OneStep(only_in_frame(frame, {"class": "subnetwork", "from": "data:source", "subnetwork": unit}), fetch=())
    of_all = BATCH["data"][:, min(frame, 4)]
    of_seqs = of_all[numpy.array(LENGTHS) > frame]
    before = step.before["loop/rec/c/mean/mean_1"]
    is_computed = frame < 5
    expected = 0.75 * before + 0.25 * of_seqs.mean(axis=0) if is_computed else before
    numpy.testing.assert_allclose(step.after["loop/rec/c/mean/mean_1"], expected, rtol=1e-5, atol=1e-6)
    for name, value in {"mean": 0.5 * of_all.mean(axis=0), "variance": 0.5 + 0.5 * of_all.var(axis=0)}.items():
        expected = value if is_computed else numpy.full(6, 0.0 if name == "mean" else 1.0)
        found = step.after[f"loop/rec/c/norm/batch_norm/v2_{name}"]
        numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_both_layers_of_a_condition_in_a_loop_have_one_running_mean():
    norm = {"class": "batch_norm", "masked_time": True, "momentum": 0.5, "from": "data:source"}
    one, both = (only_in_frame(2, norm) for _ in range(2))
    both["loop"]["unit"]["c"] = {**both["loop"]["unit"]["c"], "false_layer": norm}
    plain = in_loop(c=norm, output={"class": "copy", "from": "c"})
    one, both, plain = (OneStep(net_dict, fetch=(), lengths=(5, 5, 5)) for net_dict in (one, both, plain))
    name = "loop/rec/c/batch_norm/v2_mean"
    numpy.testing.assert_allclose(both.change(name), plain.change(name), rtol=1e-4, atol=1e-6)
    assert numpy.abs(one.change(name) - plain.change(name)).max() > 1e-3


def test_batch_norm_in_a_loop_in_a_loop():
    norm = {"class": "batch_norm", "masked_time": True, "momentum": 0.5, "from": "data:source"}
    inner = {"class": "rec", "from": "data:source", "axis": "dim:4", "optimize_move_layers_out": False}
    inner["unit"] = {"norm": norm, "output": {"class": "copy", "from": "norm"}}
    loop = in_loop(inner=inner, output={"class": "reduce", "mode": "mean", "axis": "dim:4", "from": "inner"})
    loop["loop"]["from"] = "data:image"
    step = OneStep(loop, fetch=(), lengths=(5, 5, 5))
    expected = 0.5 * BATCH["image"].mean(axis=(0, 1, 2))
    numpy.testing.assert_allclose(
        step.change("loop/rec/inner/rec/norm/batch_norm/v2_mean"), expected, rtol=1e-4, atol=1e-6
    )


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


TIKHONOV = {"class": "tikhonov_regularization", "meta_loss_scale": 2.0, "from": "h"}
SYNTHETIC = {"class": "synthetic_gradient", "gradient": "prediction", "meta_loss_scale": 3.0, "from": "h"}


def step_of_meta_loss(top, *, kind):
    """:return: a step where the loss on gradients comes about "outside" of loops and conditions, or in them"""
    layers = {"h": HIDDEN, "prediction": {**PREDICTION, "forward_weights_init": 0.1}}
    also = {**OUTPUT, "from": "prediction"}
    if kind in ("outside", "condition"):
        last = in_condition(top, "h") if kind == "condition" else {"c": top}
        return OneStep({**layers, **last, "output": {**OUTPUT, "from": "c"}, "also": also}, fetch=("output",))
    unit = {name: {**desc, "from": "data:source"} for name, desc in layers.items()}
    unit |= in_condition(top, "h") if kind == "condition in a loop" else {"c": top}
    unit["prediction"]["is_output_layer"] = True
    net_dict = in_loop(**unit, output={"class": "copy", "from": "c"})
    return OneStep({**net_dict, "also": {**also, "from": "loop/prediction"}}, fetch=("output",))


@pytest.mark.parametrize(
    ("top", "kind"),
    [
        (TIKHONOV, "loop"),
        (SYNTHETIC, "condition"),
        (SYNTHETIC, "loop"),
    ],
)
def test_losses_on_gradients_are_the_same_in_loops_and_conditions(top, kind):
    outside, inside = (step_of_meta_loss(top, kind=x) for x in ("outside", kind))
    numpy.testing.assert_allclose(inside.outputs["output"], outside.outputs["output"], rtol=1e-4)
    for name in ("h/W", "prediction/W", "output/W"):
        same = next(other for other in inside.before if other.endswith(name))
        assert outside.change(name).any()
        numpy.testing.assert_allclose(inside.change(same), outside.change(name), rtol=1e-3, atol=1e-5)


RECURRENT = {
    "frames": {"class": "linear", "n_out": 4, "activation": "tanh", "from": "data:source"},
    "loop": {"class": "linear", "n_out": 4, "activation": "tanh", "from": ["data:source", "prev:h"]},
    "unit": {"class": "rec", "unit": "gru", "n_out": 4, "from": "data:source"},
    "kernel": {"class": "rnn_cell", "unit": "lstmblock", "n_out": 4, "from": "data:source"},
}


@pytest.mark.parametrize("kind", RECURRENT)
def test_padded_frames_of_a_loop_get_no_predicted_gradient(kind):
    prediction = {**PREDICTION, "from": "data:source"}
    unit = {"h": RECURRENT[kind], "prediction": prediction, "c": SYNTHETIC, "output": {"class": "copy", "from": "c"}}
    steps = []
    for optimize in (True, False):
        net_dict = in_loop(**unit)
        net_dict["loop"]["optimize_move_layers_out"] = optimize
        for padding in (0.0, 3.0):
            batch = batch_of(padding={"float32": padding, "int32": 0})
            steps.append(OneStep(net_dict, fetch=(), batch=batch, set_params=True))
    for name in steps[0].before:
        for step in steps[1:]:
            numpy.testing.assert_allclose(step.change(name), steps[0].change(name), rtol=1e-3, atol=1e-5)
    assert any("/h/" in name and steps[0].change(name).any() for name in steps[0].before)


def test_no_prediction_of_gradients_is_trained_in_a_condition_in_a_loop():
    with pytest.raises(ConfigError) as info:
        step_of_meta_loss(SYNTHETIC, kind="condition in a loop")
    assert str(info.value).startswith("layer 'loop/c'")
    assert "cannot be trained in a condition inside of a loop" in str(info.value)
