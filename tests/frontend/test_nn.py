"""Numbers of neural network operations, against PyTorch's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import tensorflow as tf
import torch
from torch.nn import functional

import returnn.frontend as rf
from returnn.config import Config
from returnn.config.current import replace_current_config
from returnn.tensor import Dim, Tensor
from returnn.torch.frontend import native
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import UserError

batch, time, feature = Dim(2, name="batch"), Dim(9, name="time"), Dim(4, name="feature")


@pytest.fixture(autouse=True)
def _torch_backend() -> Iterator[None]:
    with rf.backend_ctx("torch"):
        yield


def random(*sizes: int, seed: int = 1) -> torch.Tensor:
    return torch.tensor(numpy.random.RandomState(seed).normal(size=sizes).astype("float32"))


def tensor(raw: torch.Tensor, *dims: Dim, **options: Any) -> Tensor:
    return Tensor("x", dims, str(raw.dtype).removeprefix("torch."), raw_tensor=raw, **options)


def assert_equal(got: Tensor, expected: torch.Tensor, *dims: Dim) -> None:
    raw = got.copy_compatible_to_dims_raw(dims or got.dims)
    torch.testing.assert_close(raw, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"padding": 1}, {"strides": 2, "padding": 2}, {"dilation_rate": 2, "padding": 0}, {"groups": 2, "padding": 0}],
    ids=str,
)
def test_conv(options: dict[str, Any]) -> None:
    options = dict(options)
    size, out = Dim(3, name="size"), Dim(6, name="out")
    group = Dim(4 // options.get("groups", 1), name="group")
    x, weights, bias = random(2, 4, 9), random(6, group.size, 3), random(6)
    got, (out_time,) = rf.conv(
        tensor(x, batch, feature, time), in_dim=feature, out_dim=out, in_spatial_dims=[time], filter_size=[size],
        filter=tensor(weights, out, group, size), bias=tensor(bias, out), **options,
    )  # fmt: skip
    names = {"strides": "stride", "dilation_rate": "dilation"}
    expected = functional.conv1d(x, weights, bias, **{names.get(k, k): v for k, v in options.items()})
    assert_equal(got, expected, batch, out, out_time)


def test_conv_over_two_dims() -> None:
    sizes, out, height = [Dim(3, name="a"), Dim(2, name="b")], Dim(6, name="out"), Dim(5, name="height")
    x, weights = random(2, 4, 9, 5), random(6, 4, 3, 2)
    got, out_dims = rf.conv(
        tensor(x, batch, feature, time, height), in_dim=feature, out_dim=out, in_spatial_dims=[time, height],
        filter_size=sizes, filter=tensor(weights, out, feature, *sizes), padding="valid", strides=[2, 1],
    )  # fmt: skip
    assert_equal(got, functional.conv2d(x, weights, stride=(2, 1)), batch, out, *out_dims)


@pytest.mark.parametrize("output_padding", [0, 1])
def test_transposed_conv(output_padding: int) -> None:
    size, out = Dim(3, name="size"), Dim(6, name="out")
    x, weights = random(2, 4, 9), random(4, 6, 3)
    got, (out_time,) = rf.transposed_conv(
        tensor(x, batch, feature, time), in_dim=feature, out_dim=out, in_spatial_dims=[time], filter_size=[size],
        filter=tensor(weights, feature, out, size), padding=1, strides=2, output_padding=output_padding,
    )  # fmt: skip
    expected = functional.conv_transpose1d(x, weights, stride=2, padding=1, output_padding=output_padding)
    assert_equal(got, expected, batch, out, out_time)


def test_pool() -> None:
    x = random(2, 4, 9)
    options = {"pool_size": 3, "strides": 2, "in_spatial_dim": time}
    got, out_time = rf.max_pool1d(tensor(x, batch, feature, time), **options, dilation_rate=2)
    assert_equal(got, functional.max_pool1d(x, 3, stride=2, dilation=2), batch, feature, out_time)
    got, out_time = rf.pool1d(tensor(x, batch, feature, time), mode="avg", padding=1, **options)
    expected = functional.avg_pool1d(x, 3, stride=2, padding=1, count_include_pad=False)
    assert_equal(got, expected, batch, feature, out_time)


def test_same_padding_moves_with_the_batch_only_if_the_config_says_so() -> None:
    lengths = torch.tensor([3, 4], dtype=torch.int32)
    dynamic = Dim(Tensor("lengths", [batch], "int32", raw_tensor=lengths), name="time")
    alone = Dim(3, name="alone")
    size, out = Dim(3, name="size"), Dim(1, name="out")
    x, weights = random(2, 4, 4), tensor(random(1, 4, 3), out, feature, size)
    options = {
        "in_dim": feature,
        "out_dim": out,
        "filter": weights,
        "filter_size": [size],
        "padding": "same",
        "strides": 2,
    }

    def first_sequence_alone_and_in_batch() -> tuple[Any, Any]:
        a, _ = rf.conv(tensor(x[0, :, :3], feature, alone), in_spatial_dims=[alone], **options)
        b, (b_time,) = rf.conv(tensor(x, batch, feature, dynamic), in_spatial_dims=[dynamic], **options)
        return a.raw_tensor[:2], b.copy_compatible_to_dims_raw([batch, b_time, out])[0, :2]

    for version, option, is_same in ((23, None, False), (24, None, True), (23, True, True), (24, False, False)):
        BehaviorVersion.reset()
        BehaviorVersion.set(version)
        before = replace_current_config(Config({"rf_use_consistent_same_padding": option}))
        try:
            a, b = first_sequence_alone_and_in_batch()
        finally:
            replace_current_config(before)
        assert torch.allclose(a, b) == is_same


def test_batch_norm_in_training_moves_the_running_values() -> None:
    x = random(2, 9, 4)
    mean, variance = rf.Parameter([feature], auxiliary=True), rf.Parameter([feature], auxiliary=True)
    mean.initial, variance.initial = 0.0, 1.0
    rf.init_train_step_run_ctx(train_flag=True)
    try:
        got = rf.get_backend_by_tensor(tensor(x, batch, time, feature)).batch_norm(
            tensor(x, batch, time, feature), in_dim=feature, running_mean=mean, running_variance=variance, gamma=None,
            beta=None, epsilon=1e-3, momentum=0.1, affine=False, use_mask=True,
        )  # fmt: skip
    finally:
        rf.init_forward_step_run_ctx()
    expected_mean, expected_variance = torch.zeros(4), torch.ones(4)
    expected = functional.batch_norm(
        x.reshape(-1, 4), expected_mean, expected_variance, training=True, momentum=0.1, eps=1e-3
    )
    assert_equal(got, expected.reshape(x.shape), batch, time, feature)
    assert_equal(mean, expected_mean)
    assert_equal(variance, expected_variance)


def test_batch_norm_in_a_graph_depends_on_the_train_flag() -> None:
    x = random(2, 9, 4).numpy()
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
        mean, variance = rf.Parameter([feature], auxiliary=True), rf.Parameter([feature], auxiliary=True)
        mean.initial, variance.initial = 0.0, 1.0
        flag = tf.compat.v1.placeholder(tf.bool, ())
        rf.init_train_step_run_ctx(train_flag=Tensor("flag", (), "bool", raw_tensor=flag))
        try:
            source = Tensor("x", [batch, time, feature], "float32", raw_tensor=tf.constant(x))
            got = rf.get_backend_by_tensor(source).batch_norm(
                source, in_dim=feature, running_mean=mean, running_variance=variance, gamma=None, beta=None,
                epsilon=0.0, momentum=0.5, affine=False, use_mask=True,
            )  # fmt: skip
            new_mean = mean.copy().raw_tensor
        finally:
            rf.init_forward_step_run_ctx()
        session.run(tf.compat.v1.global_variables_initializer())
        same, unmoved = session.run((got.raw_tensor, new_mean), {flag: False})
        numpy.testing.assert_allclose(same, x, rtol=1e-5)
        numpy.testing.assert_array_equal(unmoved, 0)
        normalized, moved = session.run((got.raw_tensor, new_mean), {flag: True})
        numpy.testing.assert_allclose(normalized.mean((0, 1)), 0, atol=1e-5)
        numpy.testing.assert_allclose(moved, x.mean((0, 1)) / 2, rtol=1e-4, atol=1e-6)


def test_ctc_loss_of_the_lattice_equals_that_of_torch() -> None:
    """Normalized logits are computed by our own lattice, also with PyTorch."""
    labels_time, labels = Dim(3, name="labels-time"), Dim(3, name="labels")
    log_probs = torch.log_softmax(random(2, 9, 4), -1)
    targets = torch.tensor([[0, 0, 2], [1, 2, 1]], dtype=torch.int32)
    got = rf.ctc_loss(
        logits=tensor(log_probs, batch, time, feature, feature_dim=feature), logits_normalized=True,
        targets=tensor(targets, batch, labels_time, sparse_dim=labels), input_spatial_dim=time,
        targets_spatial_dim=labels_time, blank_index=3,
    )  # fmt: skip
    lengths = torch.tensor([9, 9]), torch.tensor([3, 3])
    expected = functional.ctc_loss(log_probs.transpose(0, 1), targets.long(), *lengths, blank=3, reduction="none")
    assert_equal(got, expected)


def test_best_path_has_the_score_of_the_maximum_approximation_and_its_durations_sum_up() -> None:
    labels_time, labels = Dim(3, name="labels-time"), Dim(3, name="labels")
    logits = tensor(random(2, 9, 4), batch, time, feature, feature_dim=feature)
    targets = tensor(torch.tensor([[0, 0, 2], [1, 2, 1]], dtype=torch.int32), batch, labels_time, sparse_dim=labels)
    options: dict[str, Any] = {
        "logits": logits, "targets": targets, "input_spatial_dim": time, "targets_spatial_dim": labels_time,
        "blank_index": 3,
    }  # fmt: skip
    path = rf.ctc_best_path(**options)
    score = rf.reduce_sum(rf.gather(rf.log_softmax(logits, axis=feature), indices=path, axis=feature), axis=time)
    assert_equal(rf.ctc_loss(**options, max_approx=True), -score.raw_tensor)
    durations, states = rf.ctc_durations_from_path(
        path=path, path_spatial_dim=time, blank_index=3, targets_spatial_dim=labels_time
    )
    assert states.size == 7
    assert durations.raw_tensor.sum(-1).tolist() == [9, 9]
    assert (durations.raw_tensor[:, 1::2] > 0).all()


def test_sequence_without_alignment_has_infinite_loss_and_no_gradient() -> None:
    labels_time, labels, short = Dim(3, name="labels-time"), Dim(3, name="labels"), Dim(3, name="short")
    for normalized in (False, True):
        raw = random(1, 3, 4).requires_grad_()
        loss = rf.ctc_loss(
            logits=tensor(raw, Dim(1, name="one"), short, feature, feature_dim=feature), logits_normalized=normalized,
            targets=tensor(torch.tensor([0, 0, 1], dtype=torch.int32), labels_time, sparse_dim=labels),
            input_spatial_dim=short, targets_spatial_dim=labels_time, blank_index=3,
        )  # fmt: skip
        assert torch.isinf(loss.raw_tensor).all()
        (gradient,) = torch.autograd.grad(loss.raw_tensor.sum(), raw)
        assert not gradient.any()


def test_greedy_decoding_merges_repeated_labels_and_leaves_out_blanks() -> None:
    path = torch.tensor([0, 0, 3, 0, 1, 1, 3, 3, 2])
    decoded, _ = rf.ctc_greedy_decode(
        tensor(functional.one_hot(path, 4).float()[None], Dim(1, name="one"), time, feature),
        in_spatial_dim=time, blank_index=3, wb_target_dim=feature,
    )  # fmt: skip
    assert decoded.raw_tensor.flatten().tolist() == [0, 0, 1, 2]


def test_edit_distance() -> None:
    def distance(a: list[int], b: list[int]) -> int:
        dims = Dim(len(a), name="a"), Dim(len(b), name="b")
        raws = [torch.tensor(x, dtype=torch.int32) for x in (a, b)]
        return int(rf.edit_distance(tensor(raws[0], dims[0]), dims[0], tensor(raws[1], dims[1]), dims[1]).raw_tensor)

    assert distance([1, 2, 3], [1, 2, 3]) == 0
    assert distance([1, 2, 3], []) == 3
    assert distance([1, 2, 3], [2, 3, 4]) == 2
    assert distance([1, 1], [2, 2, 2]) == 3


def test_stft_as_torch_and_as_tensorflow_do_it() -> None:
    samples = Dim(50, name="samples")
    x = random(2, 50)
    options = {"in_spatial_dim": samples, "frame_step": 3, "frame_length": 5, "fft_length": 8}
    got, frames, freq = rf.stft(
        tensor(x, batch, samples), **options, align_window_left=False, window_enforce_even=False
    )
    expected = torch.stft(
        x, 8, hop_length=3, win_length=5, window=torch.hann_window(5), center=False, return_complex=True
    )
    assert_equal(got, expected, batch, freq, frames)
    got, frames, freq = rf.stft(tensor(x, batch, samples), **options)
    expected = tf.signal.stft(x.numpy(), frame_length=5, frame_step=3, fft_length=8).numpy()
    assert_equal(got, torch.tensor(expected), batch, frames, freq)


def test_lstm_has_the_weights_of_torch() -> None:
    out = Dim(3, name="out")
    lstm = torch.nn.LSTM(4, 3, batch_first=True)
    torch.nn.init.zeros_(lstm.bias_hh_l0)
    x, h, c = random(2, 9, 4), random(2, 3), random(2, 3, seed=2)
    expected, (expected_h, expected_c) = lstm(x, (h[None], c[None]))
    got, (got_h, got_c) = rf.get_backend_by_tensor(tensor(x, batch, time, feature)).lstm(
        tensor(x, batch, time, feature), state_h=tensor(h, batch, out), state_c=tensor(c, batch, out),
        ff_weight=tensor(lstm.weight_ih_l0, 4 * out, feature), rec_weight=tensor(lstm.weight_hh_l0, 4 * out, out),
        bias=tensor(lstm.bias_ih_l0, 4 * out), spatial_dim=time, in_dim=feature, out_dim=out,
    )  # fmt: skip
    assert_equal(got, expected, batch, time, out)
    assert_equal(got_h, expected_h[0], batch, out)
    assert_equal(got_c, expected_c[0], batch, out)


def test_smoothed_gradient_is_that_of_the_smoothed_labels() -> None:
    log_probs = random(5, 4).requires_grad_()
    rows, labels = Dim(5, name="rows"), torch.tensor([0, 1, 2, 3, 1], dtype=torch.int32)
    target = tensor(labels, rows, sparse_dim=feature)
    smoothed = rf.label_smoothed_log_prob_gradient(tensor(log_probs, rows, feature), 0.2, axis=feature)
    loss = rf.cross_entropy(estimated=smoothed, target=target, axis=feature, estimated_type="log-probs")
    (got,) = torch.autograd.grad(loss.raw_tensor.sum(), log_probs)
    torch.testing.assert_close(-got, rf.label_smoothing(target, 0.2).copy_compatible_to_dims_raw([rows, feature]))
    expected = functional.one_hot(labels.long(), 4) * (1 - 0.2 * 4 / 3) + 0.2 / 3
    torch.testing.assert_close(-got, expected)


def test_smoothed_gradient_leaves_excluded_labels_alone() -> None:
    log_probs = torch.zeros(1, 4, requires_grad=True)
    one = Dim(1, name="one")
    smoothed = rf.label_smoothed_log_prob_gradient(
        tensor(log_probs, one, feature), 0.2, axis=feature, exclude_labels=[3]
    )
    (got,) = torch.autograd.grad((smoothed.raw_tensor * torch.tensor([-0.5, 0, 0, -0.5])).sum(), log_probs)
    torch.testing.assert_close(-got, torch.tensor([[0.4, 0.05, 0.05, 0.5]]))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_linear_to_the_same_features(is_sparse: bool) -> None:
    linear = rf.Linear(feature, feature, with_bias=False)
    weights = linear.weight.raw_tensor.detach()
    if is_sparse:
        labels = torch.tensor([2, 0])
        got = linear(tensor(labels, batch, sparse_dim=feature))
        expected = weights[labels]
    else:
        x = random(2, 4)
        got = linear(tensor(x, batch, feature))
        expected = x @ weights
    assert got.dims[1] == feature
    assert got.dims[1].match_priority == 0
    assert_equal(got, expected, batch, feature)


def test_matmul_sums_over_the_dim_of_higher_priority() -> None:
    weights, x = random(4, 4), random(2, 4)
    own = rf.dim_match_priority_when_needed(feature, feature)
    got = rf.matmul(tensor(x, batch, feature), tensor(weights, own, feature), reduce=feature)
    assert_equal(got, x @ weights, batch, feature)


@pytest.mark.parametrize("max_approx", [False, True])
def test_ctc_by_native_operation_or_by_others(monkeypatch: pytest.MonkeyPatch, max_approx: bool) -> None:
    labels_time, labels = Dim(2, name="labels-time"), Dim(3, name="labels")
    options = {
        "logits": tensor(random(2, 9, 4), batch, time, feature, feature_dim=feature),
        "targets": tensor(torch.tensor([[0, 1], [2, 2]]), batch, labels_time, sparse_dim=labels),
        "input_spatial_dim": time, "targets_spatial_dim": labels_time, "blank_index": 3, "max_approx": max_approx,
    }  # fmt: skip
    expected = rf.ctc_loss(**options, use_native_op=False).raw_tensor
    if native.get_operations() is not None:
        torch.testing.assert_close(rf.ctc_loss(**options, use_native_op=True).raw_tensor, expected)
    monkeypatch.setenv("RETURNN_NATIVE", "0")
    torch.testing.assert_close(rf.ctc_loss(**options).raw_tensor, expected)
    with pytest.raises(
        UserError, match=r"^ctc_loss: there is no native operation for 'x' .*\. Leave use_native_op at None\.$"
    ):
        rf.ctc_loss(**options, use_native_op=True)
