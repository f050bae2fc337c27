"""Recurrence: everything but the frames and the features becomes one batch axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.elementwise import ElementwiseOps
from returnn.frontend._ops.layout import raw_in_order, rows_of
from returnn.frontend._ops.operands import fail, require_dims, require_float
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


class RecOps(ElementwiseOps):
    """Recurrence."""

    @classmethod
    def lstm(
        cls,
        source: Tensor,
        *,
        state_h: Tensor,
        state_c: Tensor,
        ff_weight: Tensor,
        rec_weight: Tensor,
        bias: Tensor | None,
        spatial_dim: Dim,
        in_dim: Dim,
        out_dim: Dim,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """
        LSTM (Hochreiter and Schmidhuber 1997), with forget gate. The parts of the weights are the input gate, the
        forget gate, the new cell value, the output gate.

        :param source: {..., spatial_dim, in_dim}; without `spatial_dim`, this is one step
        :param state_h: {..., out_dim}, output before the first frame
        :param state_c: {..., out_dim}, cell before the first frame
        :param ff_weight: [4 * out_dim, in_dim]
        :param rec_weight: [4 * out_dim, out_dim]
        :param bias: [4 * out_dim]
        :param spatial_dim: the frames
        :param in_dim: features that come in
        :param out_dim: features that come out
        :return: {..., spatial_dim, out_dim}: output in each frame; output and cell {..., out_dim} after the last frame
            of each sequence
        """
        state_h, state_c, ff_weight, rec_weight = map(cls.as_tensor, (state_h, state_c, ff_weight, rec_weight))
        bias = None if bias is None else cls.as_tensor(bias)
        _check(source, (state_h, state_c), (ff_weight, rec_weight, bias), in_dim, out_dim)
        batch = _batch_dims(source, state_h, state_c, spatial_dim, in_dim, out_dim)
        frames = [dim for dim in source.dims if dim == spatial_dim]
        out = Tensor("lstm", [*frames, *batch, out_dim], source.dtype, feature_dim=out_dim)
        h, c = (Tensor(f"lstm-{name}", [*batch, out_dim], source.dtype, feature_dim=out_dim) for name in "hc")
        if cls.computes:
            raw, lengths = cls._frames_in_rows(source, frames, batch, in_dim)
            results = cls.lstm_raw(
                raw,
                rows_of(state_h, batch, [out_dim]),
                rows_of(state_c, batch, [out_dim]),
                raw_in_order(ff_weight, [4 * out_dim, in_dim]),
                raw_in_order(rec_weight, [4 * out_dim, out_dim]),
                None if bias is None else bias._raw_tensor,
                lengths,
            )
            results = (results[0] if frames else results[1], *results[1:])
            for x, raw in zip((out, h, c), results, strict=True):
                has_shape = len(batch) == 1
                x._raw_tensor = raw if has_shape else cls.reshape_raw(raw, [dim.get_dim_value() for dim in x.dims])
        return out, (h, c)

    @classmethod
    def _frames_in_rows(
        cls, source: Tensor, frames: Sequence[Dim], batch: Sequence[Dim], in_dim: Dim
    ) -> tuple[Any, Any]:
        """:return: (T, B, I), T = 1 for a single step; (B,), lengths, or None if there are no padded frames"""
        if not frames:
            return cls.expand_dims_raw(rows_of(source, batch, [in_dim]), 0), None
        lengths = None
        if frames[0].need_masking():
            source = source.copy_masked(0, dims=frames)
            lengths = rows_of(cls.cast(cls.as_tensor(frames[0].get_size_tensor()), "int32"), batch, [])
        return rows_of(source, batch, [in_dim], frames=frames), lengths


def _check(
    source: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor | None], in_dim: Dim, out_dim: Dim
) -> None:
    require_dims("lstm: in_dim", source, [in_dim])
    require_float("lstm", source)
    for state in states:
        require_dims("lstm: state", state, [out_dim])
    gates = 4 * out_dim
    dims_of = {"ff_weight": {gates, in_dim}, "rec_weight": {gates, out_dim}, "bias": {gates}}
    given = [weight for weight in weights if weight is not None]
    for weight, (name, dims) in zip(given, dims_of.items(), strict=False):
        if weight.dims_set != dims:
            raise fail(f"lstm: {name} {weight} should have the dims {', '.join(sorted(map(str, dims)))}.")
    for operand in (*states, *given):
        if operand.dtype != source.dtype:
            raise DtypeError(f"lstm: the dtypes of {source} and {operand} differ.\n  Use rf.cast on one of them.")


def _batch_dims(
    source: Tensor, state_h: Tensor, state_c: Tensor, spatial_dim: Dim, in_dim: Dim, out_dim: Dim
) -> list[Dim]:
    """:return: all dims but the frames and the features, also those which the lengths differ over"""
    batch = source.remaining_dims([in_dim, *(dim for dim in source.dims if dim == spatial_dim)])
    for state in (state_h, state_c):
        batch += [dim for dim in state.remaining_dims(out_dim) if dim not in batch]
    lengths = spatial_dim.dyn_size_ext if spatial_dim in source.dims else None
    batch += [dim for dim in (() if lengths is None else lengths.dims) if dim not in batch]
    return batch
