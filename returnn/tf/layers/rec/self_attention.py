"""Self-attention: each frame of a sequence attends to the frames of the same sequence (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.loop.across_batches.kept_history import KeptHistory
from returnn.tf.layers.loop.across_batches.kept_state import WORDS, is_word
from returnn.tf.layers.loop.history import masks_around, with_past
from returnn.tf.layers.values.ranges import frame_numbers
from returnn.util.errors import ConfigError


class SelfAttentionLayer(_ConcatInputLayer):
    """
    `softmax(Q K^T / sqrt(K_dim)) V` for each head, where Q, K and V are linear transformations of the source.

    Source [..., T, F_in], output [..., T, F]. Inside of a loop, the source is one frame [..., F_in], which attends to
    all frames so far. Parameter `QKV`: [F_in, heads * (key + key + value)].
    """

    layer_class = "self_attention"
    recurrent = True
    looks_up_labels = True

    def __init__(
        self,
        num_heads: int,
        total_key_dim: int,
        key_shift: LayerBase | None = None,
        forward_weights_init: Any = "glorot_uniform",
        attention_dropout: float = 0.0,
        attention_left_only: bool = False,
        initial_state: str | float | None = None,
        restrict_state_to_last_seq: bool = False,
        state_var_lengths: tf.Tensor | Callable[[], tf.Tensor] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param num_heads: number of heads
        :param total_key_dim: size of the keys of all heads together
        :param key_shift: [T, T', key], added to the keys for each query, as "relative_positional_encoding" gives it;
            inside of a loop [1, T', key]
        :param forward_weights_init: initial value of `QKV`
        :param attention_dropout: probability to drop an attention weight, in training
        :param attention_left_only: each frame sees itself and those before it. Inside of a loop, this is required
        :param initial_state: "keep_over_epoch": each sequence goes on in the next batch, and sees its earlier frames
            there, until the epoch ends; "keep_over_epoch_no_init": also beyond. Otherwise there are no frames before
            the first one, and a number, "zeros" and "ones" mean the same
        :param restrict_state_to_last_seq: keep only the frames of the last batch
        :param state_var_lengths: raw (B,), or a function that gives it: inside of a loop, how many of the frames before
            are seen, in each sequence
        """
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.total_key_dim = total_key_dim
        self.key_shift = key_shift
        self.forward_weights_init = forward_weights_init
        self.attention_dropout = attention_dropout
        self.attention_left_only = attention_left_only
        self.state_var_lengths = state_var_lengths
        self.initial_state = initial_state
        self.restrict_state_to_last_seq = restrict_state_to_last_seq
        for option, number in (("num_heads", num_heads), ("total_key_dim", total_key_dim)):
            if number < 1:
                raise ConfigError(f"{self.where()}: option {option!r}: expected at least 1, got {number}.")
        if not 0 <= attention_dropout < 1:
            raise ConfigError(
                f"{self.where()}: option 'attention_dropout': expected 0 to below 1, got {attention_dropout}."
            )
        words = ("zeros", "ones", *WORDS)
        if isinstance(initial_state, str) and initial_state not in words:
            raise ConfigError(
                f"{self.where()}: option 'initial_state': there is no {initial_state!r}.\n"
                f"  Possible: a number, {', '.join(words)}."
            )
        if restrict_state_to_last_seq and not is_word(initial_state):
            raise ConfigError(
                f"{self.where()}: option 'restrict_state_to_last_seq': no state is kept between batches.\n"
                f"  For that, 'initial_state' is {' or '.join(map(repr, WORDS))}."
            )
        if is_word(initial_state) and (key_shift is not None or state_var_lengths is not None):
            option = "key_shift" if key_shift is not None else "state_var_lengths"
            raise ConfigError(f"{self.where()}: option {option!r} knows no frames of earlier batches (initial_state).")

    def must_be_in_loop(self) -> str:
        """:return: a reason, if it is given how many of the frames before are seen in each step"""
        return "" if self.state_var_lengths is None else "option state_var_lengths"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T, F]"""
        axis, is_frame = self.sequence_dim_of(source, "T")
        if axis == self.network.get_inside_rec_time_dim(inside_loop=False) and not self.attention_left_only:
            raise ConfigError(
                f"{self.where()}: inside of a loop, only frames of the past are known.\n  Set attention_left_only=True."
            )
        out_dim = self.output_feature_dim()
        query, frames = self._queries_and_frames(source, out_dim)
        history = self._kept_history() if is_word(self.initial_state) else None
        mask = None
        if is_frame:
            past = self.new_dim("frames so far")
            after_loop = None if history is None else history.keep
            earlier = None if history is None else history.frames(frames, is_in_loop=True)
            frames = with_past(self, "frames", frames, out_dim=past, after_loop=after_loop)
            mask = self._seen_of(past)
        else:
            if axis not in frames.dims:
                query, frames = (rf.expand_dim(x, axis) for x in (query, frames))
            past = self.new_dim_like("keys", axis)
            earlier = None if history is None else history.frames(_frame_of(frames, axis), is_in_loop=False)
            frames = rf.replace_dim(frames, in_dim=axis, out_dim=past)[0]
            if history is not None and rf.get_selected_backend() != "template":
                history.keep(frames, past)
        if history is not None:
            frames, past = rf.concat((earlier, history.dim), (frames, past), allow_broadcast=True)
        if self.attention_left_only and not is_frame:
            mask = self._left_of(past, axis, history)
        return self._attend(query, frames, past, mask, None if is_frame else axis, out_dim)

    def _kept_history(self) -> KeptHistory:
        if masks_around(self):
            raise ConfigError(
                f"{self.where()}: option 'initial_state': {self.initial_state!r}: inside of a 'masked_computation' in a"
                " loop, no frames are kept between batches."
            )
        return KeptHistory(self, str(self.initial_state), only_last=self.restrict_state_to_last_seq)

    def _left_of(self, past: Dim, axis: Dim, history: KeptHistory | None) -> Tensor:
        """:return: {past, axis}, bool: which frames each query sees"""
        position = frame_numbers(axis)
        if history is not None:
            position = rf.combine_bc(position, "+", history.dim.get_size_tensor())
        return rf.compare_bc(frame_numbers(past), "<=", position)

    def _queries_and_frames(self, source: Tensor, out_dim: Dim) -> tuple[Tensor, Tensor]:
        """:return: queries [..., heads, key], scaled; keys and values side by side [..., heads, key + value]"""
        in_dim = self.feature_dim_of(source, or_sparse_dim=True)
        heads, key, value = self._head_dims(out_dim)
        per_head = self.new_dim("per head", 2 * key.size + value.size, kind=Dim.Types.Feature)
        joined = self.new_dim("qkv", self.num_heads * per_head.size, kind=Dim.Types.Feature)
        weights = self.parameter("QKV", [in_dim, joined], initial=self.forward_weights_init)
        if source.sparse:
            qkv = rf.gather(weights, indices=source, axis=weights.dims[0])
        else:
            qkv = rf.matmul(source, weights, reduce=weights.dims[0], use_mask=False)
        qkv = rf.split_dims(qkv, axis=weights.dims[1], dims=[heads, per_head])
        query, frames = rf.split(qkv, axis=per_head, out_dims=[key, self._key_and_value_dim(key, value)])
        return query * key.size**-0.5, frames

    def _key_and_value_dim(self, key: Dim, value: Dim) -> Dim:
        return self.new_dim("key and value", key.size + value.size, kind=Dim.Types.Feature)

    def _head_dims(self, out_dim: Dim) -> tuple[Dim, Dim, Dim]:
        """:return: heads; key and value of one head"""
        sizes = {"total_key_dim": self.total_key_dim, "n_out": out_dim.dimension}
        key, value = (
            self.new_dim(option, self._per_head(option, size), kind=Dim.Types.Feature, auto_generated=False)
            for option, size in sizes.items()
        )
        return self.new_dim("heads", self.num_heads, auto_generated=False), key, value

    def _per_head(self, option: str, size: int) -> int:
        if size % self.num_heads:
            raise ConfigError(
                f"{self.where()}: option {option!r}: {size} cannot be divided by the number of heads, {self.num_heads}."
            )
        return size // self.num_heads

    def _attend(
        self,
        query: Tensor,
        frames: Tensor,
        past: Dim,
        mask: Tensor | None,
        axis: Dim | None,
        out_dim: Dim,
    ) -> Tensor:
        """
        :param frames: {past, heads, key + value}
        :param past: the frames to attend to
        :param mask: of what is seen; None for all
        :param axis: of the queries; None for a single one
        :return: [..., T, F]
        """
        heads, key, value = self._head_dims(out_dim)
        keys, values = rf.split(frames, axis=self._key_and_value_dim(key, value), out_dims=[key, value])
        energy = rf.matmul(query, keys, reduce=key, use_mask=False)
        if self.key_shift is not None:
            shift = self._shift(self.key_shift.output, axis, past, key)
            energy = rf.combine_bc(energy, "+", rf.matmul(query, shift, reduce=key, use_mask=False))
        if mask is not None:
            energy = rf.where(mask, energy, -float("inf"), allow_broadcast_all_sources=True)
        weights = rf.softmax(energy, axis=past)
        if self.attention_dropout:
            weights = rf.dropout(weights, self.attention_dropout)
        out = rf.matmul(weights, values, reduce=past)
        out = out.copy_transpose([*(dim for dim in out.dims if dim not in (heads, value)), heads, value])
        out, _ = rf.merge_dims(out, dims=[heads, value], out_dim=out_dim)
        return out.copy_with_roles(feature_dim=out_dim)

    def _shift(self, shift: Tensor, axis: Dim | None, past: Dim, key: Dim) -> Tensor:
        """:return: {axis, past, key}: what is added to the keys"""
        own = [dim for dim in shift.dims if not dim.is_batch_dim() and not dim.is_beam_dim()]
        if len(own) < 3 or own[-1].dimension != key.dimension:
            found = "there are fewer dims" if len(own) < 3 else f"the last dim has size {own[-1].dimension}"
            raise ConfigError(
                f"{self.where()}: option 'key_shift': expected [queries, keys, {key.dimension}], but {found}.\n"
                f"  {key.dimension} is total_key_dim divided by the number of heads. Got {shift}."
            )
        *queries, keys, feature = own
        for dim in queries:
            if dim.dimension == 1:
                shift = rf.squeeze(shift, axis=dim)
            elif axis is not None and dim != axis:
                shift, _ = rf.replace_dim(shift, in_dim=dim, out_dim=axis)
        shift, _ = rf.replace_dim(shift, in_dim=keys, out_dim=past)
        return rf.replace_dim(shift, in_dim=feature, out_dim=key)[0]

    def _seen_of(self, past: Dim) -> Tensor | None:
        """:return: {B, past}, bool: which of the frames so far are seen; None if all are"""
        if self.state_var_lengths is None:
            return None
        lengths = Tensor("state_var_lengths", dims=[batch_dim], dtype="int32")
        if rf.get_selected_backend() != "template":
            given = self.state_var_lengths
            lengths.raw_tensor = tf.cast(given() if callable(given) else given, tf.int32)
        frames = frame_numbers(past)
        is_seen = rf.compare_bc(frames, "<", lengths)
        return rf.combine_bc(is_seen, "logical_or", rf.compare_bc(frames, "==", past.get_size_tensor() - 1))


def _frame_of(frames: Tensor, axis: Dim) -> Tensor:
    """:return: template of a single frame"""
    return frames.copy_template_excluding_axis(frames.get_axis_from_description(axis))
