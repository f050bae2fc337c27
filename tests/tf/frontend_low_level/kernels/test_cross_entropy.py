"""The loss "ce" by the native kernel is what single operations compute, also its gradients, in whole networks."""

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.tf.network import TFNetwork

tf1 = tf.compat.v1
LENGTHS, TARGETS = [4, 0, 1], [[3, 0, 6, 2], [-1, 9, 0, 0], [5, -1, 9, 9]]  # those of padded frames are no labels


def values_of_both(monkeypatch, loss_opts, padding):
    """:return: for the kernel and without: types of operations; loss, gradient, and gradient of that"""
    found = []
    net_dict = {"output": {"class": "softmax", "from": "data", "loss": "ce", "loss_opts": loss_opts}}
    extern_data = {"data": {"dim": 5}, "classes": {"dim": 7, "sparse": True}}
    for is_on in "10":
        monkeypatch.setenv("RETURNN_NATIVE", is_on)
        with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
            config = Config({"extern_data": extern_data, "network": net_dict, "behavior_version": 21})
            net = TFNetwork(config=config, train_flag=True)
            net.construct_from_dict(net_dict)
            data, classes = (net.extern_data.data[key] for key in ("data", "classes"))
            (holder,) = net.get_losses_initialized()[0].values()
            loss = holder.get_loss_value()
            weights = net.get_layer("output").params["W"]
            (grad,) = tf.gradients(loss, [weights])
            (second,) = tf.gradients(tf.reduce_sum(grad**2), [weights])
            random = numpy.random.RandomState(1)
            session.run(tf1.global_variables_initializer())
            weights.load(random.normal(size=(5, 7)).astype("float32"), session)
            frames = random.normal(size=(3, 4, 5)).astype("float32")
            for row, length in zip(frames, LENGTHS, strict=True):
                row[length:] = padding
            feed = {
                data.raw_tensor: frames,
                data.dims[1].dyn_size_ext.raw_tensor: LENGTHS,
                classes.raw_tensor: TARGETS,
                classes.dims[1].dyn_size_ext.raw_tensor: LENGTHS,
            }
            if tf.is_tensor(data.batch.dim):
                feed[data.batch.dim] = 3
            types = {op.type for op in graph.get_operations()}
            found.append((types, session.run([loss, grad, second], feed)))
    return found


SMOOTHED = {"label_smoothing": 0.1}


@pytest.mark.parametrize("loss_opts", [{}, SMOOTHED, {"label_smoothing": 0.3, "focal_loss_factor": 2.0}])
def test_same_values_and_gradients(monkeypatch, loss_opts):
    if get_operations() is None:
        pytest.skip("no kernels")
    (types, values), (other_types, expected) = values_of_both(monkeypatch, loss_opts, padding=1e3)
    assert "ReturnnCrossEntropyGradGrad" in types
    assert not types & {"LogSoftmax", "SparseSoftmaxCrossEntropyWithLogits"}
    assert not any(name.startswith("Returnn") for name in other_types)
    for value, other in zip(values, expected, strict=True):
        numpy.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-4)


def test_padded_frames_can_be_anything(monkeypatch):
    (_, values), _ = values_of_both(monkeypatch, SMOOTHED, padding=1e3)
    (_, with_nan), _ = values_of_both(monkeypatch, SMOOTHED, padding=numpy.nan)
    assert with_nan[0] == values[0]
