"""Recurrence: everything but the frames and the features becomes one batch axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._array_backend.core import CoreArrayOps
from returnn.frontend._ops.layout import product, raw_in_order
from returnn.frontend._template_backend import TemplateBackend
from returnn.tensor import Dim, Tensor


class RecArrayOps(CoreArrayOps):
    """Recurrence, on the raw operation below, which TensorFlow and PyTorch define."""

    @staticmethod
    def lstm_raw(
        raw_tensor: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any, lengths: Any
    ) -> tuple[Any, Any, Any]:
        """
        :param raw_tensor: (T, B, I)
        :param h: (B, O)
        :param c: (B, O)
        :param ff_weight: (4 * O, I)
        :param rec_weight: (4 * O, O)
        :param bias: (4 * O,), or None
        :param lengths: (B,), or None if there are no padded frames
        :return: (T, B, O), output; (B, O) twice: output and cell after the last frame of each sequence
        """
        raise NotImplementedError

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
        """:return: output, last state"""
        state_h, state_c, ff_weight, rec_weight = map(cls.as_tensor, (state_h, state_c, ff_weight, rec_weight))
        out, states = TemplateBackend.lstm(
            source, state_h=state_h, state_c=state_c, ff_weight=ff_weight, rec_weight=rec_weight, bias=bias,
            spatial_dim=spatial_dim, in_dim=in_dim, out_dim=out_dim,
        )  # fmt: skip
        batch = states[0].dims[:-1]
        frames = out.dims[: len(out.dims) - len(states[0].dims)]
        lengths = None
        if frames and spatial_dim.need_masking():
            source = source.copy_masked(0, dims=[spatial_dim])
            lengths = cls._in_rows(cls.cast(cls.as_tensor(spatial_dim.get_size_tensor()), "int32"), [], batch, [])
        rows = cls._in_rows(source, frames, batch, [in_dim])
        if not frames:
            rows = cls.expand_dims_raw(rows, 0)
        h, c = (cls._in_rows(state, [], batch, [out_dim]) for state in (state_h, state_c))
        results = cls.lstm_raw(
            rows,
            h,
            c,
            raw_in_order(ff_weight, [4 * out_dim, in_dim]),
            raw_in_order(rec_weight, [4 * out_dim, out_dim]),
            None if bias is None else cls.as_tensor(bias)._raw_tensor,
            lengths,
        )
        results = (results[0] if frames else results[1], *results[1:])
        for x, raw in zip((out, *states), results, strict=True):
            x._raw_tensor = raw if len(batch) == 1 else cls.reshape_raw(raw, [dim.get_dim_value() for dim in x.dims])
        return out, states

    @classmethod
    def _in_rows(cls, x: Tensor, frames: Sequence[Dim], batch: Sequence[Dim], rest: Sequence[Dim]) -> Any:
        """:return: raw tensor (frames..., all batch dims, rest...)"""
        raw = x.copy_compatible_to_dims_raw([*frames, *batch, *rest], unbroadcast=True)
        if len(batch) == 1:
            return raw
        sizes = [[dim.get_dim_value() for dim in dims] for dims in (frames, batch, rest)]
        return cls.reshape_raw(raw, [*sizes[0], product(sizes[1]), *sizes[2]])
