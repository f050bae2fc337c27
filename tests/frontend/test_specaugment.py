"""SpecAugment on all backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.config import Config, global_config_ctx
from returnn.tensor import Dim, Tensor
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import DimError

LENGTHS = numpy.array([50, 9, 1], "int32")
batch = Dim(3, name="batch", kind=Dim.Types.Batch)
feature = Dim(20, name="feature", kind=Dim.Types.Feature)
BACKENDS = ("numpy", "torch", "tf")


def _run(backend: str, function: Callable[[Tensor, Dim], Tensor], *, train: bool = True, step: int = 10_000) -> Any:
    """:return: (batch, time, feature), 1 where nothing was masked, NaN beyond the ends"""
    frames = numpy.arange(50)[None, :, None] < LENGTHS[:, None, None]
    value = numpy.broadcast_to(numpy.where(frames, 1.0, numpy.nan), (3, 50, 20)).astype("float32")
    make_raw = {"numpy": lambda v: v, "torch": torch.tensor, "tf": tf.constant}[backend]
    with tf.Graph().as_default(), rf.backend_ctx(backend):
        rf.set_random_seed(1)
        rf.init_train_step_run_ctx(train_flag=train, step=step)
        time = Dim(Tensor("lengths", [batch], "int32", raw_tensor=make_raw(LENGTHS)), name="time")
        x = Tensor("x", [batch, time, feature], "float32", raw_tensor=make_raw(value), feature_dim=feature)
        y = function(x, time)
        assert set(y.dims) == set(x.dims)
        assert y.feature_dim == feature
        raw = y.copy_compatible_to_dims_raw(x.dims)
        if backend == "tf":
            with tf.compat.v1.Session() as session:
                raw = session.run(raw)
    result = numpy.asarray(raw)
    assert set(numpy.unique(result[numpy.broadcast_to(frames, result.shape)])) <= {0.0, 1.0}
    return result


@pytest.fixture(autouse=True)
def own_run_ctx() -> Any:
    yield
    rf.reset_run_ctx()


@pytest.mark.parametrize("backend", BACKENDS)
def test_number_of_stretches(backend: str) -> None:
    def three_frames(x: Tensor, time: Dim) -> Tensor:
        return rf.audio.random_mask(
            x, mask_axis=time, broadcast_axis=feature, min_num=3, max_num=3, max_dims=1, mask_value=0.0
        )

    masked = _run(backend, three_frames) == 0
    assert (masked == masked[:, :, :1]).all(), "all features of a frame together"
    assert masked[:2, :, 0].sum(axis=1).tolist() == [3, 3]
    assert not (masked[0] == masked[1]).all(), "each sequence has its own"


@pytest.mark.parametrize("backend", BACKENDS)
def test_number_of_stretches_for_each_sequence(backend: str) -> None:
    def as_many_as(x: Tensor, time: Dim) -> Tensor:
        num = time.get_size_tensor() // 4
        return rf.audio.random_mask(
            x, mask_axis=time, broadcast_axis=feature, min_num=num, max_num=num, max_dims=1, max_num_bound=30
        )

    masked = _run(backend, as_many_as) == 0
    assert masked[:, :, 0].sum(axis=1).tolist() == [12, 2, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_stretch(backend: str) -> None:
    def from_five(x: Tensor, time: Dim) -> Tensor:
        begin = rf.full(dims=[batch], fill_value=5, dtype="int32")
        return rf.audio.mask(x, mask_axis=feature, pos=begin, max_amount=4)

    masked = _run(backend, from_five)[0, 0] == 0
    (where,) = masked.nonzero()
    assert where.min() == 5
    assert len(where) == where.max() - 4
    assert len(where) <= 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_specaugment_masks_more_in_later_steps(backend: str) -> None:
    def augmented(x: Tensor, time: Dim) -> Tensor:
        return rf.audio.specaugment(x, spatial_dim=time, max_consecutive_spatial_dims=2, steps=(10, 1000, 2000))

    masked = [_run(backend, augmented, step=step)[0] == 0 for step in (9, 10, 3000)]
    assert not masked[0].any(), "nothing before the first step"
    frames, features = masked[2].all(axis=1), masked[2].all(axis=0)
    assert 2 <= frames.sum() <= 2 * 4 * 2, "at least 2 stretches, at most 4 * 2, each of at most 2 frames"
    assert 2 <= features.sum() <= 5 * 4
    assert (masked[2] == (frames[:, None] | features[None])).all()
    assert masked[1].all(axis=1).sum() <= 2 * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_in_training(backend: str) -> None:
    for only_on_train in (True, False):
        option = {"only_on_train": only_on_train, "global_train_step_dependent": False}
        y = _run(backend, lambda x, time, o=option: rf.audio.specaugment(x, spatial_dim=time, **o), train=False)
        assert (y == 0).any() != only_on_train


def test_training_or_not_is_decided_when_the_graph_runs() -> None:
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
        flag = Tensor("flag", [], "bool", raw_tensor=tf.compat.v1.placeholder(tf.bool, []))
        rf.init_train_step_run_ctx(train_flag=flag, step=5000)
        time = Dim(10, name="time")
        y = rf.audio.specaugment(rf.ones([batch, time, feature]), spatial_dim=time, feature_dim=feature)
        results = [session.run(y.raw_tensor, {flag.raw_tensor: value}) for value in (True, False)]
    assert [bool((result == 0).any()) for result in results] == [True, False]


def test_template() -> None:
    time = Dim(Tensor("lengths", [batch], "int32"), name="time")
    x = Tensor("x", [batch, time, feature], "float32", feature_dim=feature)
    with rf.backend_ctx("template"):
        y = rf.audio.specaugment(x, spatial_dim=time, only_on_train=False)
    assert (set(y.dims), y.feature_dim, y.raw_tensor) == (set(x.dims), feature, None)


def test_features_are_needed() -> None:
    time = Dim(5, name="time")
    with pytest.raises(DimError) as info:
        rf.audio.specaugment(Tensor("x", [time], "float32"), spatial_dim=time)
    assert str(info.value) == "specaugment: 'x' [time(5)] needs a feature_dim of fixed size, got None."


@pytest.mark.parametrize(("version", "per_seq"), [(None, False), (25, False), (30, True)])
def test_behavior_version_decides_whether_the_number_of_stretches_is_that_of_each_sequence(
    version: int | None, per_seq: bool
) -> None:
    if version is not None:
        BehaviorVersion.set(version)
    by_version, given = (
        _run(
            "numpy",
            lambda x, time, o=o: rf.audio.specaugment(
                x, spatial_dim=time, num_spatial_mask_factor=1, num_masks_per_seq=o
            ),
        )
        for o in (None, per_seq)
    )
    numpy.testing.assert_array_equal(by_version, given)


@pytest.mark.parametrize("per_seq", [False, True])
def test_config_decides_whether_the_number_of_stretches_is_that_of_each_sequence(per_seq: bool) -> None:
    def augmented(x: Tensor, time: Dim, *, num_masks_per_seq: bool | None = None) -> Tensor:
        return rf.audio.specaugment(x, spatial_dim=time, num_spatial_mask_factor=1, num_masks_per_seq=num_masks_per_seq)

    with global_config_ctx(Config({"rf_specaugment_num_masks_per_seq": per_seq})):
        by_config = _run("numpy", augmented)
    given = [
        _run("numpy", lambda x, time, o=o: augmented(x, time, num_masks_per_seq=o)) for o in (per_seq, not per_seq)
    ]
    numpy.testing.assert_array_equal(by_config, given[0])
    assert not numpy.array_equal(by_config, given[1], equal_nan=True)
