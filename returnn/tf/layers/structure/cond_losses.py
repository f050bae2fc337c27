"""Losses and regularization of the two layers of a "cond": they count if the layer is the one that is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.util.errors import ConfigError

_REGULARIZATION = ("L2", "darc1", "spatial_smoothing")


class CondLosses:
    """
    What the losses of both layers are.

    A condition gives the same number of values, whichever layer is computed. So there is a place for each loss that the
    options of one of the layers may have, and in those of the other layer is a zero.
    """

    def __init__(self, options: Mapping[str, Mapping[str, Any] | None]) -> None:
        """
        :param options: of both layers, by "true_layer" and "false_layer"; None for one that exists already
        """
        self._num = {key: _num_losses(desc) for key, desc in options.items()}
        self._regularized = [key for key, desc in options.items() if _is_regularized(desc)]
        self._holders: dict[str, list[LossHolder]] = {}
        self._values: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {}
        self._constraints: Tensor | None = None

    @property
    def has_any(self) -> bool:
        """Whether there may be losses or regularization."""
        return bool(self._regularized) or any(self._num.values())

    def computed(self, key: str, layer: LayerBase) -> Any:
        """
        :param key: "true_layer" or "false_layer"
        :param layer: the layer, in its branch
        :return: values to hand out of the branch
        """
        self._holders[key] = holders = layer.get_losses_initialized() if self._num[key] else []
        if len(holders) > self._num[key]:
            raise ConfigError(
                f"{layer.where()}: it has {len(holders)} losses, its options only say {self._num[key]}.\n"
                "  Inside of a 'cond', each loss has to stand in the net dict."
            )
        found = [(loss.get_loss_value(), loss.get_error_value(), loss.get_norm_factor()) for loss in holders]
        nothing = (None, None, None)
        values = {k: [*(found if k == key else ()), *[nothing] * num][:num] for k, num in self._num.items()}
        values = {k: [tuple(map(_scalar, triple)) for triple in triples] for k, triples in values.items()}
        return values, _scalar(layer.get_constraints_value() if key in self._regularized else None)

    def set_values(self, values: Any) -> None:
        """Takes what came out of the condition."""
        self._values, self._constraints = values

    def constraints(self) -> Any:
        """:return: raw scalar"""
        return 0 if self._constraints is None else self._constraints.raw_tensor

    def holders(self, layer: LayerBase, reduce_func: Callable[[Any], Any] | None) -> list[LossHolder]:
        """
        :param layer: the "cond"
        :param reduce_func: has to be None
        :return: the losses, with their values; those of the same name in both layers are one
        """
        found: dict[str, LossHolder] = {}
        for key, holders in self._holders.items():
            for inner, values in zip(holders, self._values[key], strict=False):
                holder = _holder(layer, inner, [value.raw_tensor for value in values])
                same = found.get(holder.name)
                found[holder.name] = holder if same is None else _sum_of(layer, same, holder)
        if found and reduce_func is not None:
            raise ConfigError(f"{layer.where()}: the losses inside are only known as their sum over all frames.")
        return list(found.values())


def _holder(layer: LayerBase, inner: LossHolder, values: list[Any]) -> LossHolder:
    has_value, has_error = inner.get_loss_value() is not None, inner.get_error_value() is not None
    return LossHolder(
        name=inner.name,
        loss=inner.loss,
        layer_output=layer.output,
        layer=layer,
        network=layer.network,
        loss_value=values[0] if has_value else None,
        error_value=values[1] if has_error else None,
        norm_factor=values[2],
        only_on_eval=inner.get_only_on_eval(),
    )


def _sum_of(layer: LayerBase, a: LossHolder, b: LossHolder) -> LossHolder:
    """:return: both as one: one of them is zero"""
    if (a.loss.scale, a.loss.use_normalized_loss) != (b.loss.scale, b.loss.use_normalized_loss):
        raise ConfigError(f"{layer.where()}: the losses {a.name!r} of both layers need the same 'scale' and norm.")
    pairs = [(x.get_loss_value(), x.get_error_value(), x.get_norm_factor()) for x in (a, b)]
    values = [x if y is None else y if x is None else x + y for x, y in zip(*pairs, strict=True)]
    return LossHolder(
        name=a.name,
        loss=a.loss,
        layer_output=layer.output,
        layer=layer,
        network=layer.network,
        loss_value=values[0],
        error_value=values[1],
        norm_factor=values[2],
        only_on_eval=a.get_only_on_eval(),
    )


def _scalar(value: Any) -> Tensor:
    raw = tf.cast(0.0 if value is None else value, tf.float32)
    return Tensor("loss", dims=(), dtype="float32", raw_tensor=raw)


def _num_losses(desc: Any) -> int:
    """:return: how many losses a layer with these options has at most, with those inside of it"""
    if not isinstance(desc, Mapping):
        return 0
    return (desc.get("loss") is not None) + sum(map(_num_losses, desc.values()))


def _is_regularized(desc: Any) -> bool:
    if not isinstance(desc, Mapping):
        return False
    return any(desc.get(option) for option in _REGULARIZATION) or any(map(_is_regularized, desc.values()))
