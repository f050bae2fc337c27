"""`LossHolder`: a loss of a layer, with its value, error and norm factor as they are needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_targets import LayerTargets
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.layer_errors import naming_layer
from returnn.tf.util.collectives import norm_factor_of_all


class LossHolder:
    """A loss of a layer. Nothing is computed before it is asked for."""

    def __init__(
        self,
        name: str,
        loss: Loss,
        layer_output: Tensor,
        reduce_func: Callable[[Any], Any] | None = None,
        layer: LayerTargets | None = None,
        loss_value: Any = None,
        error_value: Any = None,
        norm_factor: Any = None,
        only_on_eval: bool | None = None,
        network: Network | None = None,
    ) -> None:
        """
        :param name: of the loss, usually the one of the layer
        :param loss: the loss
        :param layer_output: template of the output of the layer
        :param reduce_func: what sums up the frames; default: their sum
        :param layer: the layer, if it is there already
        :param loss_value: raw scalar, if it is known already
        :param error_value: raw scalar, if it is known already
        :param norm_factor: raw scalar, if it is known already
        :param only_on_eval: not in training
        :param network: the network of the layer
        """
        self.name = name
        self.loss = loss
        self.layer_output = layer_output
        self.reduce_func = reduce_func
        self._layer = layer
        self._network = network
        self._only_on_eval = only_on_eval
        self._given = {"value": loss_value, "error": error_value, "norm_factor": norm_factor}

    def __repr__(self) -> str:
        return f"<LossHolder {self.name!r} {self.loss.class_name!r}>"

    def init(self, layer: LayerTargets) -> LossHolder:
        """Sets the layer, and returns itself."""
        self._layer = layer
        return self

    def get_layer(self) -> LayerTargets:
        """:return: the layer"""
        assert self._layer is not None
        return self._layer

    def get_tf_name(self) -> str:
        """:return: the name, as TensorFlow allows it"""
        return self.get_layer().cls_get_tf_scope_name(self.name)

    def get_only_on_eval(self) -> bool:
        """:return: whether it is not part of the training objective"""
        return self.get_layer().only_on_eval if self._only_on_eval is None else self._only_on_eval

    @cached_property
    def _values(self) -> dict[str, Any]:
        if self._given["value"] is not None or self._given["error"] is not None:
            return self._given
        layer = self.get_layer()
        self.loss.with_reduce_func(self.reduce_func)
        where = f"{layer.where()}: loss {self.loss.class_name!r}"
        with layer.network.construction.compute_scope(layer, suffix="loss"), naming_layer(where, self._inputs):
            self.loss.init_by_layer(layer)
            value, error = self._only_where_wanted(self.loss.get_value), self._only_where_wanted(self.loss.get_error)
            norm_factor = self.loss.get_normalization_factor() if value is not None or error is not None else None
        return {"value": value, "error": error, "norm_factor": norm_factor}

    def _inputs(self) -> dict[str, Any]:
        layer = self.get_layer()
        return {layer.name: layer.output, str(layer.target): layer.get_target_value()}

    def _only_where_wanted(self, compute: Callable[[], Any]) -> Any:
        """:return: raw scalar; 0 in training, if it is only for evaluation"""
        network = self.get_layer().network
        if not self.get_only_on_eval() or network.train_flag is False:
            return compute()
        value = compute()
        return None if value is None else network.cond_on_train(lambda: tf.zeros_like(value), lambda: value)

    def get_loss_value(self) -> Any:
        """:return: raw scalar, the sum over all frames, without scale; None if there is none"""
        return self._values["value"]

    def get_error_value(self) -> Any:
        """:return: raw scalar, the sum over all frames; None if there is none"""
        return self._values["error"]

    def get_norm_factor(self) -> Any:
        """:return: raw scalar, by which the sum becomes a mean"""
        return self._values["norm_factor"]

    def get_loss_value_for_fetch(self) -> Any:
        """:return: what is shown to people: the sum over all frames, without scale"""
        return self.get_loss_value()

    def get_loss_value_for_objective(self) -> Any:
        """:return: raw scalar, the part of the training objective; None if it is none"""
        value = self.get_loss_value()
        if value is None or (self.get_only_on_eval() and self.get_layer().network.is_training_objective):
            return None
        scale = self.loss.scale
        if isinstance(scale, (int, float)) and scale == 0:
            return None
        if not (isinstance(scale, (int, float)) and scale == 1):
            value = value * tf.cast(scale, value.dtype)
        if not self.loss.use_normalized_loss:
            return value
        return value * tf.cast(norm_factor_of_all(tf.convert_to_tensor(self.get_norm_factor())), value.dtype)

    def copy_new_base(
        self,
        name: str | None = None,
        layer: LayerTargets | None = None,
        network: Network | None = None,
        reduce_func: Callable[[Any], Any] | None = None,
    ) -> LossHolder:
        """:return: the same for another layer, as for the outer layer of one inside a subnetwork"""
        same = layer is None and reduce_func is None
        known = self._values if same else {"value": None, "error": None, "norm_factor": None}
        return LossHolder(
            name=name or self.name,
            loss=self.loss,
            layer_output=self.layer_output,
            reduce_func=reduce_func or self.reduce_func,
            layer=layer or self._layer,
            network=network or self._network,
            loss_value=known["value"],
            error_value=known["error"],
            norm_factor=known["norm_factor"],
            only_on_eval=self._only_on_eval,
        )

    def get_loss_value_per_pos(self) -> Any:
        """:return: raw loss of each frame, as the loss gives it to `reduce_func`"""
        return self.with_reduce(lambda x: x).get_loss_value()

    def get_error_value_per_pos(self) -> Any:
        """:return: raw error of each frame, as the loss gives it to `reduce_func`"""
        return self.with_reduce(lambda x: x).get_error_value()

    def get_normalized_loss_value_per_seq(self) -> Any:
        """:return: raw (B,): mean loss of each sequence"""
        return self._per_seq("value")

    def get_normalized_error_value_per_seq(self) -> Any:
        """:return: raw (B,): mean error of each sequence"""
        return self._per_seq("error")

    def _per_seq(self, what: str) -> Any:
        return self.with_reduce(self.loss.mean_of_sequences)._values[what]

    def num_frames_of_sequences(self, batch: Dim) -> Any:
        """:return: raw (B,) or scalar: the number of frames of each sequence that it is about"""
        return self.loss.num_frames_of_sequences(batch)

    def with_reduce(self, reduce_func: Callable[[Any], Any]) -> LossHolder:
        """:return: the same loss, where this function sums up the frames"""
        return LossHolder(
            name=self.name,
            loss=self.loss,
            layer_output=self.layer_output,
            reduce_func=reduce_func,
            layer=self._layer,
            only_on_eval=self._only_on_eval,
            network=self._network,
        )


def total_of(values: list[Any]) -> Any:
    """:return: raw scalar, the sum; a zero if there are none"""
    values = [value for value in values if value is not None and not (isinstance(value, (int, float)) and value == 0)]
    if not values:
        return tf.zeros([], dtype=tf.float32)
    if len(values) == 1:
        return values[0]
    floats = [x.dtype for x in map(tf.convert_to_tensor, values) if x.dtype.is_floating]
    dtype = max([tf.float32, *floats], key=lambda dtype: dtype.size)
    return tf.add_n([tf.cast(value, dtype) for value in values])
