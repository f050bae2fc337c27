"""Targets and losses of layers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from returnn.config.option_types import check_type
from returnn.tensor import Tensor
from returnn.tf.layers.core.floors.layer_core import target_keys
from returnn.tf.layers.core.floors.layer_targets import LayerTargets
from returnn.tf.layers.core.loss import Loss, make_loss
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.regularization import constraint_of_totals
from returnn.tf.layers.core.step_state import UndefinedSource
from returnn.tf.layers.options.registry import get_loss_class
from returnn.util.errors import ConfigError, nearest_hint
from returnn.util.not_specified import NotSpecified


class LayerLosses(LayerTargets):
    """The part of `LayerBase` about targets and losses."""

    @classmethod
    def _transform_targets_and_loss(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """Turns the options `loss`, `loss_opts`, `loss_scale`, `target` into a `Loss` and layers, in place."""
        where = f"layer {network.get_absolute_name_prefix() + str(d.get('_name'))!r} (class {cls.class_name()!r})"
        _check_types(d, where)
        loss_class, is_default = None, False
        if d.get("loss") is not None and not isinstance(d["loss"], Loss):
            loss_class = get_loss_class(d["loss"])
            if d.get("target") is None and loss_class.need_target:
                d["target"] = loss_class.get_default_target(network.extern_data)
                is_default = True
        for key in target_keys(d.get("target")):
            if key.startswith("layer:"):
                with contextlib.suppress(UndefinedSource):  # inside of a loop, where the output may not depend on it
                    d.setdefault("_target_layers", {})[key] = get_layer(key[len("layer:") :])
        options = dict(d.pop("loss_opts", None) or {})
        scale = d.pop("loss_scale", None)
        only_on_non_search = d.pop("loss_only_on_non_search", False)
        if loss_class is None:
            return
        if scale is not None:
            if options.get("scale", scale) != scale:
                raise ConfigError(f"{where}: 'loss_scale' and loss_opts['scale'] contradict each other.")
            options["scale"] = scale
        is_left_out = (only_on_non_search and network.search_flag) or not network.wants_loss(
            d.get("target"), loss_class
        )
        needs_dim = d.get("n_out", NotSpecified) is NotSpecified and d.get("out_dim") is None
        if not is_left_out or (is_default and needs_dim):
            _check_target(d.get("target"), network, where, is_default=is_default)
        if is_left_out:
            d["loss"] = None
            if needs_dim:
                d["_loss_left_out"] = loss_class
            return
        loss_class.transform_config_dict(options, network=network, get_layer=get_layer)
        d["loss"] = make_loss(loss_class, options, network=network, where=where)

    @classmethod
    def get_losses(
        cls,
        name: str,
        network: Network,
        output: Tensor,
        loss: Loss | None = None,
        reduce_func: Callable[[Any], Any] | None = None,
        layer: LayerTargets | None = None,
        **kwargs: Any,
    ) -> list[LossHolder]:
        """
        :param name: of the layer
        :param network: of the layer
        :param output: template of the output
        :param loss: the loss of the layer
        :param reduce_func: what sums up the frames; default: their sum
        :param layer: the layer, if it is there already
        :param kwargs: other options of the layer
        :return: all losses of the layer
        """
        if loss is None:
            return []
        only_on_eval = kwargs.get("only_on_eval", False)
        return [LossHolder(name, loss, output, reduce_func, layer, network=network, only_on_eval=only_on_eval)]

    def get_losses_initialized(self, reduce_func: Callable[[Any], Any] | None = None) -> list[LossHolder]:
        """:return: all losses of the layer, ready to be computed"""
        options = {k: v for k, v in self.kwargs.items() if k not in ("name", "network", "output", "loss")}
        losses = type(self).get_losses(
            name=self.name,
            network=self.network,
            output=self.output,
            loss=self.loss,
            reduce_func=reduce_func,
            layer=self,
            **options,
        )
        return [loss.init(self) if loss._layer is None else loss for loss in losses]

    def losses_after_loop(self) -> list[LossHolder]:
        """:return: losses that came about inside of this layer in all frames of the loop that it is in"""
        return []

    def constraints_after_loop(self) -> Any:
        """:return: raw scalar: the same of constraints, with its own"""
        return constraint_of_totals(self)


def _check_target(target: Any, network: Network, where: str, *, is_default: bool) -> None:
    for key in network.unknown_targets(target):
        known = {*network.extern_data.data, *network.get_root_network().extern_data.data}  # as inside of a loop, too
        if is_default:
            raise ConfigError(
                f"{where}: option 'target' is missing, what to compare with. By default, it is {key!r}, which is not"
                f" in extern_data.\n  Possible: {', '.join(map(repr, sorted(known)))}, or 'layer:' and the name of a"
                " layer."
            )
        raise ConfigError(
            f"{where}: the 'target' {key!r} of the loss is not in extern_data.\n"
            f"  {nearest_hint(key, known)} A layer of the network would be 'layer:' and its name."
        )


_TYPES = {"target": str | list[str], "loss": str, "loss_opts": dict, "loss_scale": float}  # what a config can write


def _check_types(d: dict[str, Any], where: str) -> None:
    for option, annotation in _TYPES.items():
        check_type(option, d.get(option), annotation, where=where)
