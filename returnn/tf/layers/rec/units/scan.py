"""
A loop over the frames of a sequence, for any recurrent step.

All sequences of a batch start at the first frame. There are no masks in here: frames behind the end of a sequence are
computed like others, and change nothing before them. What was the state after the last frame of each sequence is picked
out of all states afterwards, see `returnn.tf.layers.rec.units.frames`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

Step = Callable[[tf.Tensor, tuple[tf.Tensor, ...]], tuple[tf.Tensor, tuple[tf.Tensor, ...]]]


def scan(
    step: Step, x: tf.Tensor, state: Sequence[tf.Tensor], *, num_unrolled: int | None = None, back_prop: bool = True
) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
    """
    :param step: function of frame (N, P) and state, that gives output and new state
    :param x: (T, N, P)
    :param state: before the first frame
    :param num_unrolled: at least T: without a loop in the graph
    :param back_prop: whether there will be gradients
    :return: output (T, N, F); and the state after each frame, each part (T, N, F)
    """
    if num_unrolled is not None:
        return _scan_unrolled(step, x, tuple(state), num_unrolled)
    return _scan_in_loop(step, x, tuple(state), back_prop=back_prop)


def _scan_in_loop(
    step: Step, x: tf.Tensor, state: tuple[tf.Tensor, ...], *, back_prop: bool
) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
    num_frames = tf.shape(x)[0]
    frames = tf.TensorArray(x.dtype, size=num_frames, element_shape=x.shape[1:]).unstack(x)
    sources = _Sources()

    def body(i: tf.Tensor, state: tuple[tf.Tensor, ...], arrays: tuple[tf.TensorArray, ...]) -> tuple:
        output, new_state = step(frames.read(i), state)
        values = sources.distinct(output, new_state)
        if not arrays:
            raise AssertionError(values)
        return i + 1, new_state, tuple(a.write(i, v) for a, v in zip(arrays, values, strict=True))

    shapes = sources.trace(step, x, state)
    arrays = tuple(tf.TensorArray(x.dtype, size=num_frames, element_shape=shape) for shape in shapes)
    _, _, arrays = tf.while_loop(
        lambda i, *_: i < num_frames, body, (tf.constant(0), state, arrays),
        shape_invariants=(tf.TensorShape([]), tuple(s.shape for s in state), tuple(tf.TensorShape([]) for _ in arrays)),
    )  # fmt: skip
    del back_prop
    return sources.restored([array.stack() for array in arrays], num_states=len(state))
