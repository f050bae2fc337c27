"""Choice between two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.option_values import value_like, value_of
from returnn.tf.layers.core.step_state import UndefinedSource
from returnn.tf.layers.elementwise.outer_product import feature_product_warning
from returnn.tf.layers.options.broadcasting import with_common_dims
from returnn.util.errors import ConfigError


class SwitchLayer(LayerBase):
    """
    Elementwise choice: `output[i] = true_from[i] if condition[i] else false_from[i]`.

    The output has the dims of all three. Both values are computed. With a function or a bool as condition, the other
    one does not even exist.
    """

    layer_class = "switch"

    def __init__(
        self,
        condition: LayerBase | bool | Callable[..., bool],
        true_from: LayerBase | float | int | None,
        false_from: LayerBase | float | int | None,
        **kwargs: Any,
    ) -> None:
        """
        :param condition: layer with bools; or, to choose when the layer is made, a bool or a function which returns one
        :param true_from: layer or number
        :param false_from: layer or number
        """
        super().__init__(**kwargs)
        self.condition = condition
        self.true_from = true_from
        self.false_from = false_from

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """Leaves out what is not chosen. See `LayerBase.transform_config_dict`."""
        d.setdefault("from", [])
        condition = d.get("condition")
        if callable(condition) and not isinstance(condition, LayerBase):
            d["condition"] = condition = bool(condition(network=network, get_layer=get_layer))
        if isinstance(condition, bool):
            d["false_from" if condition else "true_from"] = None
        cls._resolve_values(d, get_layer)
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    @staticmethod
    def _resolve_values(d: dict[str, Any], get_layer: Callable[[str], Any]) -> None:
        """Both values. Inside of a loop, one of them may be this layer in the frame before: the other one says what it
        looks like then."""
        undefined: dict[str, UndefinedSource] = {}
        for option in ("true_from", "false_from"):
            if isinstance(d.get(option), str):
                try:
                    d[option] = get_layer(d[option])
                except UndefinedSource as exc:
                    undefined[option] = exc
        for option, exc in undefined.items():
            other = d["false_from" if option == "true_from" else "true_from"]
            if not isinstance(other, LayerBase):
                raise exc
            d[option] = other

    def compute_inputs(self) -> list[Any]:
        """:return: condition, and the two values"""
        return [value_of(option) for option in (self.condition, self.true_from, self.false_from)]

    def compute(self, condition: Any, true_value: Any, false_value: Any) -> Tensor:
        """:return: the dims of all three"""
        if isinstance(condition, Tensor) and condition.dtype != "bool":
            raise ConfigError(f"{self.where()}: option 'condition': expected bools, but {condition} has other values.")
        dtype = next((x.dtype for x in (true_value, false_value) if isinstance(x, Tensor)), "")
        values = [value_like(value, dtype) for value in (true_value, false_value)]
        operands = with_common_dims(self, [condition, *values])
        self.warning = feature_product_warning(self, operands)
        return rf.where(*operands, allow_broadcast_all_sources=True)
