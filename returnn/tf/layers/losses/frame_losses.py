"""Losses that compare a distribution over classes with a target, frame by frame."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.kernels.cross_entropy import native_cross_entropy
from returnn.tf.layers.core.loss import Loss
from returnn.tf.util.grad import with_unit_gradient
from returnn.tf.util.safe_math import safe_log
from returnn.util.errors import ConfigError, check_known
from returnn.util.texts.counted import counted

INPUT_TYPES = ("prob", "log_prob", "logits")  # of cross entropy


class CrossEntropyLoss(Loss):
    """
    Cross entropy between the target and the output, a distribution over the feature dim.

    Where the output comes from a softmax, it is computed from the logits.
    """

    class_name = "ce"
    need_target = True
    has_perplexity: bool = True

    def __init__(
        self,
        focal_loss_factor: float = 0.0,
        label_smoothing: float = 0.0,
        label_smoothing_gaussian: bool = False,
        debug_dump: bool = False,
        safe_log_opts: dict[str, Any] | None = None,
        use_fused: bool = True,
        input_type: str = "prob",
        fake_upper_bound: float | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param focal_loss_factor: gamma of Lin et al. 2017, "Focal Loss for Dense Object Detection"; 0: plain
        :param label_smoothing: this part of the probability mass is spread over the other labels, also in evaluation.
            The score is then the divergence from these probabilities, which is 0 at best: no cross entropy of the
            labels, and nothing for rescoring; the network with `label_smoothing` 0 has these
        :param label_smoothing_gaussian: labels with a near index get more of it than those further away
        :param debug_dump: print targets and the probabilities that they got
        :param safe_log_opts: options of `returnn.tf.util.basic.safe_log`, for the logarithm of the output
        :param use_fused: take the logits, if they are known
        :param input_type: "prob", "log_prob" or "logits": what the output is
        :param fake_upper_bound: the value is cut at this, the gradient is not
        """
        super().__init__(**kwargs)
        check_known("input_type", input_type, INPUT_TYPES, where="loss 'ce'")
        if not 0 <= label_smoothing < 1:
            raise ConfigError(f"loss 'ce': option 'label_smoothing': expected 0 to below 1, got {label_smoothing}.")
        self.focal_loss_factor = focal_loss_factor
        self.label_smoothing = label_smoothing
        self.has_perplexity = not label_smoothing
        self.label_smoothing_gaussian = label_smoothing_gaussian
        self.debug_dump = debug_dump
        self.safe_log_opts = safe_log_opts or {}
        self.use_fused = use_fused
        self.input_type = input_type
        self.fake_upper_bound = fake_upper_bound

    def takes_probabilities(self) -> bool:
        """:return: as `input_type` says"""
        return self.input_type == "prob"

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        self._check_number_of_classes()
        value = self._smoothed() if self.label_smoothing else self._plain()
        if self.focal_loss_factor:
            value = value * (1.0 - self.target_prob()) ** self.focal_loss_factor
        if self.debug_dump:
            value = self._dumped(value)
        if self.fake_upper_bound is not None:
            value = value + rf.stop_gradient(rf.minimum(value, self.fake_upper_bound) - value)
        return value

    def _check_number_of_classes(self) -> None:
        target, axis = self.require_target(), self.require_axis()
        labels = target.sparse_dim
        if labels is not None and labels != axis and labels.dimension != axis.dimension:
            raise ConfigError(
                f"{self.where()}: the output has {counted(axis.dimension, 'class')}, the target has "
                f"{counted(labels.dimension, 'label')}."
            )

    def get_output_target_scores(self) -> Any:
        """:return: raw, flat: the probability of the target in each valid frame"""
        return self._flatten(self.target_prob())

    def target_prob(self) -> Tensor:
        """:return: [B, T]: the probability of the target in each frame"""
        if not self.require_target().sparse:
            raise ConfigError(f"{self.where()}: this needs class labels as target, not {self.target}.")
        return rf.exp(rf.neg(self._plain()))

    def _plain(self) -> Tensor:
        target, axis = self.require_target(), self.require_axis()
        logits = self._logits()
        if logits is not None:
            return rf.cross_entropy(estimated=logits, target=target, axis=axis, estimated_type="logits")
        return rf.cross_entropy(estimated=self._log_prob(), target=target, axis=axis, estimated_type="log-probs")

    def _smoothed(self) -> Tensor:
        """:return: cross entropy to the smoothed target, less its smallest possible value"""
        target, axis = self.require_target(), self.require_axis()
        num_classes = axis.get_dim_value()
        keep, other = 1.0 - self.label_smoothing, self.label_smoothing / (num_classes - 1)
        smallest = -(keep * math.log(keep) + (num_classes - 1) * other * math.log(other + 1e-20))
        if self.label_smoothing_gaussian:
            value = self._to_density(_gaussian_around(self._class_labels(), axis, deviation=keep))
        elif (by_kernel := self._smoothed_by_kernel(keep, other)) is not None:
            value = by_kernel
        else:
            log_prob = self._log_prob()
            plain = rf.cross_entropy(estimated=log_prob, target=target, axis=axis, estimated_type="log-probs")
            value = plain * (keep - other) - rf.reduce_sum(log_prob, axis=axis, use_mask=False) * other
        return value - smallest

    def _smoothed_by_kernel(self, label_prob: float, other_prob: float) -> Tensor | None:
        """:return: cross entropy to these probabilities, from logits; None where there is no kernel for that"""
        logits, target, axis = self._logits(), self.require_target(), self.require_axis()
        is_template = rf.get_selected_backend() == "template"
        if logits is None or is_template or not target.sparse or {*target.dims, axis} != {*logits.dims}:
            return None
        raw = native_cross_entropy(
            logits.copy_transpose([*target.dims, axis]).raw_tensor,
            target.copy_masked(0).raw_tensor,
            label_prob=label_prob,
            other_prob=other_prob,
        )
        return None if raw is None else Tensor("ce", dims=target.dims, dtype=logits.dtype, raw_tensor=raw)

    def _to_density(self, density: Tensor) -> Tensor:
        """:return: cross entropy to something whose sum is not 1. The gradient does not know that."""
        axis = self.require_axis()
        logits = self._logits()
        scores = self._log_prob() if logits is None else logits
        normalizer = rf.reduce_logsumexp(scores, axis=axis, use_mask=False)
        total = rf.reduce_sum(density, axis=axis, use_mask=False)
        expected_score = rf.reduce_sum(density * scores, axis=axis, use_mask=False)
        return normalizer - expected_score + rf.stop_gradient((total - 1.0) * normalizer)

    def _class_labels(self) -> Tensor:
        target = self.require_target()
        if not target.sparse:
            raise ConfigError(f"{self.where()}: 'label_smoothing_gaussian' needs class labels as target, not {target}.")
        return target

    def _log_prob(self) -> Tensor:
        logits = self._logits()
        if logits is not None:
            return rf.log_softmax(logits, axis=self.require_axis(), use_mask=False)
        if self.input_type == "log_prob":
            return self.output
        if not self.safe_log_opts:
            return rf.safe_log(self.output)
        log_prob = self.output.copy_template()
        log_prob.raw_tensor = safe_log(self.output.raw_tensor, **self.safe_log_opts)
        return log_prob

    def _logits(self) -> Tensor | None:
        if self.input_type == "logits":
            return self.output
        act = self.output_with_activation
        if self.use_fused and act is not None and act.before is not None and act.is_softmax_act_func():
            return act.before
        return None

    def _dumped(self, value: Tensor) -> Tensor:
        dump = tf.print(self.where(), "target:", self.target_flat, "scores:", self._flatten(self.output), summarize=10)
        out = value.copy()
        with tf.control_dependencies([dump]):
            out.raw_tensor = tf.identity(value.raw_tensor)
        return out


class GenericCELoss(Loss):
    """
    Cross entropy for an output that is positive, but not normalized: `log(sum(y)) - log(y[target])`.

    The gradient does not know the scale of the loss: it is always that of the sum over all frames.
    """

    class_name = "generic_ce"

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        target, axis = self.require_target(), self.require_axis()
        total = rf.log(rf.reduce_sum(self.output, axis=axis, use_mask=False))
        return total + rf.cross_entropy(estimated=self.output, target=target, axis=axis, estimated_type="probs")

    def get_value(self) -> Any:
        """:return: raw scalar"""
        return with_unit_gradient(super().get_value())


class BinaryCrossEntropyLoss(Loss):
    """
    Binary cross entropy for each entry of the feature dim, of which the mean is taken.

    The output has logits, the target has 0 or 1, or probabilities.
    """

    class_name = ("bin_ce", "sse_sigmoid")

    def __init__(self, pos_weight: float | None = None, **kwargs: Any) -> None:
        """
        :param pos_weight: factor for entries whose target is 1
        """
        super().__init__(**kwargs)
        self.pos_weight = pos_weight

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        logits, target = self.output, self.dense_target()
        weight = 1.0 if self.pos_weight is None else (self.pos_weight - 1.0) * target + 1.0
        value = (1.0 - target) * logits - rf.log_sigmoid(logits) * weight
        return self.over_features(value, mode="mean")

    def error_per_frame(self) -> Tensor:
        """:return: [B, T]: the part of the entries which are on the wrong side"""
        wrong = rf.compare(self.output > 0.0, "!=", self.dense_target() > 0.5)
        return self.over_features(rf.cast(wrong, "float32"), mode="mean")


def _gaussian_around(labels: Tensor, axis: Dim, *, deviation: float) -> Tensor:
    """:return: [..., axis]: density of a normal distribution around the label, at each class"""
    classes = rf.cast(rf.range_over_dim(axis), "float32")
    distance = rf.combine_bc(classes, "-", rf.cast(labels, "float32"))
    density = rf.exp(rf.square(distance) * (-0.5 / deviation**2))
    return density * (1.0 / (deviation * math.sqrt(2 * math.pi)))
