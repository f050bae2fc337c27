"""
Recurrent units over all frames of sequences, on raw tensors: the interface behind which native kernels stand.

`op` of a cell is the kernel: that of `returnn.native`, if it can be compiled, or one that is made of TensorFlow
operations, see `returnn.tf.frontend_low_level.kernels`. All sequences of a batch begin in the
first frame; `index` (T, B) says which frames there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from returnn.tf.frontend_low_level import raw_random
from returnn.tf.frontend_low_level.kernels.lstm_scan import lstm_scan
from returnn.tf.frontend_low_level.kernels.native import has_operations
from returnn.tf.frontend_low_level.kernels.native_lstm import native_lstm
from returnn.tf.frontend_low_level.kernels.twod_lstm_scan import POOLINGS, pool_source_axis, twod_lstm_scan
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.tf.util.lstm_state import LSTMStateTuple
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1


class RecSeqCellOp:
    """Base class. See the head of this module."""

    does_input_projection: ClassVar[bool] = False  # whether it multiplies the input with a matrix of its own
    does_direction_handling: ClassVar[bool] = False  # whether it knows `step=-1`
    op: Callable[..., Any]

    def __init__(
        self,
        n_hidden: int,
        n_input_dim: int | None = None,
        n_input_dim_parts: Sequence[int] | None = None,
        input_is_sparse: bool = False,
        step: int | None = None,
    ) -> None:
        """
        :param n_hidden: size of the output
        :param n_input_dim: size of the input. Default: n_hidden
        :param n_input_dim_parts: what that consists of, such as the gates
        :param input_is_sparse: the input are numbers of classes
        :param step: 1: forward; -1: from the last frame to the first
        """
        self.n_hidden = n_hidden
        self.n_input_dim = n_hidden if n_input_dim is None else n_input_dim
        self.n_input_dim_parts = [self.n_input_dim] if n_input_dim_parts is None else list(n_input_dim_parts)
        self.input_is_sparse = input_is_sparse
        self.step = 1 if step is None else step
        steps = (1, -1) if self.does_direction_handling else (1,)
        if self.step not in steps:
            possible = ", ".join(map(str, steps))
            raise ConfigError(f"{type(self).__name__}: option 'step': got {step!r}.\n  Possible: {possible}.")
        if input_is_sparse and not self.does_input_projection:
            raise ConfigError(f"{type(self).__name__}: option 'input_is_sparse': it has no matrix for the input.")

    @property
    def state_size(self) -> Any:
        """Size of the state; a tuple if it has parts."""
        return self.n_hidden

    def __call__(
        self, inputs: tf.Tensor, index: tf.Tensor, initial_state: Any = None, recurrent_weights_initializer: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """
        :param inputs: (T, B, n_input_dim)
        :param index: (T, B), 1 for frames of the sequences, 0 behind their ends
        :param initial_state: before the first frame, (B, n_hidden) each. Default: 0
        :param recurrent_weights_initializer: of the recurrent weights
        :return: output (T, B, n_hidden), 0 behind the ends; state after the last frame
        """
        raise NotImplementedError(f"{type(self).__name__} has no kernel")

    def _weights(self, name: str, shape: Sequence[int], initializer: Any) -> tf.Tensor:
        with outermost_graph():
            return tf1.get_variable(name, shape=shape, initializer=initializer, use_resource=True)


class NativeLstmCell(RecSeqCellOp):
    """LSTM. The input (T, B, 4 F) are the gates j, i, f, o. Parameter `W_re` (F, 4 F). Its state is the cell alone."""

    op = staticmethod(lambda x, weights, c, index: _lstm(x, weights, c, tf.zeros_like(c), index, 1))

    def __init__(self, forget_bias: float = 0.0, **kwargs: Any) -> None:
        """
        :param forget_bias: added to the forget gate
        """
        n_hidden = kwargs.get("n_hidden", 0)
        kwargs.setdefault("n_input_dim", 4 * n_hidden)
        kwargs.setdefault("n_input_dim_parts", [n_hidden] * 4)
        super().__init__(**kwargs)
        self.forget_bias = forget_bias

    @classmethod
    def map_layer_inputs_to_op(
        cls, z: tf.Tensor, rec_weights: tf.Tensor, i: tf.Tensor, initial_state: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, ...]:
        """
        :param z: (T, B, 4 F)
        :param rec_weights: (F, 4 F)
        :param i: (T, B)
        :param initial_state: (B, F), the cell
        :return: arguments of `op`
        """
        if initial_state is None:
            initial_state = tf.zeros([tf.shape(z)[1], rec_weights.shape[0]], z.dtype)
        return z, rec_weights, initial_state, i

    def __call__(
        self, inputs: tf.Tensor, index: tf.Tensor, initial_state: Any = None, recurrent_weights_initializer: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """See `RecSeqCellOp.__call__`."""
        weights = self._weights("W_re", [self.n_hidden, self.n_input_dim], recurrent_weights_initializer)
        inputs = _with_forget_bias(inputs, self.forget_bias)
        output, state = self.op(*self.map_layer_inputs_to_op(inputs, weights, index, initial_state))
        return output, state.c


class NativeLstm2(RecSeqCellOp):
    """LSTM. The input (T, B, 4 F) are the gates j, i, f, o. Parameter `W_re` (F, 4 F)."""

    does_direction_handling = True
    op = staticmethod(lambda *args: _lstm(*args))

    def __init__(
        self,
        rec_weight_dropout: float = 0.0,
        rec_weight_dropout_shape: tuple[int | None, ...] | None = None,
        forget_bias: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """
        :param rec_weight_dropout: probability to drop an entry of `W_re`, the same for all frames
        :param rec_weight_dropout_shape: of the mask, which is broadcast to (F, 4 F)
        :param forget_bias: added to the forget gate
        """
        n_hidden = kwargs.get("n_hidden", 0)
        kwargs.setdefault("n_input_dim", 4 * n_hidden)
        kwargs.setdefault("n_input_dim_parts", [n_hidden] * 4)
        super().__init__(**kwargs)
        self.rec_weight_dropout = rec_weight_dropout
        self.rec_weight_dropout_shape = rec_weight_dropout_shape
        self.forget_bias = forget_bias

    @property
    def state_size(self) -> LSTMStateTuple:
        """Size of the state."""
        return LSTMStateTuple(self.n_hidden, self.n_hidden)

    def __call__(
        self, inputs: tf.Tensor, index: tf.Tensor, initial_state: Any = None, recurrent_weights_initializer: Any = None
    ) -> tuple[tf.Tensor, LSTMStateTuple]:
        """See `RecSeqCellOp.__call__`."""
        weights = self._weights("W_re", [self.n_hidden, self.n_input_dim], recurrent_weights_initializer)
        if self.rec_weight_dropout:
            weights = raw_random.dropped(
                weights, rate=self.rec_weight_dropout, noise_shape=self.rec_weight_dropout_shape, seed=0
            )
        c, h = _initial_lstm_state(initial_state, tf.shape(inputs)[1], self.n_hidden, inputs.dtype)
        return self.op(_with_forget_bias(inputs, self.forget_bias), weights, c, h, index, self.step)


class NativeLstmLowMemCell(RecSeqCellOp):
    """LSTM with one matrix for input and recurrence: parameters `W` (n_input_dim + F, 4 F), `b` (4 F)."""

    does_input_projection = True
    does_direction_handling = True
    op = staticmethod(lambda *args: _lstm_with_projection(*args))

    def __init__(self, **kwargs: Any) -> None:
        """
        :param kwargs: see `RecSeqCellOp`
        """
        super().__init__(**kwargs)

    @property
    def state_size(self) -> LSTMStateTuple:
        """Size of the state."""
        return LSTMStateTuple(self.n_hidden, self.n_hidden)

    def map_layer_inputs_to_op(
        self, x: tf.Tensor, weights: tf.Tensor, b: tf.Tensor, i: tf.Tensor, initial_state: Any = None
    ) -> tuple[Any, ...]:
        """
        :param x: (T, B, n_input_dim)
        :param weights: (n_input_dim + F, 4 F)
        :param b: (4 F,)
        :param i: (T, B)
        :param initial_state: c and h, (B, F) each
        :return: arguments of `op`
        """
        c, h = _initial_lstm_state(initial_state, tf.shape(x)[1], self.n_hidden, x.dtype)
        return x, weights, b, h, c, i, self.step

    def __call__(
        self, inputs: tf.Tensor, index: tf.Tensor, initial_state: Any = None, recurrent_weights_initializer: Any = None
    ) -> tuple[tf.Tensor, LSTMStateTuple]:
        """See `RecSeqCellOp.__call__`. Sparse input is (T, B), int32."""
        num_gates = 4 * self.n_hidden
        weights = self._weights("W", [self.n_input_dim + self.n_hidden, num_gates], recurrent_weights_initializer)
        bias = self._weights("b", [num_gates], tf1.zeros_initializer())
        if self.input_is_sparse:
            inputs = tf.one_hot(inputs, self.n_input_dim)
        return self.op(*self.map_layer_inputs_to_op(inputs, weights, bias, index, initial_state))


class TwoDNativeLstmCell(RecSeqCellOp):
    """
    LSTM over the frames of a source and of a target, see `returnn.tf.frontend_low_level.kernels.twod_lstm_scan`.

    Parameters `W` (source + target, 5 F), `b` (5 F), `V_h` and `V_v` (F, 5 F).
    """

    does_input_projection = True
    op = staticmethod(twod_lstm_scan)

    def __init__(self, pooling: str, **kwargs: Any) -> None:
        """
        :param pooling: over the source axis: "last", "max" or "avg"
        """
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ConfigError(
                f"TwoDNativeLstmCell: there is no pooling {pooling!r}.\n  Possible: {', '.join(POOLINGS)}."
            )
        self.pooling = pooling

    @property
    def state_size(self) -> LSTMStateTuple:
        """Size of the state, which is one row: (S, B, F) each."""
        return LSTMStateTuple(self.n_hidden, self.n_hidden)

    @classmethod
    def map_layer_inputs_to_op(
        cls,
        X: tf.Tensor,
        V_h: tf.Tensor,
        V_v: tf.Tensor,
        W: Sequence[tf.Tensor],
        i: tf.Tensor,
        previous_state: tf.Tensor | None = None,
        previous_output: tf.Tensor | None = None,
        iteration: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """
        :param X: source and target, (S, B, F_s) and (T, B, F_t), as pair
        :param V_h: (F, 5 F), along the source
        :param V_v: (F, 5 F), along the target
        :param W: the part of the matrix for the source, the one for the target, and the bias
        :param i: (S, B), which frames of the source there are
        :param previous_state: (S, B, F), cell of the target frame before. Default: 0
        :param previous_output: (S, B, F), output of the target frame before. Default: 0
        :param iteration: not needed: where we are follows from the state
        :return: arguments of `op`
        """
        source, target = X
        for_source, for_target, bias = W
        shape = tf.stack([tf.shape(source)[0], tf.shape(source)[1], V_h.shape[0]])
        zeros = tf.zeros(shape, source.dtype)
        return {
            "source": tf.tensordot(source * tf.cast(i, source.dtype)[..., None], for_source, 1) + bias,
            "target": tf.tensordot(target, for_target, 1),
            "weights_h": V_h,
            "weights_v": V_v,
            "c": zeros if previous_state is None else previous_state,
            "h": zeros if previous_output is None else previous_output,
        }

    def __call__(  # type: ignore[override]
        self,
        source: tf.Tensor,
        src_mask: tf.Tensor,
        recurrent_weights_initializer: Any = None,
        target: tf.Tensor | None = None,
        previous_state: tf.Tensor | None = None,
        previous_output: tf.Tensor | None = None,
        iteration: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """
        :param source: (S, B, F_s)
        :param src_mask: (S, B), 1 for frames of the source
        :param recurrent_weights_initializer: of all weights
        :param target: (T, B, F_t)
        :param previous_state: see `map_layer_inputs_to_op`, also the other ones
        :return: pooled output (T, B, F); output and cell of the last target frame, (S, B, F) each
        """
        if target is None:
            raise ConfigError("TwoDNativeLstmCell: a target is required.")
        sizes, gates = [source.shape[-1], target.shape[-1]], 5 * self.n_hidden
        weights = self._weights("W", [sum(sizes), gates], recurrent_weights_initializer)
        bias = self._weights("b", [gates], tf1.zeros_initializer())
        v_h, v_v = (self._weights(n, [self.n_hidden, gates], recurrent_weights_initializer) for n in ("V_h", "V_v"))
        args = self.map_layer_inputs_to_op(
            (source, target),
            v_h,
            v_v,
            (*tf.split(weights, sizes), bias),
            src_mask,
            previous_state,
            previous_output,
            iteration,
        )
        c, h = self.op(**args)
        return pool_source_axis(h, src_mask, self.pooling), h[-1], c[-1]


def _initial_lstm_state(state: Any, num_entries: tf.Tensor, size: int, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
    """:return: c and h, (B, F) each; a single tensor is h"""
    zeros = tf.ensure_shape(tf.zeros([num_entries, size], dtype), [None, size])
    if state is None:
        return zeros, zeros
    return (state[0], state[1]) if isinstance(state, (tuple, list)) else (zeros, state)


def _with_forget_bias(x: tf.Tensor, forget_bias: float) -> tf.Tensor:
    if not forget_bias:
        return x
    size = x.shape[-1] // 4
    return x + tf.constant([0.0] * (2 * size) + [forget_bias] * size + [0.0] * size)


def _lstm(
    x: tf.Tensor, weights: tf.Tensor, c: tf.Tensor, h: tf.Tensor, index: tf.Tensor, step: int
) -> tuple[tf.Tensor, LSTMStateTuple]:
    """
    :param x: (T, B, 4 F)
    :param weights: (F, 4 F)
    :param c: (B, F), before the first frame, like `h`
    :param index: (T, B)
    :param step: 1 or -1
    :return: output (T, B, F), 0 behind the ends; state after the last frame
    """
    lengths = tf.reduce_sum(tf.cast(index, tf.int32), axis=0)
    if has_operations(x.dtype):
        frames = native_lstm(x, weights, c, h, lengths=lengths, backward=step == -1)
        return frames.h, LSTMStateTuple(frames.last_c, frames.last_h)
    mask = tf.cast(index, x.dtype)[..., None]
    x = tf.where(tf.cast(mask, tf.bool), x, tf.zeros_like(x))
    in_order = (lambda y: tf.reverse_sequence(y, lengths, seq_axis=0, batch_axis=1)) if step == -1 else tf.identity
    cells, outputs = lstm_scan(in_order(x), weights, c, h)
    at_end = tf.stack([lengths, tf.range(tf.shape(lengths)[0])], axis=-1)
    last = [
        tf.gather_nd(tf.concat([first[None], values], axis=0), at_end) for first, values in ((c, cells), (h, outputs))
    ]
    return in_order(outputs) * mask, LSTMStateTuple(*last)


def _lstm_with_projection(
    x: tf.Tensor,
    weights: tf.Tensor,
    bias: tf.Tensor,
    h: tf.Tensor,
    c: tf.Tensor,
    index: tf.Tensor,
    step: int,
) -> tuple[tf.Tensor, LSTMStateTuple]:
    """
    :param x: (T, B, F_in)
    :param weights: (F_in + F, 4 F)
    :param bias: (4 F,)
    :return: see `_lstm`, which has the other parameters
    """
    for_input, recurrent = tf.split(weights, [x.shape[-1], h.shape[-1]])
    return _lstm(tf.tensordot(x, for_input, 1) + bias, recurrent, c, h, index, step)
