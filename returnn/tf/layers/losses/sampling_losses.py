"""Losses which look only at a sample of the classes, for large vocabularies."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.layers.core.floors.layer_targets import LayerTargets
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.linear.linear import LinearLayer
from returnn.tf.util.losses.sampled_softmax import compute_sampled_logits
from returnn.util.errors import ConfigError, check_known
from returnn.util.system.warn_once import warn_once

_SAMPLERS: dict[str, Any] = {
    "uniform": tf.random.uniform_candidate_sampler,
    "log_uniform": tf.random.log_uniform_candidate_sampler,
    "learned_unigram": tf.random.learned_unigram_candidate_sampler,
    "fixed_unigram": tf.random.fixed_unigram_candidate_sampler,
}


_ACTIVATIONS = (None, "", "identity", "linear", "softmax", "log_softmax")  # the loss takes what comes before


class SamplingBasedLoss(Loss):
    """
    Sampled softmax (Jean et al. 2014) or noise contrastive estimation (Gutmann & Hyvaerinen 2010).

    The layer has to be linear, without an activation function or with softmax. The full output is not computed then.
    """

    class_name = "sampling_loss"

    def __init__(
        self,
        num_sampled: int = 128,
        num_splits: int = 1,
        sampler: str = "log_uniform",
        nce_loss: bool = False,
        use_full_softmax: bool = False,
        remove_accidental_hits: bool | None = None,
        sampler_args: Mapping[str, Any] | None = None,
        nce_log_norm_term: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """
        :param num_sampled: how many classes are sampled
        :param num_splits: the frames are divided into so many parts, each with a sample of its own
        :param sampler: "uniform"; "log_uniform", for classes sorted by frequency; "learned_unigram", "fixed_unigram"
        :param nce_loss: noise contrastive estimation
        :param use_full_softmax: all classes, without a sample: in evaluation, too, only this says so
        :param remove_accidental_hits: a sampled class that is the true one does not count. Default: not with `nce_loss`
        :param sampler_args: further options of the sampler of TensorFlow
        :param nce_log_norm_term: for `nce_loss`: logarithm of the normalization constant
        """
        super().__init__(**kwargs)
        check_known("sampler", sampler, _SAMPLERS, where="loss 'sampling_loss'")
        self.num_sampled = num_sampled
        self.num_splits = num_splits
        self.sampler = sampler
        self.nce_loss = nce_loss
        self.use_full_softmax = self.has_perplexity = use_full_softmax
        self.remove_accidental_hits = not nce_loss if remove_accidental_hits is None else remove_accidental_hits
        self.sampler_args = dict(sampler_args or {})
        self.nce_log_norm_term = nce_log_norm_term

    def init_by_layer(self, layer: LayerTargets, layer_output_template: Tensor | None = None) -> None:
        """See `Loss`. :raises ConfigError: if there are not as many classes as the sample is to have"""
        super().init_by_layer(layer, layer_output_template)
        num_classes = self.output.feature_dim.size if self.output.feature_dim is not None else None
        most = self.num_sampled if num_classes is None else num_classes
        if not self.use_full_softmax and not 1 <= self.num_sampled <= most:
            raise ConfigError(
                f"{self.where()}: option 'num_sampled': expected 1 to {most}, the number of classes, got"
                f" {self.num_sampled}."
            )

    def get_value(self) -> Any:
        """:return: raw scalar"""
        layer, target = self.layer, self.require_target()
        if not isinstance(layer, LinearLayer) or layer.activation not in _ACTIVATIONS or layer.input_data is None:
            raise ConfigError(
                f"{self.where()}: is only possible for a linear layer, without activation or with softmax."
            )
        if not target.sparse:
            raise ConfigError(f"{self.where()}: the target has to be sparse, not {target}.")
        labels = self.target_flat
        if self.use_full_softmax:
            logits = self.output_flat if self.output_before_softmax_flat is None else self.output_before_softmax_flat
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        else:
            if self.base_network.train_flag is False:
                warn_once(
                    f"{self.where()}: the value is that of a sample, also in evaluation. With 'use_full_softmax': True"
                    " in 'loss_opts', it is the cross entropy."
                )
            inputs = self._flatten(layer.input_data.copy_with_feature_last())
            losses = self._sampled(layer, inputs, tf.cast(labels, tf.int64)[:, None])
        return self.reduce_func(losses)

    def _sampled(self, layer: LinearLayer, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """:return: (frames,)"""
        num_frames = tf.shape(inputs)[0]
        borders = [num_frames * i // self.num_splits for i in range(self.num_splits + 1)]
        parts = [
            self._sampled_once(layer, inputs[begin:end], labels[begin:end])
            for begin, end in itertools.pairwise(borders)
        ]
        return tf.concat(parts, axis=0)

    def _sampled_once(self, layer: LinearLayer, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        num_classes = self.require_axis().get_dim_value()
        sampled = _SAMPLERS[self.sampler](
            true_classes=labels,
            num_true=1,
            num_sampled=self.num_sampled,
            unique=True,
            range_max=num_classes,
            seed=self.base_network.random_seed(),
            **self.sampler_args,
        )
        weights, bias = _weights_and_bias(layer)
        logits, targets = compute_sampled_logits(
            weights,
            bias,
            labels,
            inputs,
            num_sampled=self.num_sampled,
            num_classes=num_classes,
            sampled_values=sampled,
            remove_accidental_hits=self.remove_accidental_hits,
        )
        if not self.nce_loss:
            return tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        logits -= self.nce_log_norm_term
        return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits), axis=1)


def _weights_and_bias(layer: LinearLayer) -> tuple[tf.Tensor, tf.Tensor]:
    """:return: (classes, F), (classes,)"""
    weights = layer.network.params.value_of(layer.params["W"])
    weights = weights if layer.use_transposed_weights else tf.transpose(weights)
    bias = layer.params.get("b")
    if bias is None:
        return weights, tf.zeros(tf.shape(weights)[:1], weights.dtype)
    return weights, layer.network.params.value_of(bias)
