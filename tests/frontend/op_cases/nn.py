"""Neural network operations: convolution, pooling, normalization, CTC, signal processing, recurrence, attention."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.frontend._backend import get_backend_of
from returnn.tensor import Dim, Tensor, single_step_dim
from tests.frontend.op_case import Inputs, op_case

_PADDINGS = ["same", "valid", "same_static", 1]


def _spatial_dims(inputs: Inputs, number: int) -> list[Dim]:
    """:return: one of them has sequences of different lengths"""
    dims = [inputs.dynamic("time", high=7)]
    return dims + [inputs.static("axis", low=3, high=5) for _ in range(number - 1)]


def _filter(inputs: Inputs, sizes: list[Dim], in_dim: Dim, out_dim: Dim) -> Tensor:
    return inputs.floats([*sizes, in_dim, out_dim])


def _conv(inputs: Inputs, number: int, **options: Any) -> Any:
    spatial, feature, out = _spatial_dims(inputs, number), inputs.static("feature"), inputs.static("feature-out")
    sizes = [inputs.static("filter-size", low=1, high=3) for _ in spatial]
    x = inputs.floats([inputs.batch, *spatial, feature])
    return rf.conv(
        x,
        in_dim=feature,
        out_dim=out,
        in_spatial_dims=spatial,
        filter=_filter(inputs, sizes, feature, out),
        filter_size=sizes,
        **options,
    )


@op_case("conv")
def conv1d(inputs: Inputs) -> Any:
    return [_conv(inputs, 1, padding=inputs.choice(_PADDINGS)) for _ in range(2)]


@op_case("conv")
def conv1d_with_strides(inputs: Inputs) -> Any:
    return _conv(inputs, 1, padding=inputs.choice(_PADDINGS), strides=inputs.number(2, 3))


@op_case("conv")
def conv1d_with_dilation(inputs: Inputs) -> Any:
    return _conv(inputs, 1, padding=inputs.choice(_PADDINGS), strides=inputs.number(1, 2), dilation_rate=2)


@op_case("conv", per_sequence=False)
def conv1d_with_dynamic_padding(inputs: Inputs) -> Any:
    return _conv(inputs, 1, padding="same_dynamic", strides=2, dilation_rate=inputs.number(1, 2))


@op_case("conv")
def conv2d(inputs: Inputs) -> Any:
    return _conv(inputs, 2, padding=inputs.choice(_PADDINGS), strides=[inputs.number(1, 2), inputs.number(1, 2)])


@op_case("conv", "pool", "transposed_conv")
def given_out_dims(inputs: Inputs) -> Any:
    """And the computed ones are the same as those which come out."""
    time, feature, out, size = inputs.dynamic("time"), inputs.static("feature"), inputs.static("out"), 3
    x, filter_dim = inputs.floats([inputs.batch, time, feature]), inputs.static("filter-size", size)
    options = {
        "in_dim": feature, "out_dim": out, "in_spatial_dims": [time], "filter_size": [filter_dim],
        "filter": _filter(inputs, [filter_dim], feature, out), "strides": 2, "padding": "valid",
    }  # fmt: skip
    a, (a_dim,) = rf.conv(x, out_spatial_dims=[inputs.new_dim()], **options)
    b, (b_dim,) = rf.transposed_conv(x, out_spatial_dims=[inputs.new_dim()], **options)
    c, c_dim = rf.pool1d(
        x, mode="avg", pool_size=size, strides=2, in_spatial_dim=time, out_spatial_dim=inputs.new_dim()
    )
    d, d_dim = rf.max_pool1d(x, pool_size=size, strides=2, in_spatial_dim=time, padding="same")
    sizes = {"filter_size": size, "padding": "valid"}
    assert rf.make_conv_out_spatial_dims([time], strides=2, **sizes) == [a_dim] == [c_dim]
    assert rf.make_transposed_conv_out_spatial_dims([time], strides=2, **sizes) == [b_dim]
    assert rf.calc_conv_out_length(time, stride=2, filter_size=size, padding="same") == d_dim
    lengths = time.get_size_tensor()
    return [
        a, b, c, d,
        rf.calc_conv_out_length(lengths, stride=2, **sizes) - a_dim.get_size_tensor(),
        rf.calc_transposed_conv_out_length(lengths, stride=2, **sizes) - b_dim.get_size_tensor(),
    ]  # fmt: skip


@op_case("conv")
def conv3d(inputs: Inputs) -> Any:
    return _conv(inputs, 3, padding=inputs.choice(_PADDINGS))


@op_case("conv")
def conv_with_several_batch_dims_or_none(inputs: Inputs) -> Any:
    feature, size = inputs.static("feature"), inputs.static("filter-size", 3)
    more, time = inputs.static("more"), inputs.static("time", 5)
    out = inputs.static("feature-out")
    options = {
        "in_dim": feature, "out_dim": out, "filter_size": [size], "padding": "same",
        "filter": inputs.floats([size, feature, out]),
    }  # fmt: skip
    bias = inputs.floats([out])
    return [
        rf.conv(inputs.floats([time, feature]), in_spatial_dims=[time], bias=bias, **options),
        rf.conv(inputs.floats([inputs.batch, time, more, feature]), in_spatial_dims=[time], **options),
        rf.conv(inputs.floats([inputs.batch, time, more, feature]), in_spatial_dims=[more], bias=bias, **options),
    ]


@op_case("conv", rtol=1e-3)
def conv_with_groups(inputs: Inputs) -> Any:
    results = []
    for number, groups, factor in ((1, 2, 1), (1, 4, 1), (1, 4, 2), (2, 2, 2), (2, 4, 1), (3, 2, 1)):
        spatial, feature = _spatial_dims(inputs, number), inputs.static("feature", 4)
        out, group = inputs.static("feature-out", 4 * factor), inputs.static("group", 4 // groups)
        sizes = [inputs.static("filter-size", low=1, high=3) for _ in spatial]
        out_and_dims = rf.conv(
            inputs.floats([inputs.batch, *spatial, feature]),
            in_dim=feature,
            out_dim=out,
            in_spatial_dims=spatial,
            filter=inputs.floats([*sizes, group, out]),
            filter_size=sizes,
            groups=groups,
            padding=inputs.choice(_PADDINGS),
            strides=inputs.number(1, 2),
        )
        results.append(out_and_dims)
    return results


@op_case("conv", same_order=True)
def conv_to_the_same_features(inputs: Inputs) -> Any:
    feature, size, time = inputs.static("feature"), inputs.static("filter-size", 3), inputs.dynamic("time")
    return rf.conv(
        inputs.floats([inputs.batch, time, feature]),
        in_dim=feature,
        out_dim=feature,
        in_spatial_dims=[time],
        filter=inputs.floats([size, feature, feature.copy(match_priority=1)]),
        filter_size=[size],
        padding="same",
    )


@op_case("transposed_conv")
def transposed_conv(inputs: Inputs) -> Any:
    results = []
    for number in (1, 2, 3):
        spatial, feature, out = _spatial_dims(inputs, number), inputs.static("feature"), inputs.static("feature-out")
        sizes = [inputs.static("filter-size", low=1, high=4) for _ in spatial]
        x = inputs.floats([inputs.batch, *spatial, feature])
        options = {
            "in_dim": feature, "out_dim": out, "in_spatial_dims": spatial, "filter_size": sizes,
            "filter": _filter(inputs, sizes, feature, out), "strides": inputs.choice([None, 1, 2, 3]),
        }  # fmt: skip
        results += [
            rf.transposed_conv(x, padding="same", **options),
            rf.transposed_conv(x, padding="valid", bias=inputs.floats([out]), **options),
            rf.transposed_conv(x, padding=inputs.choice(["same", "valid"]), remove_padding=1, **options),
            rf.transposed_conv(x, padding=inputs.choice(["same", "valid"]), output_padding=1, **options),
        ]
    return results


@op_case("conv", "pool")
def windows_longer_than_all_sequences(inputs: Inputs) -> list[Tensor]:
    time, feature, out = inputs.dynamic(high=2), inputs.static("feature"), inputs.static("feature-out")
    window = inputs.static("window", 4)
    x = inputs.floats([inputs.batch, time, feature])
    weights = inputs.floats([feature, out, window])
    options = {"padding": "valid", "in_spatial_dims": [time]}
    conv, _ = rf.conv(x, in_dim=feature, out_dim=out, filter=weights, filter_size=[window], **options)
    pool, _ = rf.pool(x, mode="max", pool_size=[4], strides=1, **options)
    return [conv, pool]


@op_case("pool", rtol=1e-3)
def pool(inputs: Inputs) -> Any:
    results = []
    for number in (1, 2, 3):
        spatial = _spatial_dims(inputs, number)
        dims = inputs.choice(
            [[inputs.batch, *spatial, inputs.static()], [inputs.batch, *spatial], [inputs.static(), *spatial]]
        )
        for mode in ("max", "avg"):
            results.append(
                rf.pool(
                    inputs.floats([*dims, *([] if inputs.batch in dims else [inputs.batch])]),
                    mode=mode,
                    pool_size=[inputs.number(1, 3) for _ in spatial],
                    padding=inputs.choice(["same", "valid"]),
                    strides=inputs.choice([None, 1, 2]),
                    dilation_rate=inputs.choice([1, 1, 2]),
                    in_spatial_dims=spatial,
                )
            )
    return results


def _ctc_inputs(inputs: Inputs) -> dict[str, Any]:
    batch, time = inputs.batch, inputs.dynamic("time", high=7)
    labels_time = inputs.dynamic("labels-time", low=0, high=3)
    classes = inputs.static("feature-classes", 4)
    logits = inputs.floats([batch, time, classes], feature_dim=classes)
    targets = inputs.sparse([batch, labels_time], inputs.static("labels", 3))
    return {
        "logits": logits, "targets": targets, "input_spatial_dim": time, "targets_spatial_dim": labels_time,
        "blank_index": 3,
    }  # fmt: skip


@op_case("ctc_loss", rtol=1e-3, atol=1e-4)
def ctc_loss(inputs: Inputs) -> Any:
    options = _ctc_inputs(inputs)
    losses = [
        rf.ctc_loss(**options, max_approx=max_approx, label_loop=label_loop, use_native_op=use_native_op)
        for max_approx in (False, True)
        for label_loop in (True, False)
        for use_native_op in (None, False)
    ]
    logits = options.pop("logits")
    options["logits"] = rf.log_softmax(logits, axis=logits.feature_dim)
    losses.append(rf.ctc_loss(**options, logits_normalized=True))
    return [rf.where(rf.is_finite(x), x, 0.0) for x in losses]


@op_case("ctc_loss", rtol=1e-3, atol=1e-4)
def ctc_loss_with_several_batch_dims_or_none(inputs: Inputs) -> Any:
    time, labels_time, classes = inputs.static("time", 5), inputs.static("labels-time", 2), inputs.static("classes", 3)
    labels = inputs.static("labels", 2)
    options = {"input_spatial_dim": time, "targets_spatial_dim": labels_time, "blank_index": 2}
    logits = inputs.floats([time, inputs.static("beam"), inputs.batch, classes], feature_dim=classes)
    return [
        rf.ctc_loss(logits=logits, targets=inputs.sparse([inputs.batch, labels_time], labels), **options),
        rf.ctc_loss(
            logits=inputs.floats([time, classes], feature_dim=classes),
            targets=inputs.sparse([labels_time], labels),
            max_approx=True,
            **options,
        ),
    ]


@op_case("ctc_best_path", differentiable=False)
def ctc_paths(inputs: Inputs) -> Any:
    options = _ctc_inputs(inputs)
    time, labels_time, blank = options["input_spatial_dim"], options["targets_spatial_dim"], options["blank_index"]
    paths = [rf.ctc_best_path(**options, label_loop=label_loop) for label_loop in (True, False)]
    frames = {"path_spatial_dim": time, "blank_index": blank}
    return [
        paths,
        rf.ctc_durations_from_path(path=paths[0], **frames),
        rf.ctc_no_label_loop_blank_durations_from_path(path=paths[1], **frames),
        rf.ctc_durations_from_path(path=paths[0], targets_spatial_dim=labels_time, check_dims=False, **frames),
        rf.ctc_greedy_decode(options["logits"], in_spatial_dim=time, blank_index=blank),
        rf.ctc_greedy_decode(
            options["logits"], in_spatial_dim=time, blank_index=blank, target_dim=options["targets"].sparse_dim,
            wb_target_dim=options["logits"].feature_dim,
        ),
    ]  # fmt: skip


@op_case("edit_distance", "have_edit_distance", differentiable=False)
def edit_distance(inputs: Inputs) -> Any:
    a_time, b_time = inputs.dynamic("a-time", low=0, high=5), inputs.dynamic("b-time", low=0, high=5)
    labels, static = inputs.static("labels", 2), inputs.static("static", 3)
    a, b = inputs.sparse([inputs.batch, a_time], labels), inputs.sparse([inputs.batch, b_time], labels)
    with_beam = inputs.sparse([inputs.static("beam"), inputs.batch, b_time], labels)
    return [
        rf.edit_distance(a, a_time, b, b_time),
        rf.edit_distance(a, a_time, with_beam, b_time, dtype="int64"),
        rf.edit_distance(inputs.sparse([static], labels), static, b, b_time),
    ]


@op_case("reduce", per_sequence=False, nan_gradients=False, rtol=1e-3)
def moments(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x, y = inputs.floats([inputs.batch, time, feature]), inputs.floats([time, feature])
    return [
        rf.moments(x, [inputs.batch, time]),
        rf.moments(x, time, correction=1),
        rf.moments(x, [inputs.batch, time], distributed=True),
        rf.moments(x, feature, use_mask=False),
        rf.moments(y, time),
    ]


@op_case("reduce", nan_gradients=False, rtol=1e-3, atol=1e-4)
def normalize(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature", low=3)
    x = inputs.floats([inputs.batch, time, feature])
    return [rf.normalize(x, axis=feature), rf.normalize(x, axis=[time, feature], epsilon=0.1)]


@op_case("batch_norm", per_sequence=False, nan_gradients=False, rtol=1e-3, atol=1e-4)
def batch_norm_of_batch(inputs: Inputs) -> Any:
    time, feature, more = inputs.dynamic("time"), inputs.static("feature"), inputs.static("more")
    x = inputs.floats([inputs.batch, time, more, feature], feature_dim=feature)
    options = {
        "running_mean": None, "running_variance": None, "gamma": inputs.floats([feature]),
        "beta": inputs.floats([feature]), "epsilon": 0.1, "momentum": 0.1,
    }  # fmt: skip
    backend = get_backend_of(x)
    return [
        backend.batch_norm(x, in_dim=feature, affine=True, use_mask=True, **options),
        backend.batch_norm(x, in_dim=[feature, more], affine=False, use_mask=True, **options),
    ]


@op_case("layer_norm")
def layer_norm_of_one_and_two_dims(inputs: Inputs) -> Any:
    time, feature, more = inputs.dynamic("time"), inputs.static("feature"), inputs.static("more")
    x = inputs.floats([inputs.batch, time, more, feature], feature_dim=feature)
    layer_norm = get_backend_of(x).layer_norm
    return [
        layer_norm(x, in_dims=dims, scale=inputs.floats(dims), bias=inputs.floats(dims), epsilon=0.1)
        for dims in ([feature], [more], [feature, more], [more, feature])
    ]


@op_case("batch_norm", nan_gradients=False, rtol=1e-3)
def batch_norm_with_running_values(inputs: Inputs) -> Any:
    time, feature = inputs.dynamic("time"), inputs.static("feature")
    x = inputs.floats([inputs.batch, time, feature], feature_dim=feature)
    return get_backend_of(x).batch_norm(
        x,
        in_dim=feature,
        running_mean=inputs.floats([feature]),
        running_variance=inputs.floats([feature], low=0.5, high=2.0),
        gamma=inputs.floats([feature]),
        beta=None,
        epsilon=1e-3,
        momentum=0.1,
        affine=True,
        use_mask=True,
    )


@op_case("stft", rtol=1e-3, atol=1e-4)
def stft(inputs: Inputs) -> Any:
    time = inputs.dynamic("samples", high=14)
    x = inputs.floats([inputs.batch, time])
    flags = [{}, {"align_window_left": False}, {"window_enforce_even": False}, {"window_use_frame_length": False}]
    options = {"in_spatial_dim": time, "frame_step": inputs.number(1, 3), "frame_length": inputs.number(2, 6)}
    return [
        *(rf.complex_as_real(rf.stft(x, fft_length=6, **options, **flag)[0]) for flag in flags),
        rf.complex_as_real(rf.stft(x, out_spatial_dim=inputs.new_dim(), **options)[0]),
    ]


@op_case("stft", rtol=1e-3, atol=1e-3)
def log_mel(inputs: Inputs) -> Any:
    time, one = inputs.dynamic("samples", high=20), inputs.static("one", 1)
    x = inputs.floats([inputs.batch, time, one], feature_dim=one)
    return rf.audio.log_mel_filterbank_from_raw(
        x, in_spatial_dim=time, out_dim=inputs.static("mel", 2), sampling_rate=160, window_len=0.05, step_len=0.025
    )


def _lstm(inputs: Inputs, batch: list[Dim], spatial_dim: Dim, *, in_source: bool = True) -> Any:
    feature, out = inputs.static("feature"), inputs.static("feature-out")
    spatial = [spatial_dim] if in_source else []
    result, states = get_backend_of(inputs.floats([])).lstm(
        inputs.floats([*batch, *spatial, feature]),
        state_h=inputs.floats([*batch, out]),
        state_c=inputs.floats([*batch, out]),
        ff_weight=inputs.floats([4 * out, feature]),
        rec_weight=inputs.floats([4 * out, out]),
        bias=inputs.choice([None, inputs.floats([4 * out])]),
        spatial_dim=spatial_dim,
        in_dim=feature,
        out_dim=out,
    )
    return [result, *states]


@op_case("lstm", rtol=1e-3, atol=1e-4)
def lstm(inputs: Inputs) -> Any:
    time = inputs.dynamic("time", low=0)
    return [
        *_lstm(inputs, [inputs.batch], time),
        *_lstm(inputs, [inputs.batch, inputs.static("more")], time),
        *_lstm(inputs, [inputs.batch], inputs.static("static")),
        *_lstm(inputs, [], inputs.static("static")),
        *_lstm(inputs, [inputs.batch], single_step_dim, in_source=False),
    ]


@op_case("combine", "scaled_gradient_ext", rtol=1e-3)
def label_smoothing(inputs: Inputs) -> Any:
    time, classes = inputs.dynamic("time"), inputs.static("feature", 4)
    labels = inputs.sparse([inputs.batch, time], classes)
    x = inputs.floats([inputs.batch, time, classes], feature_dim=classes)
    return [
        rf.label_smoothing(labels, 0.1),
        rf.label_smoothing(rf.one_hot(labels), 0.1, axis=classes) - rf.label_smoothing(labels, 0.1),
        rf.label_smoothing(x, 0.3),
        rf.smooth_one_hot(labels, label_prob=0.7),
        rf.label_smoothed_log_prob_gradient(x, 0.1),
        rf.label_smoothed_log_prob_gradient(x, 0.1, axis=classes, exclude_labels=[3]),
    ]
