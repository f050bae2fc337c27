"""Loops, conditions and masked computation by their classes, against what the frontend computes otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.frontend.assert_ import assert_
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.frontend_layers import Cond, Layer, Loop, MaskedComputation, register_extern_data
from returnn.tf.network import ExternData, TFNetwork
from returnn.util.errors import DimError

tf1 = tf.compat.v1
FEATURE = Dim(2, name="feature", kind=Dim.Types.Feature)
X = numpy.random.RandomState(1).normal(size=(2, 3, 2)).astype("float32")
LENGTHS = numpy.array([3, 2], "int32")


def compute(function: Callable[[Tensor, Dim], Tensor]) -> numpy.ndarray:
    """:return: value of the function, recorded, on X [B, T, F]; the dims in this order"""
    time = Dim(None, name="time", kind=Dim.Types.Spatial)
    with rf.backend_ctx("returnn_layers_tf"), Layer.new_root() as root:
        x = register_extern_data(Tensor("data", [batch_dim, time, FEATURE], "float32", feature_dim=FEATURE))
        root.make_default_output(function(x, time))
        net_dict = root.make_net().make_net_dict_raw()
    with tf.Graph().as_default(), tf1.Session() as session, rf.backend_ctx("tf"):
        batch_dim.reset_raw()
        extern_data = ExternData()
        extern_data.data["data"] = x.copy_template()
        extern_data.create_placeholders()
        network = TFNetwork(config=Config({"behavior_version": 24}), extern_data=extern_data, train_flag=False)
        network.construct_from_dict(net_dict)
        output = network.get_default_output_layer().output
        order = [dim for dim in (batch_dim, time, FEATURE) if dim in output.dims]
        feed = {extern_data.data["data"].raw_tensor: X, time.dyn_size: LENGTHS}
        if batch_dim.dyn_size.op.type.startswith("Placeholder"):
            feed[batch_dim.dyn_size] = 2
        return session.run(output.copy_transpose(order).raw_tensor, feed)


@pytest.mark.parametrize(("limit", "is_fine"), [(100.0, True), (0.0, False)], ids=["holds", "fails"])
def test_assertion_is_checked_in_each_step(limit: float, is_fine: bool) -> None:
    with rf.backend_ctx("returnn_layers_tf"), Layer.new_root() as root:
        x = register_extern_data(Tensor("data", [batch_dim, FEATURE], "float32", feature_dim=FEATURE))
        assert_(x < limit, "too large")
        root.make_default_output(x)
        net_dict = root.make_net().make_net_dict_raw()
    with tf.Graph().as_default(), tf1.Session() as session, rf.backend_ctx("tf"):
        batch_dim.reset_raw()
        extern_data = ExternData()
        extern_data.data["data"] = x.copy_template()
        extern_data.create_placeholders()
        network = TFNetwork(config=Config({"behavior_version": 24}), extern_data=extern_data, train_flag=False)
        network.construct_from_dict(net_dict)
        feed = {extern_data.data["data"].raw_tensor: X[0], batch_dim.dyn_size: 3}
        checks = network.get_post_control_dependencies()
        with contextlib.nullcontext() if is_fine else pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
            session.run(checks, feed)


def test_loop_gives_all_frames_and_the_last_one() -> None:
    def function(x: Tensor, time: Dim) -> Tensor:
        loop = Loop()
        loop.state = rf.State(total=rf.zeros([batch_dim, FEATURE]))
        with loop:
            loop.state.total = loop.state.total + loop.unstack(x)
            frames = loop.stack(loop.state.total)
        return rf.combine_bc(frames, "+", loop.last(loop.state.total))

    got = compute(function)
    total = numpy.cumsum(X, axis=1)
    last = numpy.stack([total[0, 2], total[1, 1]])[:, None]
    numpy.testing.assert_allclose(got[0], (total + last)[0], rtol=1e-5)
    numpy.testing.assert_allclose(got[1, :2], (total + last)[1, :2], rtol=1e-5)


def test_loop_ends_by_a_layer() -> None:
    def function(x: Tensor, time: Dim) -> Tensor:
        loop = Loop(max_seq_len=10)
        loop.state.value = rf.reduce_sum(x * 0.0 + 1.0, axis=time, use_mask=False)
        with loop:
            loop.state.value = loop.state.value * 2.0
            loop.end(rf.reduce_max(loop.state.value, axis=FEATURE) > 20.0, include_eos=True)
        return loop.last(loop.state.value)

    numpy.testing.assert_allclose(compute(function), numpy.full([2, 2], 24.0))


def test_a_raw_tensor_is_no_condition() -> None:
    with rf.backend_ctx("returnn_layers_tf"), Layer.new_root():
        x = register_extern_data(Tensor("data", [batch_dim, FEATURE], "float32", feature_dim=FEATURE))
        with pytest.raises(DimError, match=r"cannot be used as True or False.*\n.* see rf\.where, rf\.cond and"):
            bool(rf.reduce_all(x > 0.0, axis=x.dims).raw_tensor)


def test_condition_takes_one_branch() -> None:
    def function(x: Tensor, time: Dim) -> Tensor:
        with Cond(rf.reduce_max(time.get_size_tensor(), axis=batch_dim) > 2) as cond:
            cond.true = {"a": x * 2.0, "b": rf.exp(x)}
            cond.false = {"a": x, "b": x}
        return cond.result["a"] + cond.result["b"]

    numpy.testing.assert_allclose(compute(function), X * 2 + numpy.exp(X), rtol=1e-5)


def test_a_dim_is_the_same_in_both_branches() -> None:
    def function(x: Tensor, time: Dim) -> Tensor:
        is_long = rf.reduce_max(time.get_size_tensor(), axis=batch_dim) > 2
        chosen = rf.cond(is_long, lambda: rf.State(dim=time, x=x * 2.0), lambda: rf.State(dim=time, x=x + 1.0))
        assert chosen.dim is time
        return rf.reduce_sum(chosen.x, axis=chosen.dim, use_mask=False)

    numpy.testing.assert_allclose(compute(function), X.sum(axis=1) * 2, rtol=1e-5)


def test_masked_computation_keeps_the_last_frame_that_is_not_masked() -> None:
    def function(x: Tensor, time: Dim) -> Tensor:
        loop = Loop()
        loop.state.total = rf.zeros([batch_dim, FEATURE])
        with loop:
            frame = loop.unstack(x)
            with MaskedComputation(rf.gather(frame, indices=0, axis=FEATURE) > 0) as masked:
                y = rf.tanh(frame)
            loop.state.total = masked.result(y) + 0.0
            return loop.stack(loop.state.total)

    expected = numpy.zeros_like(X)
    last = numpy.zeros([2, 2], "float32")
    for t in range(3):
        last = numpy.where(X[:, t, :1] > 0, numpy.tanh(X[:, t]), last)
        expected[:, t] = last
    got = compute(function)
    numpy.testing.assert_allclose(got[0], expected[0], rtol=1e-5)
    numpy.testing.assert_allclose(got[1, :2], expected[1, :2], rtol=1e-5)
