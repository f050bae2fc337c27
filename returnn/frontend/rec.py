"""Recurrent modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend import init
from returnn.frontend._backend import get_backend_of
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend.array_ import split
from returnn.frontend.const import zeros
from returnn.frontend.dropout import dropout, dropout_broadcast_default
from returnn.frontend.loop import scan
from returnn.frontend.math_ import combine_bc, sigmoid, tanh
from returnn.frontend.matmul import matmul
from returnn.frontend.module import Module
from returnn.frontend.parameter import Parameter
from returnn.frontend.state import State
from returnn.tensor import Dim, Tensor, single_step_dim

__all__ = ["LSTM", "LstmState", "ZoneoutLSTM"]

_PARTS = "ifco"  # the order of the gates in parameters: input gate, forget gate, new cell value, output gate


class LstmState(State):
    """Output and cell of an LSTM."""

    h: Tensor
    c: Tensor

    def __init__(self, *_args: Any, h: Tensor | None = None, c: Tensor | None = None) -> None:
        """
        :param _args: see `State`
        :param h: {..., out_dim}, output
        :param c: {..., out_dim}, cell
        """
        super().__init__(*_args, **({} if _args else {"h": h, "c": c}))


class LSTM(Module):
    """
    LSTM (Hochreiter and Schmidhuber 1997) with forget gate (Gers et al. 2000), for sequences or step by step.

        i, f, g, o = ff_weight x + rec_weight h' + bias
        c = sigmoid(f) c' + sigmoid(i) tanh(g)
        h = sigmoid(o) tanh(c)

    Parameters: `ff_weight` [4*out_dim, in_dim], `rec_weight` [4*out_dim, out_dim], `bias` [4*out_dim].
    """

    def __init__(self, in_dim: Dim | int, out_dim: Dim | int, *, with_bias: bool = True) -> None:
        """
        :param in_dim: features that come in
        :param out_dim: features that come out
        :param with_bias: whether there is one
        """
        super().__init__()
        self.in_dim = in_dim = feature_dim(in_dim, "in_dim")
        self.out_dim = out_dim = feature_dim(out_dim, "out_dim")
        self.ff_weight = Parameter([4 * out_dim, in_dim], initial=init.Glorot())
        self.rec_weight = Parameter([4 * out_dim, out_dim], initial=init.Glorot())
        self.bias = Parameter([4 * out_dim], initial=0.0) if with_bias else None

    def __call__(self, source: Tensor, *, state: LstmState, spatial_dim: Dim) -> tuple[Tensor, LstmState]:
        """
        :param source: {..., spatial_dim, in_dim}
        :param state: before the first frame
        :param spatial_dim: of the frames; or `single_step_dim`
        :return: {..., spatial_dim, out_dim}; state after the last frame of each sequence
        """
        self._check(source, spatial_dim)
        out, (h, c) = get_backend_of(source).lstm(
            source,
            state_h=state.h,
            state_c=state.c,
            ff_weight=self.ff_weight,
            rec_weight=self.rec_weight,
            bias=self.bias,
            spatial_dim=spatial_dim,
            in_dim=self.in_dim,
            out_dim=self.out_dim,
        )
        return out, LstmState(h=h, c=c)

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> LstmState:
        """
        :param batch_dims: of the sequences
        :return: zeros
        """
        dims = [*batch_dims, self.out_dim]
        return LstmState(h=zeros(dims, feature_dim=self.out_dim), c=zeros(dims, feature_dim=self.out_dim))

    def _check(self, source: Tensor, spatial_dim: Dim) -> None:
        frames = [] if spatial_dim == single_step_dim else [spatial_dim]
        require_dims(f"{type(self).__name__}: spatial_dim, in_dim", source, [*frames, self.in_dim])


class ZoneoutLSTM(LSTM):
    """
    LSTM in which, in training, entries of the state randomly stay as they were in the frame before; otherwise, the
    state is the mean over that (Krueger et al. 2017). Parameters: as `LSTM`.
    """

    def __init__(
        self,
        in_dim: Dim | int,
        out_dim: Dim | int,
        *,
        with_bias: bool = True,
        zoneout_factor_cell: float = 0.0,
        zoneout_factor_output: float = 0.0,
        use_zoneout_output: bool = True,
        forget_bias: float = 0.0,
        parts_order: str = _PARTS,
    ) -> None:
        """
        :param in_dim: features that come in
        :param out_dim: features that come out
        :param with_bias: whether there is one
        :param zoneout_factor_cell: probability that an entry of the cell stays
        :param zoneout_factor_output: probability that an entry of the output stays
        :param use_zoneout_output: whether the output is as in the state; otherwise, no entry of it stays
        :param forget_bias: added to the forget gate
        :param parts_order: of the gates in the parameters: i, f, o, and c (also j or g) for the new cell value
        """
        super().__init__(in_dim, out_dim, with_bias=with_bias)
        order = parts_order.replace("j", "c").replace("g", "c")
        if sorted(order) != sorted(_PARTS):
            raise fail(f"ZoneoutLSTM: parts_order {parts_order!r} should have each of i, f, o, c once.")
        self.zoneout_factor_cell = zoneout_factor_cell
        self.zoneout_factor_output = zoneout_factor_output
        self.use_zoneout_output = use_zoneout_output
        self.forget_bias = forget_bias
        self.parts_order = order
        self.dropout_broadcast = dropout_broadcast_default()

    def __call__(self, source: Tensor, *, state: LstmState, spatial_dim: Dim) -> tuple[Tensor, LstmState]:
        """
        :param source: {..., spatial_dim, in_dim}
        :param state: before the first frame
        :param spatial_dim: of the frames; or `single_step_dim`
        :return: {..., spatial_dim, out_dim}; state after the last frame of each sequence
        """
        self._check(source, spatial_dim)
        x = matmul(source, self.ff_weight, reduce=self.in_dim)
        if self.bias is not None:
            x = x + self.bias
        if spatial_dim == single_step_dim:
            return self._step(x, state)
        out, state, _ = scan(spatial_dim=spatial_dim, xs=x, initial=state, body=self._step)
        return out, state

    def _step(self, x: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
        """:return: output, state"""
        parts = combine_bc(x, "+", matmul(state.h, self.rec_weight, reduce=self.out_dim))
        values = split(parts, axis=4 * self.out_dim, out_dims=[self.out_dim] * 4)
        i, f, c, o = (values[self.parts_order.index(part)] for part in _PARTS)
        forget = sigmoid(f + self.forget_bias) if self.forget_bias else sigmoid(f)
        cell = combine_bc(forget, "*", state.c) + sigmoid(i) * tanh(c)
        output = sigmoid(o) * tanh(cell)
        new = LstmState(
            h=self._zoneout(output, state.h, self.zoneout_factor_output),
            c=self._zoneout(cell, state.c, self.zoneout_factor_cell),
        )
        out = new.h if self.use_zoneout_output else output
        out.feature_dim = self.out_dim
        return out, new

    def _zoneout(self, new: Tensor, old: Tensor, factor: float) -> Tensor:
        if not factor:
            return new
        axis = self.out_dim if self.dropout_broadcast else None
        change = dropout(combine_bc(new, "-", old), factor, axis=axis)
        return combine_bc(change * (1.0 - factor), "+", old)
