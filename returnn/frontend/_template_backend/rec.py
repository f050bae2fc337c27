"""Rules of recurrence."""

from __future__ import annotations

from returnn.frontend._ops.operands import fail, require_dims, require_float
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


class RecRules:
    """Rules. For the meaning of the operations see `returnn.frontend._interface.rec`."""

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
        """:return: templates: [spatial_dim, batch..., out_dim]; twice [batch..., out_dim]"""
        require_dims("lstm: in_dim", source, [in_dim])
        require_float("lstm", source)
        for state in (state_h, state_c):
            require_dims("lstm: state", state, [out_dim])
        for name, weight, dims in (
            ("ff_weight", ff_weight, {4 * out_dim, in_dim}),
            ("rec_weight", rec_weight, {4 * out_dim, out_dim}),
            ("bias", bias, {4 * out_dim}),
        ):
            if weight is not None and weight.dims_set != dims:
                raise fail(f"lstm: {name} {weight} should have the dims {', '.join(sorted(map(str, dims)))}.")
        for operand in (state_h, state_c, ff_weight, rec_weight, *([] if bias is None else [bias])):
            if operand.dtype != source.dtype:
                raise DtypeError(f"lstm: the dtypes of {source} and {operand} differ.\n  Use rf.cast on one of them.")
        batch = lstm_batch_dims(source, state_h, state_c, spatial_dim, in_dim, out_dim)
        spatial = [dim for dim in source.dims if dim == spatial_dim]
        out = Tensor("lstm", [*spatial, *batch, out_dim], source.dtype, feature_dim=out_dim)
        h, c = (Tensor(f"lstm-{name}", [*batch, out_dim], source.dtype, feature_dim=out_dim) for name in "hc")
        return out, (h, c)


def lstm_batch_dims(
    source: Tensor, state_h: Tensor, state_c: Tensor, spatial_dim: Dim, in_dim: Dim, out_dim: Dim
) -> list[Dim]:
    """:return: all dims but the frames and the features, also those which the lengths differ over"""
    batch = source.remaining_dims([in_dim, *(dim for dim in source.dims if dim == spatial_dim)])
    for state in (state_h, state_c):
        batch += [dim for dim in state.remaining_dims(out_dim) if dim not in batch]
    lengths = spatial_dim.dyn_size_ext if spatial_dim in source.dims else None
    batch += [dim for dim in (() if lengths is None else lengths.dims) if dim not in batch]
    return batch
