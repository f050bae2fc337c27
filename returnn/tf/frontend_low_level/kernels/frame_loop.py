"""
Loops over the frames of sequences, on raw tensors.

All sequences of a batch start at the first frame. There are no masks in here: frames behind the end of a sequence are
computed like others, and change nothing before them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.loop_counter import set_loop_counter
from returnn.tf.frontend_low_level.products.loop_products import GradientCollector

Tensors = tuple[tf.Tensor, ...]
Body = Callable[[Tensors, Tensors], tuple[Tensors, Tensors]]


def loop_over_frames(
    body: Body,
    inputs: Sequence[tf.Tensor],
    state: Sequence[tf.Tensor],
    output_sizes: Sequence[int],
    *,
    backward: bool = False,
    back_prop: bool = True,
    num_unrolled: int | None = None,
) -> tuple[Tensors, Tensors]:
    """
    :param body: function of one frame of each input and the state, that gives the new state and the outputs (N, size)
    :param inputs: each (T, N, P)
    :param state: before the first frame, each (N, F)
    :param output_sizes: last axis of each output
    :param backward: from the last frame to the first
    :param back_prop: whether there will be gradients
    :param num_unrolled: at least T: without a loop in the graph
    :return: state after the last frame; outputs, each (T, N, size)
    """
    if num_unrolled is not None:
        return _unrolled(body, inputs, tuple(state), num_unrolled)
    first = inputs[0]
    num_frames = tf.shape(first)[0]
    element_shapes = [tf.TensorShape([first.shape[1], size]) for size in output_sizes]
    read = [_unstacked(x) for x in inputs]
    arrays = tuple(tf.TensorArray(first.dtype, size=num_frames, element_shape=shape) for shape in element_shapes)

    collector = GradientCollector(first.dtype.name) if back_prop else None

    def step(i: tf.Tensor, state: Tensors, arrays: tuple[tf.TensorArray, ...], *collected: tf.Tensor) -> Any:
        set_loop_counter(i)
        at = num_frames - 1 - i if backward else i
        with contextlib.nullcontext() if collector is None else collector.frame(*collected):
            new_state, outputs = body(tuple(x.read(at) for x in read), state)
        for value, shape in zip(outputs, element_shapes, strict=True):
            value.set_shape(shape)
        written = tuple(array.write(at, value) for array, value in zip(arrays, outputs, strict=True))
        return i + 1, new_state, written, *([] if collector is None else [collector.after_frame()])

    _, last, arrays, *collected = tf.compat.v1.while_loop(
        lambda i, *_: i < num_frames,
        step,
        (tf.constant(0), tuple(state), arrays, *([] if collector is None else [collector.initial])),
        back_prop=back_prop,
        shape_invariants=(
            tf.TensorShape([]),
            tuple(tf.TensorShape([first.shape[1], *x.shape[1:]]) for x in state),
            tuple(tf.TensorShape([]) for _ in arrays),
            *([] if collector is None else [tf.TensorShape([])]),
        ),
    )
    if collector is not None:
        collector.finish(*collected)
    num_entries = tf.shape(first)[1]
    stacked = [_stacked(a, first.dtype, num_entries, n) for a, n in zip(arrays, output_sizes, strict=True)]
    return tuple(last), tuple(stacked)


def _unstacked(x: tf.Tensor) -> tf.TensorArray:
    return tf.TensorArray(x.dtype, size=tf.shape(x)[0], element_shape=x.shape[1:]).unstack(x)


def _stacked(array: tf.TensorArray, dtype: Any, num_entries: tf.Tensor, size: int) -> tf.Tensor:
    """:return: (T, N, size); also where there are no frames, for which `TensorArray.stack` has to know N"""
    stacked = tf.raw_ops.TensorListStack(
        input_handle=array.flow, element_shape=tf.stack([num_entries, size]), element_dtype=dtype
    )
    stacked.set_shape([None, *array.element_shape])
    return stacked


def _unrolled(body: Body, inputs: Sequence[tf.Tensor], state: Tensors, num: int) -> tuple[Tensors, Tensors]:
    num_frames = tf.shape(inputs[0])[0]
    message = f"unroll: there are more frames than max_seq_len={num}"
    with tf.control_dependencies([tf.debugging.assert_less_equal(num_frames, num, message=message)]):
        missing = num - num_frames
    padded = [tf.pad(x, [[0, missing], [0, 0], [0, 0]]) for x in inputs]
    outputs = []
    for frame in zip(*[tf.unstack(x, num) for x in padded], strict=True):
        state, output = body(frame, state)
        outputs.append(output)
    return state, tuple(tf.stack(values)[:num_frames] for values in zip(*outputs, strict=True))
