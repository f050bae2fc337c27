"""Losses on whole sequences where RASR, in processes of its own, knows which label sequences are possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.values.length import raw_lengths
from returnn.tf.sprint import get_sprint_automata_for_batch_op, get_sprint_loss_and_error_signal
from returnn.tf.util.grad import loss_with_error_signal
from returnn.tf.util.losses.fsa import fsa_of_edges, posteriors
from returnn.tf.util.safe_math import safe_log
from returnn.util.errors import ConfigError


class _RasrLoss(Loss):
    """
    A loss of log posteriors with a gradient that is computed with the value.

    Output [B, T, F], with the probabilities of the labels of RASR. If there is a target, it is for the frame error.
    """

    recurrent = True
    need_target = False

    def value_and_error_signal(self, log_posteriors: tf.Tensor, dims: list[Dim]) -> tuple[tf.Tensor, tf.Tensor]:
        """
        :param log_posteriors: (T, B, F)
        :param dims: T, B, F
        :return: value (B,); gradient of the log posteriors (T, B, F), of any value for padded frames
        """
        raise TypeError(f"{type(self).__name__} does not define value_and_error_signal")

    def get_value(self) -> Any:
        """:return: raw scalar"""
        output, axis = self.output, self.require_axis()
        if not (output.have_batch_axis() and output.have_time_axis() and len(output.dims) == 3):
            raise ConfigError(f"{self.where()}: the output has to have batch, time and feature dim, not {output}.")
        time, batch = output.get_time_dim_tag(), output.get_batch_dim_tag()
        dims = [time, batch, axis]
        log_posteriors = self._log_posteriors().copy_transpose(dims)
        value, error_signal = self.value_and_error_signal(tf.stop_gradient(log_posteriors.raw_tensor), dims)
        error_signal = Tensor("error_signal", dims=dims, dtype=output.dtype, raw_tensor=error_signal).copy_masked(0.0)
        total = self.reduce(Tensor("loss", dims=[batch], dtype=output.dtype, raw_tensor=value))
        return loss_with_error_signal(total, log_posteriors.raw_tensor, error_signal.raw_tensor)

    def error_per_frame(self) -> Tensor | None:
        """:return: [B, T]: whether target and output differ, if there is a target"""
        return None if self.target is None else super().error_per_frame()

    def _log_posteriors(self) -> Tensor:
        act = self.output_with_activation
        if act is not None and act.before is not None and (act.is_softmax_act_func() or act.is_log_softmax_act_func()):
            return rf.log_softmax(act.before, axis=self.require_axis(), use_mask=False)
        out = self.output.copy()
        out.raw_tensor = safe_log(self.output.raw_tensor)
        return out

    def _tags(self) -> tf.Tensor:
        return self.base_network.get_seq_tags()


class ExternSprintLoss(_RasrLoss):
    """RASR computes the loss and its gradient, for example of lattice-based sequence training."""

    class_name = "sprint"

    def __init__(self, sprint_opts: Mapping[str, Any], **kwargs: Any) -> None:
        """
        :param sprint_opts: how to start RASR: "sprintExecPath", "sprintConfigStr", "numInstances", ..., see
            `SprintInstancePool`
        """
        super().__init__(**kwargs)
        self.sprint_opts = sprint_opts

    def value_and_error_signal(self, log_posteriors: tf.Tensor, dims: list[Dim]) -> tuple[tf.Tensor, tf.Tensor]:
        """:return: value (B,), gradient (T, B, F)"""
        time, batch, _ = dims
        lengths = raw_lengths(time, batch)
        return get_sprint_loss_and_error_signal(self.sprint_opts, log_posteriors, lengths, self._tags())


class FastBaumWelchLoss(_RasrLoss):
    """Negative log probability of all paths through the automaton of a sequence, which comes from RASR."""

    class_name = "fast_bw"

    def __init__(self, sprint_opts: Mapping[str, Any], tdp_scale: float = 1.0, **kwargs: Any) -> None:
        """
        :param sprint_opts: how to start RASR: "sprintExecPath", "sprintConfigStr", "numInstances", ..., see
            `SprintInstancePool`
        :param tdp_scale: scale of the scores which the automata have
        """
        super().__init__(**kwargs)
        self.sprint_opts = sprint_opts
        self.tdp_scale = tdp_scale

    def value_and_error_signal(self, log_posteriors: tf.Tensor, dims: list[Dim]) -> tuple[tf.Tensor, tf.Tensor]:
        """:return: value (B,), gradient (T, B, F): minus the soft alignment"""
        time, batch, _ = dims
        edges, weights, start_end_states = get_sprint_automata_for_batch_op(self.sprint_opts, self._tags())
        automata = fsa_of_edges(edges, weights * self.tdp_scale, start_end_states)
        mask = time.get_mask(dim_order=[time, batch]).copy_compatible_to_dims([time, batch], unbroadcast=True)
        alignment, total = posteriors(log_posteriors, automata, mask.raw_tensor)
        return -total, -alignment
