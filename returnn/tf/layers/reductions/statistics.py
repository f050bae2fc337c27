"""Statistics over the batch or over frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.mean_of_frames import keep_for_mean, loops_moved_out_of, mean_of_frames
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.reductions.reduce import ReduceLayer
from returnn.tf.util.parameters.custom_update import CustomUpdateExpAverage
from returnn.util.errors import ConfigError

Axes = str | Dim | Sequence[Any]


class BatchSoftmaxLayer(_ConcatInputLayer):
    """
    Softmax over all frames of all sequences together with the feature dim: the sum over everything is 1.

    Source [B, T, F], output the same.
    """

    layer_class = "batch_softmax"

    def compute(self, source: Tensor) -> Tensor:
        """:return: {...}: the dims of the source"""
        source = source.copy_masked(float("-inf")) if source.raw_tensor is not None else source
        total = rf.reduce_logsumexp(source, axis=source.dims, use_mask=False)
        return rf.exp(source - total)


class AccumulateMeanLayer(ReduceLayer):
    """
    A running mean over all batches. The output is the mean before this batch, a parameter.

    Source [B, T, F], output [F]. Parameter `mean_1`: [F].
    """

    layer_class = "accumulate_mean"
    fixed_options = ("mode",)

    def __init__(
        self,
        exp_average: float,
        axes: Axes = "bt",
        initial_value: float | None = None,
        is_prob_distribution: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param exp_average: how much of this batch goes into the mean
        :param axes: the dims that the mean is over
        :param initial_value: of the mean. Default: 0, or for a distribution, the uniform one
        :param is_prob_distribution: the source is a distribution over the feature dim. Default: if it is a softmax
        """
        super().__init__(mode="mean", axes=axes, **kwargs)
        self.exp_average = exp_average
        self.initial_value = initial_value
        self.is_prob_distribution = is_prob_distribution

    def compute(self, source: Tensor) -> Tensor:
        """:return: [F]"""
        mean = super().compute(source)
        running = self.parameter("mean_1", list(mean.dims), initial=self._initial(mean), noise=False)
        if self.is_inside() and self.network.train_flag is not False:
            kept = [*mean.dims, *self.network.step.batch_dims(), *loops_moved_out_of(self)]
            others = [dim for dim in source.dims if dim not in kept]
            keep_for_mean(self, "mean", rf.reduce_mean(source, axis=others) if others else source, source=source)
        elif running.raw_tensor is not None and self.own_params:
            self._update_by(mean.raw_tensor)
        return running

    def reduced_dims(self, source: Tensor) -> list[Dim]:
        """:return: the dims that the mean is over: also those of loops that it was moved out of"""
        dims = super().reduced_dims(source)
        loops = self.network.get_all_rec_time_dims()
        return [*dims, *(dim for dim in source.dims if dim in loops and dim not in dims)]

    def after_loop(self, totals: dict[str, Tensor]) -> None:
        """See `LayerBase.after_loop`."""
        super().after_loop(totals)
        if self.own_params and "mean" in totals:
            self._update_by(mean_of_frames(totals, "mean", self.own_params["mean_1"]))

    def _update_by(self, mean: tf.Tensor) -> None:
        if not tf.compat.v1.get_default_graph().building_function:
            CustomUpdateExpAverage(average=mean, alpha=self.exp_average).set_on_var(self.own_params["mean_1"])
        elif self.network.train_flag is not False:
            raise ConfigError(f"{self.where()}: cannot be trained inside of a condition, if this is not in a loop.")

    def _initial(self, mean: Tensor) -> float:
        if self.initial_value is not None:
            return self.initial_value
        is_distribution = self.is_prob_distribution
        if is_distribution is None:
            act = self.sources[0].output_before_activation
            is_distribution = act is not None and act.is_softmax_act_func()
        return 1.0 / mean.feature_dim.dimension if is_distribution and mean.feature_dim is not None else 0.0


class FramewiseStatisticsLayer(LayerBase):
    """
    Statistics about frames, for losses on single frames: how often silence is confused with speech, and the like.

    The sources are layers with a loss and a target of labels. The statistics are in `stats` of the layer, by name, and
    shown for each step, in the log and by TensorBoard; the output is a scalar 0.
    """

    layer_class = "framewise_statistics"

    def __init__(self, sil_label_idx: int, histogram_num_bins: int = 20, **kwargs: Any) -> None:
        """
        :param sil_label_idx: the label of silence
        :param histogram_num_bins: number of bins, for the probability of the target
        """
        super().__init__(**kwargs)
        self.sil_label_idx = sil_label_idx
        self.histogram_num_bins = histogram_num_bins

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: scalar 0"""
        for layer, source in zip(self.sources, sources, strict=True):
            if layer.target is None or source.feature_dim is None:
                raise ConfigError(f"{self.where()}: the source {layer.get_absolute_name()!r} has no target.")
            if source.raw_tensor is not None:
                self.stats.update(self._statistics(layer, source))
        return rf.convert_to_tensor(0.0, dims=())

    def _statistics(self, layer: LayerBase, scores: Tensor) -> dict[str, Any]:
        target = layer.get_target_value()
        assert target is not None
        found = scores.get_placeholder_flattened()
        wanted = target.get_placeholder_flattened()
        best = tf.argmax(found, axis=-1, output_type=wanted.dtype)
        is_silence, is_found = tf.equal(wanted, self.sil_label_idx), tf.equal(best, self.sil_label_idx)
        probability = tf.gather(found, wanted, batch_dims=1)
        bins = tf.histogram_fixed_width(probability, [0.0, 1.0], nbins=self.histogram_num_bins)
        prefix = f"{layer.get_absolute_name()}:"
        values = {
            "batch_seq_length": tf.shape(wanted)[0],
            "target_sil_fraction": _mean(is_silence),
            "output_sil_fraction": _mean(is_found),
            "accuracy": _mean(tf.equal(best, wanted)),
            "sil_accuracy": _mean(tf.equal(best, wanted), where=is_silence),
            "non_sil_accuracy": _mean(tf.equal(best, wanted), where=tf.logical_not(is_silence)),
            "target_prob": tf.reduce_mean(probability),
            "target_prob_histogram": bins,
        }
        return {prefix + name: value for name, value in values.items()}


def _mean(flags: tf.Tensor, where: tf.Tensor | None = None) -> tf.Tensor:
    flags = flags if where is None else tf.boolean_mask(flags, where)
    return tf.math.divide_no_nan(tf.reduce_sum(tf.cast(flags, tf.float32)), tf.cast(tf.size(flags), tf.float32))
