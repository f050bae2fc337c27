"""Where values live."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import UserError

feature = Dim(3, name="feature")

MAKERS = {
    "zeros": lambda device: rf.zeros([feature], device=device),
    "range": lambda device: rf.range_over_dim(feature, device=device),
    "convert": lambda device: rf.convert_to_tensor(numpy.zeros(3), dims=[feature], device=device),
    "uniform": lambda device: rf.random_uniform([feature], device=device),
    "normal": lambda device: rf.random_normal([feature], device=device),
    "truncated": lambda device: rf.random_truncated_normal([feature], device=device),
    "ints": lambda device: rf.random_uniform([feature], dtype="int32", minval=0, maxval=3, device=device),
    "copy": lambda device: rf.copy_to_device(rf.zeros([feature]), device),
    "parameter": lambda device: rf.Parameter([feature], device=device),
}


@pytest.mark.parametrize("name", MAKERS)
def test_device_is_respected(name: str) -> None:
    make = MAKERS[name]
    with rf.backend_ctx("torch"):
        assert make("meta").raw_tensor.device.type == "meta"
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        assert make("cuda:1").raw_tensor.device == "/device:GPU:1"
        assert not make(None).raw_tensor.device
    with rf.backend_ctx("numpy"):
        assert make("cpu").raw_tensor.shape == (3,)
        with pytest.raises(UserError) as info:
            make("cuda")
    assert str(info.value) == ("device 'cuda': the backend 'numpy' computes on the CPU only.\n  Possible: 'cpu', None.")


def test_default_device() -> None:
    with rf.backend_ctx("torch"), rf.set_default_device_ctx("meta"):
        assert rf.zeros([feature]).raw_tensor.device.type == "meta"
        assert rf.get_default_device() == "meta"
    assert rf.get_default_device() is None


def test_device_of_the_graph_around_stays() -> None:
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf.device("gpu:1"):
        assert rf.zeros([feature]).raw_tensor.device == "/device:GPU:1"
        assert rf.Parameter([feature]).raw_tensor.device == "/device:GPU:1"


def test_templates_are_nowhere() -> None:
    assert rf.copy_to_device(Tensor("x", [feature], "float32"), "cuda").device is None
