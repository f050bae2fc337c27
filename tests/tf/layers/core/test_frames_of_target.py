"""Targets of frames whose data has a time dim of its own."""

import numpy
import pytest

from returnn.config import Config
from returnn.tf.network import TFNetwork
from tests.tf.layers.rec.recurrent_net import tf, tf1

NET_DICT = {"output": {"class": "softmax", "from": "data", "loss": "ce", "target": "classes"}}


def total_loss(num_labels, net_dict=NET_DICT):
    """:return: of two sequences of 4 and 2 frames"""
    extern_data = {"data": {"dim": 2}, "classes": {"dim": 3, "sparse": True}}
    with tf.Graph().as_default(), tf1.Session() as session:
        net = TFNetwork(config=Config({"extern_data": extern_data, "behavior_version": 21}), train_flag=True)
        net.construct_from_dict(net_dict)
        loss = net.get_total_loss()
        session.run(tf1.global_variables_initializer())
        data, classes = (net.extern_data.data[key] for key in ("data", "classes"))
        feed = {
            data.placeholder: numpy.zeros((2, 4, 2)),
            data.get_sequence_lengths(): [4, 2],
            classes.placeholder: numpy.zeros((2, 4)),
            classes.get_sequence_lengths(): num_labels,
            data.batch.dim: 2,
        }
        return session.run(loss, feed)


def test_as_many_labels_as_frames():
    assert total_loss([4, 2]) == pytest.approx(6 * numpy.log(3), rel=1e-5)


def test_other_number_of_labels_is_an_error():
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"the target .*classes.* as many labels as the output has frames. Sequence .*: 3 labels, 2 frames\.",
    ):
        total_loss([4, 3])


FLAT = {
    "frames": {"class": "flatten_batch", "from": "data"},
    "labels": {"class": "flatten_batch", "from": "data:classes"},
    "output": {"class": "softmax", "from": "frames", "n_out": 3, "loss": "ce", "target": "layer:labels"},
}


def test_as_many_labels_as_frames_in_one_batch_of_all_frames():
    assert total_loss([4, 2], FLAT) == pytest.approx(6 * numpy.log(3), rel=1e-5)


def test_other_number_of_labels_in_one_batch_of_all_frames_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"as the output has frames(?s:.*) 7 labels, 6 frames\."):
        total_loss([4, 3], FLAT)
