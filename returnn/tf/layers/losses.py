"""Losses that compare frame by frame with a target."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.loss import Loss
from returnn.util.errors import ConfigError


class CrossEntropyLoss(Loss):
    """
    Cross entropy between the target and the output, a distribution over the feature dim.

    Where the output comes from a softmax, it is computed from the logits.
    """

    class_name = "ce"
    need_target = True

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
        :param label_smoothing: this part of the probability mass is spread over the other labels
        :param label_smoothing_gaussian: neighbours get more of it than labels further away
        :param debug_dump: print targets and outputs
        :param safe_log_opts: options of `returnn.frontend.safe_log`
        :param use_fused: take the logits, if they are known
        :param input_type: "prob", "log_prob" or "logits"
        :param fake_upper_bound: the value is cut at this, the gradient is not
        """
        super().__init__(**kwargs)
        if input_type not in ("prob", "log_prob", "logits"):
            raise ConfigError(
                f"loss 'ce': option 'input_type': {input_type!r}. Possible: 'prob', 'log_prob', 'logits'."
            )
        self.focal_loss_factor = focal_loss_factor
        self.label_smoothing = label_smoothing
        self.label_smoothing_gaussian = label_smoothing_gaussian
        self.debug_dump = debug_dump
        self.safe_log_opts = safe_log_opts or {}
        self.use_fused = use_fused
        self.input_type = input_type
        self.fake_upper_bound = fake_upper_bound

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        logits = self._logits()
        axis = self.output.feature_dim
        assert axis is not None and self.target is not None
        if logits is not None:
            return rf.cross_entropy(estimated=logits, target=self.target, axis=axis, estimated_type="logits")
        kind = {"prob": "probs", "log_prob": "log-probs"}[self.input_type]
        return rf.cross_entropy(estimated=self.output, target=self.target, axis=axis, estimated_type=kind)

    def _logits(self) -> Tensor | None:
        if self.input_type == "logits":
            return self.output
        act = self.output_with_activation
        if self.use_fused and act is not None and act.before is not None and act.is_softmax_act_func():
            return act.before
        return None
