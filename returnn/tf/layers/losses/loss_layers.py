"""Layers whose output is a loss for each frame or sequence, to compute with further."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.frames_of_target import with_dims_of
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.loss import Loss, make_loss
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.no_sources import NoSourcesLayer
from returnn.tf.layers.losses.sequence_losses import num_infinite, without_infinity, zero_with_gradient_of_softmax
from returnn.tf.layers.options.blank_class import blank_class, warn_of_shifted_labels
from returnn.tf.layers.options.registry import get_loss_class
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError


class LossLayer(LayerBase):
    """
    The value or the error of a loss, for each frame or each sequence.

    Source: what is compared with the target. Output: the dims that the loss keeps. The sub layers "loss" and "error"
    have both.
    """

    layer_class = "loss"
    recurrent = True  # it depends on the loss

    def __init__(self, loss_: Loss, target_: LayerBase | None = None, use_error: bool = False, **kwargs: Any) -> None:
        """
        :param loss_: name of the loss; its options are in `loss_opts_`
        :param target_: layer, or data such as "classes"
        :param use_error: the output is the error
        """
        super().__init__(**kwargs)
        self.loss_ = loss_
        self.target_ = target_
        self.use_error = use_error

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`."""
        is_name = d.get("loss_") is not None and not isinstance(d["loss_"], Loss)
        loss_class = get_loss_class(d["loss_"]) if is_name else None
        options = dict(d.pop("loss_opts_", None) or {})
        target = d.get("target_")
        if target is None and loss_class is not None and loss_class.need_target:
            target = loss_class.get_default_target(network.extern_data)
        if isinstance(target, str):
            d["target_"] = _name_of_target(target, network)
        super().transform_config_dict(d, network=network, get_layer=get_layer)
        if loss_class is not None:
            loss_class.transform_config_dict(options, network=network, get_layer=get_layer)
            where = f"layer {network.get_absolute_name_prefix() + str(d.get('_name'))!r}"
            d["loss_"] = make_loss(loss_class, options, network=network, where=where)

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: [...]"""
        if len(sources) != 1:
            raise ConfigError(f"{self.where()}: exactly one source is needed (option 'from'), not {len(sources)}.")
        return self._value("error" if self.use_error else "loss")

    @classmethod
    def get_available_sub_layer_names(cls, parent_layer_kwargs: dict[str, Any]) -> list[str]:
        """:return: "loss" and "error" """
        return ["loss", "error"]

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: layer with the value or the error"""
        if layer_name not in ("loss", "error"):
            return None
        with self.network.construction.compute_scope(self, suffix=layer_name):
            output = self._value(layer_name)
        return InternalLayer(name=f"{self.name}/{layer_name}", network=self.network, output=output)

    def _value(self, what: str) -> Tensor:
        source = self.sources[0]
        self.loss_.init(
            output=source.output,
            output_with_activation=source.output_before_activation,
            target=None if self.target_ is None else self.target_.output,
            layer=self,
        )
        value = self.loss_.error_per_frame() if what == "error" else self.loss_.value_per_frame()
        if value is None:
            raise ConfigError(f"{self.where()}: the loss {self.loss_.class_name!r} has no {what}.")
        return value


class CtcLossLayer(NoSourcesLayer):
    """
    CTC (Graves et al. 2006): negative log probability of the targets, over all alignments.

    Output [B]. It is 0 where there is no alignment; there is no gradient then since behavior version 30, and that of
    the sum of all logits' normalization before.
    """

    layer_class = "ctc_loss"
    recurrent = True

    def __init__(
        self,
        logits: LayerBase,
        targets: LayerBase,
        logits_normalized: bool = False,
        blank_index: int = -1,
        max_approx: bool = False,
        label_loop: bool = True,
        **kwargs: Any,
    ) -> None:
        """
        :param logits: [B, T, F]
        :param targets: [B, S], labels
        :param logits_normalized: the logits are log probabilities
        :param blank_index: the label for blank; negative: counted from the end
        :param max_approx: the best alignment alone, instead of all
        :param label_loop: whether a label can last several frames
        """
        super().__init__(**kwargs)
        self.logits = logits
        self.targets = targets  # type: ignore[assignment]  # of LayerBase, these are names
        self.logits_normalized = logits_normalized
        self.blank_index = blank_index
        self.max_approx = max_approx
        self.label_loop = label_loop

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [B]"""
        logits, targets = self.logits.output, self.targets.output  # type: ignore[attr-defined]
        if logits.feature_dim is None or not targets.sparse:
            raise ConfigError(
                f"{self.where()}: the logits need a feature dim, the targets have to be labels.\n"
                f"  Logits: {logits}, targets: {targets}."
            )
        source, option = f"{self.where()}: option 'logits': {self.logits.name!r}", "'blank_index'"
        warn_of_shifted_labels(self.blank_index, logits.feature_dim, targets.sparse_dim, source=source, option=option)
        value = rf.ctc_loss(
            logits=logits,
            logits_normalized=self.logits_normalized,
            targets=targets,
            input_spatial_dim=logits.get_time_dim_tag(),
            targets_spatial_dim=targets.get_time_dim_tag(),
            blank_index=self.blank_of(logits.feature_dim),
            max_approx=self.max_approx,
            label_loop=self.label_loop,
        )
        self.num_uncounted_seqs = num_infinite(value)
        if BehaviorVersion.get() >= 30 or self.logits_normalized:
            return without_infinity(value)
        return zero_with_gradient_of_softmax(value, logits, logits.feature_dim, logits.get_time_dim_tag())

    def blank_of(self, classes: Dim) -> int:
        """:return: the class of blank"""
        return blank_class(self.blank_index, classes.get_dim_value(), option="blank_index", where=self.where())


class SparseSoftmaxCrossEntropyWithLogitsLayer(NoSourcesLayer):
    """
    Cross entropy between the softmax of the logits and class labels.

    Logits [..., F], targets [...], output [...]. Targets with a time dim of their own have a label for each frame.
    """

    layer_class = "sparse_softmax_cross_entropy_with_logits"

    def __init__(self, logits: LayerBase, targets: LayerBase, axis: str | Dim | None = None, **kwargs: Any) -> None:
        """
        :param logits: [..., F]
        :param targets: [...], labels
        :param axis: the classes, default: the feature dim
        """
        super().__init__(**kwargs)
        self.logits = logits
        self.targets = targets  # type: ignore[assignment]  # of LayerBase, these are names
        self.axis = axis

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [...]"""
        logits, targets = self.logits.output, self.targets.output  # type: ignore[attr-defined]
        if not targets.sparse:
            raise ConfigError(f"{self.where()}: the targets have to be sparse, not {targets}.")
        axis = self.dim_of(logits, "F" if self.axis is None else self.axis, option="axis")
        if targets.sparse_dim != axis and targets.sparse_dim.dimension == axis.dimension:
            targets = rf.set_sparse_dim(targets, axis)
        targets = with_dims_of(targets, logits, self.where())
        return rf.cross_entropy(estimated=logits, target=targets, axis=axis, estimated_type="logits")


def _name_of_target(target: str, network: Network) -> str:
    if target.startswith("layer:"):
        return target[len("layer:") :]
    is_data = network.get_root_network().extern_data.has_data(target) and target not in network.layers_desc
    return f"data:{target}" if is_data else target
