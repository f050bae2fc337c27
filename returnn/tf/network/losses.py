"""`NetworkLosses`: losses of all layers of a network, and the training objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from returnn.tf.layers.core.floors.layer_core import target_keys
from returnn.tf.layers.core.loss_holder import LossHolder, total_of
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.network.data import NetworkData
from returnn.tf.network.layer_lists import subnets_without_layer
from returnn.tf.util.collectives import share_of_constraints


def no_loss_text(net_dict: Mapping[str, Any], *, purpose: str) -> str:
    """
    :param net_dict: the layers
    :param purpose: what losses are needed for
    :return: error for a network without losses
    """
    with_loss = [*_with_loss(net_dict)]
    if with_loss:
        names, outer = ", ".join(repr("/".join(path)) for path in with_loss), with_loss[0][0]
        hint = f"Call {outer!r} \"output\", or give it 'is_output_layer': True."
        return f"{purpose}: no layer that is made has a loss. Nothing needs these, which have one: {names}.\n  {hint}"
    hint = "Add 'loss' and 'target' to a layer, such as 'loss': 'ce', 'target': 'classes' to a softmax."
    return f"{purpose}: no layer has a loss.\n  {hint}"


def _with_loss(net_dict: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """:return: the names of each layer with a loss, and of those around it"""
    for name, layer in net_dict.items():
        options = layer if isinstance(layer, Mapping) else {}
        if options.get("loss"):
            yield (name,)
        for inside in options.values():
            if isinstance(inside, Mapping):
                yield from ((name, *path) for path in _with_loss(inside))


class NetworkLosses:
    """What is to be minimized. Losses and totals are computed once, when they are first needed."""

    def __init__(self, net: Network, data: NetworkData) -> None:
        """
        :param net: the network
        :param data: of the network
        """
        self.net = net
        self.data = data
        self.by_name: dict[str, LossHolder] = {}
        self.total: Any = None
        self.total_constraints: Any = None
        self.objective: Any = None

    def are_wanted(self, target: Any, loss_class: Any) -> bool:
        """:return: whether a layer with this loss and target has to compute it"""
        if not (self.net.eval_flag or self.net.is_training_objective):
            return False
        may_be_unknown = self.net.search_flag and not self.net.is_training_objective  # hypotheses need no target
        return not (may_be_unknown and self.unknown_targets(target))

    def unknown_targets(self, target: Any) -> list[str]:
        """:return: keys of this option `target` which are neither data nor registered as such by a layer"""
        keys = [key for key in target_keys(target) if not key.startswith("layer:")]
        return [key for key in keys if not self.data.is_known(key)]

    def initialized(
        self, reduce_func: Callable[[Any], Any] | None = None, with_total: bool = False
    ) -> tuple[dict[str, LossHolder], Any, Any]:
        """
        :param reduce_func: what sums up the frames of a loss; default: their sum
        :param with_total: also the total of all losses, and of all constraints on parameters and outputs
        :return: losses by name, total loss, total constraints; the totals as raw scalars, or None
        """
        losses: dict[str, LossHolder] = {}
        for layer in self._layers_with_own_losses():
            for loss in layer.get_losses_initialized(reduce_func=reduce_func):
                assert loss.name not in losses, f"two losses with the name {loss.name!r}"
                losses[loss.name] = loss
        for name, net in subnets_without_layer(self.net).items():
            for loss in net.get_losses_initialized(reduce_func=reduce_func)[0].values():
                loss.name = f"{name}/{loss.name}"
                losses[loss.name] = loss
        if not with_total:
            return losses, None, None
        total = total_of([loss.get_loss_value_for_objective() for loss in losses.values()])
        return losses, total, self.constraints()

    def constraints(self) -> Any:
        """:return: raw scalar: the sum of all constraints on parameters and outputs, of all layers"""
        own = [layer.get_constraints_value() for layer in self._layers_with_own_losses()]
        return total_of([*own, *(net.get_constraints() for net in subnets_without_layer(self.net).values())])

    def _layers_with_own_losses(self) -> list[Any]:
        """:return: the layers of this network, of which each speaks for the networks inside of it, too"""
        return [layer for name, layer in sorted(self.net.layers.items()) if layer.name == name]

    def compute(self) -> None:
        """Computes losses and totals, once."""
        if self.objective is None:
            self.by_name, self.total, self.total_constraints = self.initialized(with_total=True)
            self.objective = total_of([self.total, share_of_constraints(self.total_constraints)])

    def fetches(
        self,
        *,
        with_losses: bool = False,
        with_summary: bool = False,
        with_size: bool = False,
        summed_by_workers: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """
        What a step of a session computes, beside what is fetched for its own sake.

        :param with_losses: losses, errors and the objective
        :param with_summary: all summaries for TensorBoard
        :param with_size: lengths of all data, by key and axis, counted without the batch axis
        :param summed_by_workers: is filled: losses and norm factors, which workers sum up
        :return: raw tensors by name: `size:data:0`, `loss`, `constraints`, `cost:NAME`, `error:NAME`, ...
        """
        if with_losses:
            self.compute()  # first: losses say which data is used
        fetches: dict[str, Any] = self._fetches_of_sizes() if with_size else {}
        if with_losses:
            fetches.update(self._fetches_of_losses())
            if summed_by_workers is not None:
                summed = ("cost:", "error:", "loss_norm_factor:")
                summed_by_workers.update({k: v for k, v in fetches.items() if k.startswith(summed)})
        if with_summary:
            fetches["summary"] = tf.compat.v1.summary.merge_all()
        return {name: value for name, value in fetches.items() if value is not None}

    def _fetches_of_sizes(self) -> dict[str, Any]:
        used = self.data.used()
        return {
            f"size:{key}:{axis}": dim.dyn_size
            for key, data in self.net.extern_data.data.items()
            for axis, dim in enumerate(dim for dim in data.dims if not dim.is_batch_dim())
            if key in used and dim.is_dynamic_seq_length()
        }

    def _fetches_of_losses(self) -> dict[str, tf.Tensor]:
        values: dict[str, Any] = {"loss": self.total, "constraints": self.total_constraints}
        for name, loss in self.by_name.items():
            values[f"cost:{name}"] = loss.get_loss_value_for_fetch()
            values[f"error:{name}"] = loss.get_error_value()
            values[f"loss_norm_factor:{name}"] = loss.get_norm_factor()
        # What is a plain number, such as a `custom_norm_factor`, cannot be fetched.
        return {name: tf.convert_to_tensor(value) for name, value in values.items() if value is not None}
