"""
Parts of a model that are options of a whole: a normalization, the self-attention, all layers.

Such an option is a class (or a function that makes a module), a dict for `rf.build_from_dict`, or a module. A module is
copied where it is used, so that no two places share parameters, which get new initial values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import returnn.frontend as rf
from returnn.frontend._feature_dims import feature_dim
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

Part = type | Callable[..., Any] | Mapping[str, Any] | rf.Module
OptionalDim = Dim | int | None | type[NotSpecified]  # an int is the size of a new dim


def make_part(part: Part, *args: Any, option: str, **options: Any) -> Any:
    """
    :param part: class, dict or module, see the head of this module
    :param args: for the class or dict
    :param option: name of the option, for messages
    :param options: for the class or dict; what the dict has counts before
    :return: a module of its own
    :raises ConfigError: if it is none of these
    """
    if isinstance(part, rf.Module):
        return copy.deepcopy(part)
    if isinstance(part, Mapping):
        return rf.build_from_dict(part, *args, **options)
    if callable(part):
        return part(*args, **options)
    raise ConfigError(
        f"{option} should be a class, a dict with the key 'class', or a module, not {part!r}.\n"
        "  Such as rf.LayerNorm, or {'class': 'rf.LayerNorm', 'eps': 1e-5}."
    )


def make_norm(norm: Part, out_dim: Dim) -> Any:
    """
    :param norm: class, dict or module. A function that is no class, such as `rf.identity`, is itself the normalization
    :param out_dim: features
    :return: normalization of `out_dim`
    """
    is_function = callable(norm) and not isinstance(norm, (type, rf.Module))
    return norm if is_function else make_part(norm, out_dim, option="norm")


def make_layers(
    layer: Part | None,
    layer_opts: Mapping[str, Any] | None,
    num_layers: int,
    *,
    default: Part,
    sequential: Callable[..., Any],
    option: str = "layer",
    **options: Any,
) -> Any:
    """
    :param layer: class, dict or module of one of them
    :param layer_opts: of each layer, where it is a class or dict; they count before `options`
    :param num_layers: how many
    :param default: where there is no `layer`
    :param sequential: such as `rf.Sequential`
    :param option: name of the option, for messages; that of `layer_opts` is it with `_opts`
    :param options: of each layer, where it is a class or dict; `NotSpecified`: it has its default
    :return: the layers in a row
    :raises ConfigError: if the number is not possible, or a module, which is made already, is to get options
    """
    if not isinstance(num_layers, int) or num_layers < 0:
        raise ConfigError(f"num_layers should be a number of layers, not {num_layers!r}.")
    if isinstance(layer, rf.Module) and layer_opts:
        raise ConfigError(
            f"{option}_opts={dict(layer_opts)!r}: {option} is a module, which has its options already.\n"
            f"  Give them where {type(layer).__name__} is made, or give {option} as class or dict."
        )
    layer = default if layer is None else layer
    own = {} if isinstance(layer, rf.Module) else {**only_specified(**options), **(layer_opts or {})}
    return sequential(make_part(layer, option=option, **own) for _ in range(num_layers))


def as_dim(value: OptionalDim, *, default: Dim) -> Dim:
    """:return: the dim, a new one of that size, or the default if there is none"""
    return default if value is None or isinstance(value, type) else feature_dim(value, "ff_dim")


def only_specified(**options: Any) -> dict[str, Any]:
    """:return: the options that are not `NotSpecified`"""
    return {name: value for name, value in options.items() if value is not NotSpecified}


def attention_options(out_dim: Dim, num_heads: int, att_dropout: float) -> dict[str, Any]:
    """:return: options of an attention whose queries, keys and values have `out_dim` features in all heads together"""
    return {
        "proj_dim": out_dim,
        "key_dim_total": out_dim,
        "value_dim_total": out_dim,
        "num_heads": num_heads,
        "att_dropout": att_dropout,
    }


class Residual(rf.Module):
    """
    A module whose parts are summed up: `x + part(norm(x))`, with dropout. It has no parameters of its own; layers
    derive from it.
    """

    def __init__(self, out_dim: Dim | int, dropout: float) -> None:
        """
        :param out_dim: features, which come in and out
        :param dropout: probability to drop a feature of a part, in training
        """
        super().__init__()
        self.out_dim = feature_dim(out_dim, "out_dim")
        self.dropout = dropout
        self.dropout_broadcast = rf.dropout_broadcast_default()

    def _dropped(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.dropout_broadcast, self.out_dim)


def drop(x: Tensor, probability: float, broadcast: bool, feature_dim: Dim) -> Tensor:
    """:return: x with dropout; `broadcast`: the same features in all frames of all sequences"""
    return rf.dropout(x, probability, axis=feature_dim if broadcast else None)
