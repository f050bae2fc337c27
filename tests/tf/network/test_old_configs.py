"""
Configs as people wrote them from 2016 to 2022: with names of TensorFlow 1, modules under their old names, own
functions, own layer classes on raw tensors.
"""

import math

import numpy
import pytest

from returnn.config import global_config_ctx
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError
from tests.tf.network.old_config import LENGTHS, ConfigNet, load

DATA = """
extern_data = {"data": {"dim": 6, "shape": (None, 6)}, "classes": {"dim": 5, "shape": (None,), "sparse": True}}
"""


def test_hybrid_model_with_num_inputs_and_num_outputs():
    net = ConfigNet("hybrid", with_loss=True, train_flag=True)
    out = net.run()
    assert out.shape == (3, 7, 5)
    loss, grads = net.run([net.loss, net.gradients])
    assert loss > 0
    assert all(numpy.isfinite(grad).all() for grad in grads)
    assert len(grads) == 2 + 2 * 3 + 2


@pytest.mark.parametrize("config", ["holes_2019", "holes_2021"])
def test_own_functions_make_holes_in_training_only(config):
    in_training, otherwise = (ConfigNet(config, with_loss=True, train_flag=flag) for flag in (True, False))
    data = numpy.random.RandomState(2).uniform(0.5, 1.5, size=(3, 7, 6)).astype("float32")
    numpy.testing.assert_array_equal(otherwise.run("source", values={"data": data}), data)
    masked = in_training.run("source", values={"data": data})
    assert set(numpy.unique(masked == data)) == {True, False}
    assert numpy.all((masked == data) | (masked == 0))
    assert not numpy.array_equal(masked == 0, in_training.run("source", values={"data": data}) == 0)
    assert math.isfinite(in_training.run(in_training.loss))


def test_own_layer_classes_on_raw_tensors():
    net = ConfigNet("own_layers", with_loss=True)
    highway, mean, both = net.run(["highway", "mean", "sum"])
    assert sorted(net.net.get_layer("highway").params) == ["W", "W_gate", "b_gate"]
    assert net.net.get_layer("highway").params["W"].op.name == "highway/W"
    expected = [frames[:length].mean(axis=0) for frames, length in zip(highway, LENGTHS, strict=True)]
    numpy.testing.assert_allclose(mean, expected, rtol=1e-5)
    numpy.testing.assert_allclose(both, highway + 2 * mean[:, None], rtol=1e-5)
    assert len(net.run(net.gradients)) == 5


def test_own_layer_classes_in_a_loop():
    net = ConfigNet("own_layers", network=load("own_layers").typed_dict["network_with_loop"])
    out, highway = net.run(["output", "highway"])
    numpy.testing.assert_allclose(out[:, :4], numpy.cumsum(highway, axis=1)[:, :4], rtol=1e-4)


def test_attention_model_trains():
    net = ConfigNet("speller", with_loss=True, train_flag=True)
    loss, grads = net.run([net.loss, net.gradients], lengths={"data": LENGTHS, "letters": (3, 1, 2)})
    assert loss > 0
    assert all(numpy.isfinite(grad).all() for grad in grads)
    assert set(net.net.get_losses_initialized()[0]) == {"output/chance", "aligned", "word"}


def test_attention_model_searches():
    net = ConfigNet("speller", search_flag=True)
    with net.graph.as_default():
        decision = net.net.get_layer("word").output
        fetches = [decision.raw_tensor, decision.get_sequence_lengths()]
    labels, lengths = net.run(fetches, lengths={"data": LENGTHS, "letters": (3, 1, 2)})
    assert lengths.shape == (3,)
    assert labels.max() < 7


def test_transducer_functions():
    net = ConfigNet("transducer")
    data = numpy.random.RandomState(1).normal(size=(3, 7, 6)).astype("float32")
    labels, first, number, blank = net.run(
        ["targetb", "first", "num", "blank"], values={"data": data}, lengths={"data": LENGTHS, "classes": (2, 1, 3)}
    )
    assert labels.shape == (3, 7)
    numpy.testing.assert_array_equal(blank, labels == 5)
    assert [list(row[:length]).count(5) for row, length in zip(labels, LENGTHS, strict=True)] == [5, 3, 2]
    numpy.testing.assert_array_equal(first, numpy.repeat(data[:, :1], 7, axis=1))
    assert number.tolist() == [3, 3, 3]


def test_self_attention_does_not_see_other_sequences():
    net = ConfigNet("self_attention")
    data = numpy.random.RandomState(2).normal(size=(3, 7, 6)).astype("float32")
    out = net.run("encoder", values={"data": data})
    numpy.testing.assert_allclose(out.mean(axis=-1), 0, atol=1e-5)
    alone = net.run("encoder", values={"data": data[1:2, :4]}, lengths=(4,))
    numpy.testing.assert_allclose(alone[0], out[1, :4], rtol=1e-4, atol=1e-5)


def test_networks_by_epoch_with_values_by_epoch():
    config = load("pretraining")
    with global_config_ctx(config):
        nets = [config.typed_dict["get_network"](epoch=epoch) for epoch in (1, 3, 5)]
    assert [sum(name.startswith("lstm") for name in net) for net in nets] == [1, 2, 3]
    assert [net["lstm0"]["dropout"] for net in nets] == [0.1, pytest.approx(0.3), 0.5]
    out = ConfigNet("pretraining", network=nets[-1]).run()
    assert out.shape == (3, 7, 5)


def test_functions_with_arguments_of_tensorflow_1():
    net = ConfigNet("functions", train_flag=False)
    classes = numpy.random.RandomState(3).randint(0, 5, size=(3, 7))
    best, prob, focal, clipped, total = net.run(
        ["best", "prob", "focal", "clipped", "sum"], values={"classes": classes}
    )
    numpy.testing.assert_array_equal(best, numpy.repeat(prob.argmax(-1)[..., None], 2, axis=-1))
    chosen = numpy.take_along_axis(prob, classes[..., None], axis=-1)[..., 0]
    numpy.testing.assert_allclose(focal, -numpy.log(chosen) * (1 - chosen), rtol=1e-4)
    numpy.testing.assert_allclose(clipped, numpy.minimum(prob, 0.25))
    expected = [(numpy.log(row[:length]) + 1).sum(axis=0) for row, length in zip(prob, LENGTHS, strict=True)]
    numpy.testing.assert_allclose(total, expected, rtol=1e-4)


def test_subnetworks_share_parameters():
    net = ConfigNet("subnetworks")
    out, inner, block = net.run(["output", "inner", "block/in"])
    numpy.testing.assert_array_equal(out, numpy.zeros_like(out))
    numpy.testing.assert_array_equal(inner, block)
    assert sorted(p.op.name for p in net.net.get_params_list()) == [
        "block/in/W", "block/in/b", "block/out_of_base/W", "block/out_of_base/b",
    ]  # fmt: skip


def test_unknown_names_in_eval_say_where():
    text = DATA + 'network = {"output": {"class": "eval", "eval": "tf.no_such_function(source(0))", "from": "data"}}'
    with pytest.raises(ConfigError) as exc_info:
        ConfigNet(text)
    message = str(exc_info.value)
    assert message.startswith("layer 'output' (class 'eval'): eval 'tf.no_such_function(source(0))': AttributeError: ")
    assert len(message.splitlines()) <= 5


def test_network_class_of_old_module_is_the_same():
    assert load("from TFNetwork import TFNetwork\n").typed_dict["TFNetwork"] is TFNetwork


def test_layers_which_set_lengths_and_losses_of_their_own():
    net = ConfigNet("own_lengths", with_loss=True)
    x = numpy.random.RandomState(2).normal(size=(3, 7, 6)).astype("float32")
    with net.graph.as_default():
        lengths = [net.net.get_layer(name).output.get_sequence_lengths() for name in ("third", "halves", "lstm")]
    lengths = [value.tolist() for value in net.run(lengths)]
    assert lengths == [[3, 2, 2], [4, 2, 3], [3, 2, 2]]
    third, halves, mean, lstm, att = net.run(["third", "halves", "mean_of_halves", "lstm", "att"], values={"data": x})
    numpy.testing.assert_array_equal(third, numpy.concatenate([x, x], axis=-1)[:, ::3])
    numpy.testing.assert_allclose(mean[1], x[1, :4:2].mean(axis=0), rtol=1e-5)
    assert halves.shape == (3, 4, 6)
    assert numpy.all(att[1] <= lstm[1, :2].max(axis=0) + 1e-6)
    classes = numpy.random.RandomState(3).randint(0, 5, size=(3, 7))
    loss, probs = net.run([net.loss, "softmax"], values={"data": x, "classes": classes})
    error = ((probs - numpy.eye(5)[classes]) ** 2).sum(axis=-1)
    assert loss == pytest.approx(2 * sum(row[:n].sum() for row, n in zip(error, LENGTHS, strict=True)), rel=1e-4)
