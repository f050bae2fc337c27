"""The same seed, or the same state, gives the same random values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim

dim = Dim(20, name="dim")


def _numpy_value(raw: Any) -> numpy.ndarray:
    return raw if isinstance(raw, numpy.ndarray) else raw.numpy()


def _draw() -> list[float]:
    return _numpy_value(rf.random_uniform([dim]).raw_tensor).tolist()


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_seed(backend: str) -> None:
    with rf.backend_ctx(backend):
        rf.set_random_seed(5)
        first = [_draw(), _draw()]
        rf.set_random_seed(5)
        assert [_draw(), _draw()] == first
        assert first[0] != first[1]
        rf.set_random_seed(6)
        assert _draw() != first[0]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_state(backend: str) -> None:
    with rf.backend_ctx(backend):
        rf.set_random_seed(5)
        state = rf.get_random_state()
        first = _draw()
        rf.set_random_state(state)
        assert _draw() == first


def test_seed_of_a_graph() -> None:
    values = []
    for seed in (5, 5, 6):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session, rf.backend_ctx("tf"):
            rf.set_random_seed(seed)
            random = rf.random_uniform([dim]).raw_tensor
            values.append([session.run(random).tolist(), session.run(random).tolist()])
    assert values[0] == values[1]
    assert values[0] != values[2]
    assert values[0][0] != values[0][1]


@pytest.mark.parametrize(
    ("make", "low", "high", "mean"),
    [
        (lambda d: rf.random_uniform([d], minval=-1.0, maxval=2.0), -1, 2, 0.5),
        (lambda d: rf.random_normal([d], mean=1.0, stddev=0.5), -3, 5, 1.0),
        (lambda d: rf.random_truncated_normal([d], mean=1.0, stddev=0.5), 0, 2, 1.0),
        (lambda d: rf.random([d], distribution="uniform", bound=2.0), -2, 2, 0.0),
        (lambda d: rf.random([d], distribution="bernoulli", mean=0.25), 0, 1, 0.25),
        (lambda d: rf.random_uniform([d], minval=0, maxval=3, dtype="int32"), 0, 2, 1.0),
    ],
)
@pytest.mark.parametrize("backend", ["numpy", "torch", "tf"])
def test_distributions(backend: str, make: Callable[[Dim], Any], low: float, high: float, mean: float) -> None:
    many = Dim(10_000, name="many")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session, rf.backend_ctx(backend):
        rf.set_random_seed(3)
        raw = make(many).raw_tensor
        value = session.run(raw) if backend == "tf" else _numpy_value(raw)
    assert value.min() >= low
    assert value.max() <= high
    assert abs(value.mean() - mean) < 0.05


def test_static_values_depend_on_the_seed_alone() -> None:
    for backend in ("numpy", "torch"):
        with rf.backend_ctx(backend):
            values = [
                _numpy_value(rf.random([dim], distribution="normal", static=True, seed=seed).raw_tensor).tolist()
                for seed in (1, 1, 2)
            ]
        assert values[0] == values[1]
        assert values[0] != values[2]
