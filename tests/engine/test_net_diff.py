import functools

import numpy
import pytest

from returnn.engine.net_diff import is_same_net
from returnn.tensor import Dim, Tensor
from returnn.tf.util.data import FeatureDim, SpatialDim


def make_net(*, size=3, name="out", factor=2, eval_factor=1.0, shared=True):
    dim = FeatureDim(name, size)
    second = dim if shared else FeatureDim(name, size)

    def function(source, **kwargs):
        return source(0) * factor

    return {
        "a": {"class": "linear", "out_dim": dim, "from": ["data"], "forward_weights_init": lambda x, f=factor: x * f},
        "b": {"class": "eval", "eval": function, "from": "a", "opts": {"x": [eval_factor, None]}},
        "c": {"class": "linear", "out_dim": second, "from": ("b",), "value": numpy.arange(3)},
        "d": {"class": "eval", "eval": functools.partial(max, eval_factor)},
    }


def test_nets_that_are_made_twice_are_the_same():
    assert is_same_net(make_net(), make_net())


@pytest.mark.parametrize(
    "options",
    [{"size": 4}, {"name": "other"}, {"factor": 3}, {"eval_factor": 2.0}, {"shared": False}],
    ids=lambda options: next(iter(options)),
)
def test_each_difference_is_found(options):
    assert not is_same_net(make_net(), make_net(**options))


@pytest.mark.parametrize(
    "other", [{"size": 4}, {"name": "other"}, {"dtype": "float64"}, {"value": numpy.zeros(3, "float32")}]
)
def test_templates_of_data(other):
    def net(size=3, name="out", dtype="float32", value=None):
        dim = FeatureDim(name, size)
        return {"data": Tensor("data", dims=[dim], dtype=dtype, raw_tensor=value), "out_dim": dim}

    assert is_same_net(net(), net())
    assert not is_same_net(net(), net(**other))
    assert not is_same_net(net(), {**net(), "out_dim": FeatureDim("out", 3)})


def test_other_layers_or_their_order():
    net = make_net()
    assert not is_same_net(net, {**net, "e": {}})
    assert not is_same_net(net, dict(reversed(net.items())))
    assert not is_same_net(net, {**net, "a": ["class"]})


def test_types_count():
    assert not is_same_net({"x": 1}, {"x": True})
    assert not is_same_net({"x": [1]}, {"x": (1,)})
    assert not is_same_net({"x": Dim(None, name="t")}, {"x": SpatialDim("t", 3)})


def test_functions_that_see_themselves_or_nothing_yet():
    def make(n):
        def call(x):
            return call(x - 1) if x > n else later

        if n > 100:
            later = 1
        return {"f": call}

    assert is_same_net(make(1), make(1))
    assert not is_same_net(make(1), make(2))
