"""Feed-forward modules of Transformers and Conformers, frame by frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import returnn.frontend as rf
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._transformer.parts import OptionalDim, Part, as_dim, drop, make_part, only_specified
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

Activation = Callable[[Tensor], Tensor]


class _FeedForward(rf.Module):
    """What both kinds share: `linear_out(dropout(hidden(linear_ff(x))))`."""

    def __init__(
        self, out_dim: Dim, *, ff_dim: Dim, in_linear_dim: Dim, dropout: float, activation: Any, with_bias: bool
    ) -> None:
        super().__init__()
        self.out_dim = out_dim
        self.ff_dim = ff_dim
        self.dropout = dropout
        self.dropout_broadcast = rf.dropout_broadcast_default()
        self.activation = rf.build_from_dict(activation) if isinstance(activation, dict) else activation
        self.linear_ff = rf.Linear(out_dim, in_linear_dim, with_bias=with_bias)
        self.linear_out = rf.Linear(ff_dim, out_dim, with_bias=with_bias)

    def __call__(self, inp: Tensor) -> Tensor:
        """
        :param inp: {..., out_dim}
        :return: {..., out_dim}
        """
        hidden = self._hidden(self.linear_ff(inp))
        return self.linear_out(drop(hidden, self.dropout, self.dropout_broadcast, self.ff_dim))

    def _hidden(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class FeedForward(_FeedForward):
    """
    Two linear maps with an activation between them (Vaswani et al. 2017, section 3.3). Parameters: `linear_ff`,
    `linear_out`.
    """

    def __init__(
        self,
        out_dim: Dim | int,
        *,
        ff_dim: OptionalDim = NotSpecified,
        dropout: float = 0.1,
        activation: Activation | dict[str, Any] = rf.relu,
        with_bias: bool = True,
    ) -> None:
        """
        :param out_dim: features, which come in and out
        :param ff_dim: features between the linear maps. Default: 4 * out_dim
        :param dropout: probability to drop a feature between the linear maps, in training
        :param activation: between the linear maps; a function, or a dict for `rf.build_from_dict`
        :param with_bias: whether the linear maps have one
        """
        out_dim = feature_dim(out_dim, "out_dim")
        ff_dim = as_dim(ff_dim, default=4 * out_dim)
        super().__init__(
            out_dim, ff_dim=ff_dim, in_linear_dim=ff_dim, dropout=dropout, activation=activation, with_bias=with_bias
        )

    def _hidden(self, x: Tensor) -> Tensor:
        return self.activation(x)


class FeedForwardGated(_FeedForward):
    """
    A gated linear unit between two linear maps (Shazeer 2020; SwiGLU with these defaults, as in Llama):
    `linear_out(activation(a) * gate_activation(b))`, where a and b are the halves of `linear_ff(x)`. Parameters:
    `linear_ff`, `linear_out`.
    """

    def __init__(
        self,
        out_dim: Dim | int,
        *,
        ff_dim: OptionalDim = NotSpecified,
        dropout: float = 0.1,
        activation: Activation | dict[str, Any] = rf.silu,
        gate_activation: Activation | dict[str, Any] = rf.identity,
        with_bias: bool = False,
    ) -> None:
        """
        :param out_dim: features, which come in and out
        :param ff_dim: features of a half. Default: 8/3 * out_dim, rounded up to a multiple of 256, as in Llama: about
            as many parameters as without a gate
        :param dropout: probability to drop a feature behind the gate, in training
        :param activation: of the first half
        :param gate_activation: of the second half
        :param with_bias: whether the linear maps have one
        """
        out_dim = feature_dim(out_dim, "out_dim")
        ff_dim = as_dim(ff_dim, default=_gated_size(out_dim))
        super().__init__(
            out_dim,
            ff_dim=ff_dim,
            in_linear_dim=2 * ff_dim,
            dropout=dropout,
            activation=activation,
            with_bias=with_bias,
        )
        self.gate_activation = (
            rf.build_from_dict(gate_activation) if isinstance(gate_activation, dict) else gate_activation
        )

    def _hidden(self, x: Tensor) -> Tensor:
        out, _ = rf.gating(x, act_func=self.activation, gate_func=self.gate_activation, out_dim=self.ff_dim)
        return out


class ConformerPositionwiseFeedForward(FeedForward):
    """The one of a Conformer (Gulati et al. 2020, section 2.3), without normalization, residual and last dropout."""

    def __init__(
        self,
        out_dim: Dim | int,
        *,
        ff_dim: OptionalDim = NotSpecified,
        dropout: float = 0.1,
        activation: Activation | dict[str, Any] = rf.silu,
        **kwargs: Any,
    ) -> None:
        """
        :param out_dim: see `FeedForward`; likewise the others
        :param ff_dim: features between the linear maps
        :param dropout: probability to drop a feature between the linear maps
        :param activation: between the linear maps
        :param kwargs: for `FeedForward`
        """
        super().__init__(out_dim, ff_dim=ff_dim, dropout=dropout, activation=activation, **kwargs)


def make_feed_forward(
    default: type, *, out_dim: Dim, ff: Part, ff_dim: OptionalDim, ff_activation: Any, dropout: float
) -> Any:
    """
    :param default: class, if `ff` is not specified
    :param out_dim: features, which come in and out
    :param ff: class, dict or module
    :param ff_dim: option of it, if specified
    :param ff_activation: its option `activation`, if specified
    :param dropout: option of it
    :raises ConfigError: if `ff` is a module, which has its options already, and these are given as well
    """
    options = only_specified(ff_dim=ff_dim, activation=ff_activation)
    if options.get("ff_dim", 0) is None:  # documented as another way to say nothing
        del options["ff_dim"]
    if isinstance(ff, rf.Module) and options:
        raise ConfigError(
            f"'ff' is the module {ff}, so it has these options already: {', '.join(options)}.\n"
            "  Give its class, or leave them out."
        )
    part = default if ff is NotSpecified else ff
    return make_part(part, out_dim=out_dim, dropout=dropout, option="ff", **options)


def _gated_size(out_dim: Dim) -> Dim:
    if out_dim.size is None:
        raise ConfigError(f"FeedForwardGated: the features {out_dim} have no fixed size. Give ff_dim.")
    size = (8 * out_dim.size + 2) // 3
    return Dim((size + 255) // 256 * 256, name="ff")
