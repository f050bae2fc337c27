"""Lengths, masks and sizes of dims are computed once, and where they are valid."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tensor.dim_rules import padded_dim, twin
from returnn.util.errors import DimError


def _lengths(raw: object) -> Tensor:
    return Tensor("lengths", [batch_dim], "int32", raw_tensor=raw)


def _new_time() -> Dim:
    return Dim(None, name="time", kind=Dim.Types.Spatial)


def test_eager_lengths_mask_and_size() -> None:
    time = _new_time()
    time.dyn_size_ext = _lengths(numpy.array([3, 1], "int32"))
    assert time.get_dim_value() == 3
    assert time.get_mask().raw_tensor.tolist() == [[True, True, True], [True, False, False]]
    assert time.get_mask() is time.get_mask()
    assert (time + 1).dyn_size.tolist() == [4, 2]
    assert (time + 1).dyn_size_ext is (time + 1).dyn_size_ext


def test_new_eager_lengths_replace_all_that_was_computed() -> None:
    time = _new_time()
    half = time // 2
    for lengths in ([4, 2], [8, 6, 2]):
        time.dyn_size_ext = _lengths(numpy.array(lengths, "int32"))
        assert time.get_dim_value() == max(lengths)
        assert time.get_mask().raw_tensor.sum() == sum(lengths)
        assert half.dyn_size.tolist() == [n // 2 for n in lengths]
        assert half.get_dim_value() == max(lengths) // 2


def test_torch_lengths_after_numpy_lengths() -> None:
    time = _new_time()
    time.dyn_size_ext = _lengths(numpy.array([3, 1], "int32"))
    assert isinstance(time.get_mask().raw_tensor, numpy.ndarray)
    time.dyn_size_ext = _lengths(torch.tensor([2, 5], dtype=torch.int32))
    assert time.get_dim_value() == 5
    assert isinstance(time.get_mask().raw_tensor, torch.Tensor)


def test_reset_forgets_values_and_keeps_their_dims() -> None:
    time = _new_time()
    time.dyn_size_ext = _lengths(numpy.array([3, 1], "int32"))
    time.get_mask()
    time.reset_raw()
    assert time.dyn_size_ext is not None
    assert time.dyn_size_ext.dims == (batch_dim,)
    assert time.dyn_size is None
    time.reset_batch_and_raw()
    assert time.dyn_size_ext is None


def test_two_graphs_have_their_own_lengths() -> None:
    time = _new_time()
    values = []
    for lengths in ([3, 1], [2, 7, 5]):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            assert time.dyn_size is None
            time.dyn_size_ext = _lengths(tf.constant(lengths))
            size, mask, double = session.run([time.get_dim_value(), time.get_mask().raw_tensor, (time * 2).dyn_size])
            values.append((int(size), int(mask.sum()), double.tolist()))
    assert values == [(3, 4, [6, 2]), (7, 14, [4, 14, 10])]
    assert time.dyn_size is None


def test_a_graph_computes_masks_once() -> None:
    time = _new_time()
    with tf.Graph().as_default() as graph:
        time.dyn_size_ext = _lengths(tf.compat.v1.placeholder(tf.int32, [None]))
        time.get_mask()
        half = time.ceildiv_right(2)
        half.get_mask()
        num_ops = len(graph.get_operations())
        time.get_mask()
        half.get_mask()
        time.ceildiv_right(2).get_mask()
        (time + 1) // 2
        assert len(graph.get_operations()) == num_ops


def test_a_loop_body_sees_the_lengths_outside_and_keeps_its_own() -> None:
    time, window = _new_time(), Dim(None, name="window")
    inside: list[object] = []
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        time.dyn_size_ext = _lengths(tf.constant([3, 1]))
        size = time.get_dim_value()

        def body(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            assert tf.compat.v1.get_default_graph() is not graph
            assert time.get_dim_value() is size
            window.dyn_size_ext = _lengths(time.dyn_size + i)
            inside.append(window.get_mask().raw_tensor)
            return i + 1, total + tf.reduce_sum(tf.cast(window.get_mask().raw_tensor, tf.int32))

        _, total = tf.while_loop(lambda i, _: i < 2, body, (tf.constant(0), tf.constant(0)))
        assert session.run(total) == (3 + 1) + (4 + 2)
        assert window.dyn_size is None  # what was made inside is not valid outside
        with pytest.raises(DimError, match="lengths are not known"):
            window.get_dim_value()
        assert inside


def test_branches_of_a_condition_keep_their_masks_apart() -> None:
    time = _new_time()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        time.dyn_size_ext = _lengths(tf.constant([3, 1]))
        pred = tf.compat.v1.placeholder(tf.bool, [])

        def count() -> tf.Tensor:
            return tf.reduce_sum(tf.cast(time.get_mask().raw_tensor, tf.int32))

        result = tf.cond(pred, count, lambda: count() * 10)
        after = count()
        assert session.run([result, after], {pred: True}) == [4, 4]
        assert session.run([result, after], {pred: False}) == [40, 4]


def test_lengths_of_equal_dims_are_shared() -> None:
    a, b = _new_time(), _new_time()
    a.declare_same_as(b)
    b.dyn_size_ext = _lengths(numpy.array([3, 1], "int32"))
    assert a.dyn_size_ext is b.dyn_size_ext
    assert a.get_mask() is b.get_mask()


def test_lengths_over_other_dims() -> None:
    chunks, time = Dim(2, name="chunks"), Dim(None, name="time")
    raw = numpy.array([[1, 2], [3, 1], [2, 2]], "int32")
    time.dyn_size_ext = Tensor("lengths", [batch_dim, chunks], "int32", raw_tensor=raw)
    mask = time.get_mask()
    assert mask.dims == (batch_dim, chunks, time)
    assert mask.raw_tensor.sum(axis=-1).tolist() == raw.tolist()
    assert time.get_mask(dim_order=[time, chunks]).dims == (time, chunks, batch_dim)


def test_capacity_is_the_size_in_memory() -> None:
    time = Dim(_lengths(numpy.array([3, 1], "int32")), name="time", capacity=5)
    assert time.get_dim_value() == 5
    assert time.need_masking()
    assert time.get_mask().raw_tensor.shape == (2, 5)
    bounded = Dim(None, name="bounded", bounded_by=Dim(7, name="seven"))
    assert bounded.get_dim_value() == 7


def test_size_in_memory_follows_from_that_of_the_dim_it_is_computed_from() -> None:
    time = Dim(_lengths(numpy.array([5, 1], "int32")), name="time")
    shorter = Dim(_lengths(numpy.array([3, 0], "int32")), name="shorter", bounded_by=time)
    assert shorter.get_dim_value() == 5
    assert shorter.get_mask().raw_tensor.shape == (2, 5)
    assert (shorter * 2 + 1).get_dim_value() == 11
    assert (shorter * 2 + 1).dyn_size_ext.raw_tensor.tolist() == [7, 1]
    assert (shorter - 6).get_dim_value() == 0
    assert padded_dim(shorter).get_dim_value() == twin(shorter).get_dim_value() == 5
    assert not padded_dim(shorter).need_masking()
    assert shorter.copy(same_as_self=False).get_dim_value() == 5
    assert not (time + 1).can_be_longer_in_memory()


def test_templates_of_lengths_are_enough_for_templates() -> None:
    time = Dim(Tensor("lengths", [batch_dim], "int32"), name="time")
    mask = time.get_mask()
    assert mask.raw_tensor is None
    assert mask.dims == (batch_dim, time)
    assert (time // 2 + 1).get_size_tensor().dims == (batch_dim,)
    assert not time.dyn_size_ext.raw_tensor


def test_static_dims_have_no_lengths() -> None:
    dim = Dim(5, name="five")
    assert dim.dyn_size_ext is None
    assert dim.get_size_tensor().raw_tensor == 5
    assert dim.get_size_tensor_or_int() == 5
    assert not dim.need_masking()
    with pytest.raises(DimError, match="'five' has the size 5, so it cannot have lengths too"):
        Dim(5, name="five", dyn_size_ext=_lengths(numpy.array([3], "int32")))
    with pytest.raises(DimError, match="the size -1 is negative"):
        Dim(-1, name="x")


def test_size_of_a_tensor_is_noted_on_the_raw_tensor() -> None:
    time = _new_time()
    raw = torch.tensor([3, 1], dtype=torch.int32)
    time.dyn_size_ext = _lengths(raw)
    assert time.set_tag_on_size_tensor(raw) is time
    other = Dim(None, name="other")
    assert other.set_tag_on_size_tensor(raw) is time
    assert other == time
    assert time.is_same_size_tensor(raw)


def test_range_over_a_dim_inside_a_loop() -> None:
    time = _new_time()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session, rf.backend_ctx("tf"):
        time.dyn_size_ext = _lengths(tf.constant([3, 1]))
        _, total = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, x: (i + 1, x + tf.reduce_sum(rf.range_over_dim(time).raw_tensor)),
            (tf.constant(0), tf.constant(0)),
        )
        assert session.run(total) == 9
