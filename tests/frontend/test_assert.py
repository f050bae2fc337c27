"""Assertions on values."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.frontend.assert_ import assert_
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import DtypeError

VALUES = numpy.array([[1.0, 2.0], [3.0, -1.0]], "float32")


def _value(make_raw: object, lengths: list[int]) -> Tensor:
    batch = Dim(2, name="batch", kind=Dim.Types.Batch)
    raw_lengths = make_raw(numpy.array(lengths, "int32"))  # type: ignore[operator]
    time = Dim(Tensor("lengths", [batch], "int32", raw_tensor=raw_lengths), name="time")
    return Tensor("x", [batch, time], "float32", raw_tensor=make_raw(VALUES))  # type: ignore[operator]


@pytest.mark.parametrize("make_raw", [numpy.asarray, torch.tensor])
def test_eager(make_raw: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert_(_value(make_raw, [2, 1]) > 0, "padded frames do not count")
    wrong = _value(make_raw, [2, 2]) > 0
    with pytest.raises(AssertionError, match="not positive"):
        assert_(wrong, "not positive")
    assert_(wrong, "only a note", stop=False)
    assert "only a note" in "".join(capsys.readouterr())


def test_in_a_graph() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session, rf.backend_ctx("tf"):
        lengths = tf.compat.v1.placeholder(tf.int32, [2])
        x = _value(lambda value: lengths if value.dtype == "int32" else tf.constant(value), [2, 2])
        assert_(x > 0, "not positive")
        checks = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        session.run(checks, {lengths: [2, 1]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="not positive"):
            session.run(checks, {lengths: [2, 2]})


def test_note_in_a_graph(capfd: pytest.CaptureFixture[str]) -> None:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session, rf.backend_ctx("tf"):
        x = Tensor("x", (), "int32", raw_tensor=tf.compat.v1.placeholder(tf.int32, []))
        assert_(x < 10, "quite large", stop=False)
        effects = graph.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        session.run(effects, {x.raw_tensor: 5})
        assert "quite large" not in capfd.readouterr().err
        session.run(effects, {x.raw_tensor: 11})
        assert "Assertion failed: quite large" in capfd.readouterr().err


def test_templates_have_nothing_to_check() -> None:
    assert_(Tensor("x", [batch_dim], "bool"), "nothing is known")


def test_python_values_and_wrong_dtypes() -> None:
    assert_(True, "fine")
    with rf.backend_ctx("numpy"), pytest.raises(AssertionError, match="wrong"):
        assert_(False, "wrong")
    with pytest.raises(DtypeError, match=r"assert_: 'x' \[B\] should be bool"):
        assert_(Tensor("x", [batch_dim], "float32"), "message")
