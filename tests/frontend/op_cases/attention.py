"""Attention."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.frontend._backend import get_backend_of
from returnn.tensor import Dim, Tensor, single_step_dim
from returnn.tensor.dim_rules import twin
from tests.frontend.op_case import Inputs, op_case


def _heads(inputs: Inputs) -> tuple[Dim, Dim, Dim]:
    return inputs.static("heads", 2), inputs.static("feature-key"), inputs.static("feature-value")


@op_case("scaled_dot_product_attention", "attention_by_energy", nan_gradients=False)
def attention_to_an_encoder(inputs: Inputs) -> list[Tensor]:
    query_dim, axis, (heads, key_dim, value_dim) = inputs.dynamic("query"), inputs.dynamic("enc"), _heads(inputs)
    keys = inputs.floats([inputs.batch, axis, heads, key_dim])
    values = inputs.floats([inputs.batch, axis, heads, value_dim])
    first = rf.compare_bc(rf.range_over_dim(axis), "==", 0)
    visible = rf.combine_bc(inputs.bools([inputs.batch, axis]), "or", first)
    some_see_nothing = inputs.bools([inputs.batch, axis])
    options = {"key_dim": key_dim, "axis": axis}
    sequence = inputs.floats([inputs.batch, query_dim, heads, key_dim])
    step = inputs.floats([inputs.batch, heads, key_dim])
    return [
        rf.dot_attention(sequence, keys, values, **options),
        rf.dot_attention(sequence, keys, values, scale=0.5, mask=visible, **options),
        rf.dot_attention(step, keys, values, **options),
        rf.dot_attention(step, keys, values, mask=visible, **options),
        rf.dot_attention(step, keys, values, mask=some_see_nothing, **options),
        rf.dot_attention(sequence, keys, values, mask=some_see_nothing, **options),
        rf.dot_attention(inputs.floats([query_dim, key_dim]), keys, values, **options),
    ]


@op_case("scaled_dot_product_attention", "visible_frames", nan_gradients=False)
def causal_attention(inputs: Inputs) -> list[Tensor]:
    time, (heads, key_dim, value_dim) = inputs.spatial("time"), _heads(inputs)
    axis = twin(time)
    query = inputs.floats([inputs.batch, time, heads, key_dim])
    keys, _ = rf.replace_dim(inputs.floats([inputs.batch, time, heads, key_dim]), in_dim=time, out_dim=axis)
    values, _ = rf.replace_dim(inputs.floats([inputs.batch, time, heads, value_dim]), in_dim=time, out_dim=axis)
    options = {"key_dim": key_dim, "axis": axis, "causal_query_spatial_dim": time}
    return [
        rf.dot_attention(query, keys, values, **options),
        rf.dot_attention(query, keys, values, mask=axis.get_mask() if axis.need_masking() else None, **options),
    ]


@op_case("rel_pos_self_attention", nan_gradients=False)
def relative_attention(inputs: Inputs) -> Tensor:
    time, (heads, key_dim, value_dim), feature = inputs.spatial("time"), _heads(inputs), inputs.static("feature", 4)
    axis = inputs.spatial("enc")
    query = inputs.floats([inputs.batch, time, heads, key_dim])
    key, value = (inputs.floats([inputs.batch, axis, heads, dim]) for dim in (key_dim, value_dim))
    encoding, pos_dim = rf.relative_positional_encoding(
        query_spatial_dim=time, key_value_spatial_dim=axis, feat_dim=feature
    )
    pos_emb = rf.matmul(encoding, inputs.floats([feature, heads, key_dim]), reduce=feature)
    bias = inputs.choice([None, inputs.floats([heads, key_dim])])
    return get_backend_of(query, pos_emb).rel_pos_self_attention(
        query, key, value, pos_emb, pos_bias_u=bias, pos_bias_v=inputs.floats([heads, key_dim]),
        att_dropout_broadcast=False, v_feat_dim=value_dim, qk_feat_dim=key_dim, kv_spatial_dim=axis,
        query_spatial_dim=time, pos_emb_spatial_dim=pos_dim,
    )  # fmt: skip


@op_case("apply_rope")
def rotary_positions(inputs: Inputs) -> list[Tensor]:
    time, heads, feature = inputs.spatial("time"), inputs.static("heads"), inputs.static("feature", 4)
    x = inputs.floats([inputs.batch, time, heads, feature], feature_dim=feature)
    encoding = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=feature, offset=inputs.number(0, 2))
    return [get_backend_of(x).apply_rope(x, encoding, feature), encoding]


@op_case("range_over_dim", per_sequence=False)
def positional_encodings(inputs: Inputs) -> Any:
    time, axis, feature = inputs.dynamic("time"), inputs.dynamic("axis"), inputs.static("feature", 4)
    step = inputs.ints([inputs.batch], low=0, high=3)
    return [
        rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=feature, base=100),
        rf.sinusoidal_positional_encoding(spatial_dim=single_step_dim, feat_dim=feature, offset=step),
        rf.relative_positional_encoding(query_spatial_dim=time, key_value_spatial_dim=axis, feat_dim=feature),
        rf.relative_positional_encoding(
            query_spatial_dim=single_step_dim, key_value_spatial_dim=axis, feat_dim=feature, query_offset=step
        ),
    ]
