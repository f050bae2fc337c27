"""Recurrence, frame by frame."""

from __future__ import annotations

from typing import Any

import numpy

from returnn.frontend._backends.numpy.raw import ACTIVATION
from returnn.frontend._backends.template import TemplateBackend
from returnn.tensor import Dim, Tensor
from tests.frontend.reference.labeled import broadcast


class RecReferenceOps:
    """For the meaning of the operations see `returnn.frontend._ops`."""

    @staticmethod
    def lstm(
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
        out, (out_h, out_c) = TemplateBackend.lstm(
            source, state_h=state_h, state_c=state_c, ff_weight=ff_weight, rec_weight=rec_weight, bias=bias,
            spatial_dim=spatial_dim, in_dim=in_dim, out_dim=out_dim,
        )  # fmt: skip
        batch = out_h.dims[:-1]
        frames = out.dims[: len(out.dims) - len(out_h.dims)]
        x = broadcast(source, [*frames, *batch, in_dim])
        h, c = (broadcast(state, out_h.dims) for state in (state_h, state_c))
        valid: Any = [True]
        if frames:
            lengths = broadcast(spatial_dim.get_size_tensor(), batch)
            valid = [(t < lengths)[..., None] for t in range(len(x))]
        w = broadcast(ff_weight, [in_dim, 4 * out_dim])
        r = broadcast(rec_weight, [out_dim, 4 * out_dim])
        b: Any = 0 if bias is None else bias.raw_tensor
        sigmoid, outputs = ACTIVATION["sigmoid"], []
        for frame, is_valid in zip(x if frames else x[None], valid, strict=True):
            parts = numpy.where(is_valid, frame, 0) @ w + h @ r + b
            gate_in, forget, new, gate_out = numpy.split(parts, 4, axis=-1)
            c = numpy.where(is_valid, sigmoid(forget) * c + sigmoid(gate_in) * numpy.tanh(new), c)
            h = numpy.where(is_valid, sigmoid(gate_out) * numpy.tanh(c), h)
            outputs.append(h)
        value = numpy.array(outputs) if frames else outputs[0]
        out.raw_tensor = value.reshape([int(dim.get_dim_value()) for dim in out.dims]).astype(out.dtype)
        out_h.raw_tensor, out_c.raw_tensor = h.astype(out.dtype), c.astype(out.dtype)
        return out, (out_h, out_c)
