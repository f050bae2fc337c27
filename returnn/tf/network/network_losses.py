"""Losses of all layers of a network, and the training objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from returnn.tf.layers.core.layer_losses import target_keys
from returnn.tf.layers.core.loss_holder import LossHolder, total_of
from returnn.tf.util.regularization import spatial_smoothing_of_output

if TYPE_CHECKING:
    from returnn.tf.network.network import TFNetwork


class NetworkLosses:
    """The part of `TFNetwork` about losses."""

    def _init_losses(self: TFNetwork) -> None:
        self.losses_dict: dict[str, LossHolder] = {}
        self.total_loss: Any = None
        self.total_constraints: Any = None
        self.total_objective: Any = None

    def wants_loss(self: TFNetwork, target: Any, loss_class: Any) -> bool:
        """:return: whether a layer with this loss and target has to compute it"""
        if not (self.eval_flag or self.is_training_objective):
            return False
        keys = target_keys(target)
        for key in keys:
            self.make_layer_that_registers(key)
        return all(key.startswith("layer:") or self.get_root_network().extern_data.has_data(key) for key in keys)

    def get_losses_initialized(
        self: TFNetwork, reduce_func: Callable[[Any], Any] | None = None, with_total: bool = False
    ) -> tuple[dict[str, LossHolder], Any, Any]:
        """
        :param reduce_func: what sums up the frames of a loss; default: their sum
        :param with_total: also the total of all losses, and of all constraints on parameters and outputs
        :return: losses by name, total loss, total constraints; the totals as raw scalars, or None
        """
        losses: dict[str, LossHolder] = {}
        for layer in self.get_layers_with_own_losses():
            for loss in layer.get_losses_initialized(reduce_func=reduce_func):
                assert loss.name not in losses, f"two losses with the name {loss.name!r}"
                losses[loss.name] = loss
        for name, net in self.subnets_without_layer().items():
            for loss in net.get_losses_initialized(reduce_func=reduce_func)[0].values():
                loss.name = f"{name}/{loss.name}"
                losses[loss.name] = loss
        if not with_total:
            return losses, None, None
        total = total_of([loss.get_loss_value_for_objective() for loss in losses.values()])
        return losses, total, self.get_constraints()

    def get_constraints(self: TFNetwork) -> Any:
        """:return: raw scalar: the sum of all constraints on parameters and outputs, of all layers"""
        own = [layer.get_constraints_value() for layer in self.get_layers_with_own_losses()]
        return total_of([*own, *(net.get_constraints() for net in self.subnets_without_layer().values())])

    def get_layers_with_own_losses(self: TFNetwork) -> list[Any]:
        """:return: the layers of this network, of which each speaks for the networks inside of it, too"""
        return [layer for name, layer in sorted(self.layers.items()) if layer.name == name]

    def maybe_construct_objective(self: TFNetwork) -> None:
        """Computes losses and totals, once."""
        if self.total_objective is None:
            self.losses_dict, self.total_loss, self.total_constraints = self.get_losses_initialized(with_total=True)
            self.total_objective = total_of([self.total_loss, self.total_constraints])

    def get_objective(self: TFNetwork) -> Any:
        """:return: raw scalar, what training minimizes"""
        self.maybe_construct_objective()
        return self.total_objective

    def get_total_loss(self: TFNetwork) -> Any:
        """:return: raw scalar, total of all losses"""
        self.maybe_construct_objective()
        return self.total_loss

    def get_total_constraints(self: TFNetwork) -> Any:
        """:return: raw scalar, total of all constraints"""
        self.maybe_construct_objective()
        return self.total_constraints

    def get_fetches_dict(
        self: TFNetwork,
        config: Any = None,
        should_train: bool | None = None,
        should_eval: bool | None = None,
        with_summary: bool = False,
        with_size: bool = False,
        horovod_collected_reduce_inputs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """
        What a step of a session computes, beside what is fetched for its own sake.

        :param config: default: that of the network
        :param should_train: losses and the objective
        :param should_eval: losses and errors
        :param with_summary: all summaries for TensorBoard
        :param with_size: lengths of all data
        :param horovod_collected_reduce_inputs: is filled: losses and norm factors, which workers sum up
        :return: raw tensors by name: `size:data:0`, `loss`, `constraints`, `cost:NAME`, `error:NAME`, ...
        """
        if should_train or should_eval:
            self.maybe_construct_objective()  # first: losses say which data is used
        fetches: dict[str, Any] = self._fetches_of_sizes() if with_size else {}
        if should_train or should_eval:
            fetches.update(loss=self.total_loss, constraints=self.total_constraints)
            fetches.update(self._fetches_of_losses())
            if horovod_collected_reduce_inputs is not None:
                summed = ("cost:", "error:", "loss_norm_factor:")
                horovod_collected_reduce_inputs.update({k: v for k, v in fetches.items() if k.startswith(summed)})
        if with_summary:
            fetches["summary"] = tf.compat.v1.summary.merge_all()
        return {name: value for name, value in fetches.items() if value is not None}

    def _fetches_of_sizes(self: TFNetwork) -> dict[str, Any]:
        used = self.get_used_data_keys()
        return {
            f"size:{key}:{axis}": dim.dyn_size
            for key, data in self.extern_data.data.items()
            for axis, dim in enumerate(data.dims)
            if key in used and dim.is_dynamic_seq_length()
        }

    def _fetches_of_losses(self: TFNetwork) -> dict[str, Any]:
        fetches: dict[str, Any] = {}
        for name, loss in self.losses_dict.items():
            fetches[f"cost:{name}"] = loss.get_loss_value_for_fetch()
            fetches[f"error:{name}"] = loss.get_error_value()
            fetches[f"loss_norm_factor:{name}"] = loss.get_norm_factor()
        return fetches

    @staticmethod
    def spatial_smoothing_energy(output: Any) -> Any:
        """:return: raw scalar, see `returnn.tf.util.regularization.spatial_smoothing_energy`"""
        return spatial_smoothing_of_output(output)
