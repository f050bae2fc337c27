"""Enhancement of speech signals: masks, beamformers, Wiener filters. All of them work on spectra."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.no_sources import NoSourcesLayer
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


class SignalMaskingLayer(NoSourcesLayer):
    """
    `signal * mask`.

    Signal and mask [...], output the dims of the signal.
    """

    layer_class = "signal_masking"

    def __init__(self, signal: LayerBase, mask: LayerBase, **kwargs: Any) -> None:
        """
        :param signal: numbers, can be complex
        :param mask: factors
        """
        super().__init__(**kwargs)
        self.signal = signal
        self.mask = mask

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: {...}: dims of the signal"""
        signal, mask = self.signal.output, self.mask.output
        return rf.combine_bc(signal, "*", rf.cast(mask, signal.dtype))


class NoiseEstimationByFirstTFramesLayer(_ConcatInputLayer):
    """
    The mean of the first frames of each sequence, for all its frames.

    Source [B, T, F], output the same.
    """

    layer_class = "first_t_frames_noise_estimator"
    recurrent = True

    def __init__(self, nr_of_frames: int, **kwargs: Any) -> None:
        """
        :param nr_of_frames: how many; -1: all
        """
        super().__init__(**kwargs)
        self.nr_of_frames = nr_of_frames

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T, F]"""
        time = self.dim_of(source, "T")
        first, axis = source, time
        if self.nr_of_frames != -1:
            size = rf.minimum(time.get_size_tensor(), self.nr_of_frames)
            axis = self.new_dim("first-frames", None)
            axis.dyn_size_ext = size
            first, axis = rf.slice(source, axis=time, size=axis)
        return rf.expand_dim(rf.reduce_mean(first, axis=axis), time).copy_transpose(source.dims)


class ParametricWienerFilterLayer(NoSourcesLayer):
    """
    Parametric Wiener filter: `Y * max(1 - l * (|N| / |Y|)^p, 0)^q`, with the noise N in the signal Y.

    Sources: signal [B, T, F], noise [B, T, F], parameters [B, T, 3]: l, p, q. Output [B, T, F].
    """

    layer_class = "parametric_wiener_filter"

    def __init__(
        self,
        l_overwrite: float | None = None,
        p_overwrite: float | None = None,
        q_overwrite: float | None = None,
        filter_input: LayerBase | None = None,
        parameters: LayerBase | None = None,
        noise_estimation: LayerBase | None = None,
        average_parameters: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param l_overwrite: fixed value for l
        :param p_overwrite: fixed value for p
        :param q_overwrite: fixed value for q
        :param filter_input: the signal, can be complex
        :param parameters: l, p and q, as far as they are not fixed, in this order
        :param noise_estimation: the noise
        :param average_parameters: take the mean of the parameters over the time
        """
        super().__init__(**kwargs)
        self.fixed = (l_overwrite, p_overwrite, q_overwrite)
        self.filter_input = filter_input
        self.parameters = parameters
        self.noise_estimation = noise_estimation
        self.average_parameters = average_parameters
        if filter_input is None or noise_estimation is None or (parameters is None and None in self.fixed):
            raise ConfigError(
                f"{self.where()}: the options 'filter_input' and 'noise_estimation' are required, and 'parameters' or "
                "all of 'l_overwrite', 'p_overwrite', 'q_overwrite'."
            )

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [B, T, F]"""
        assert self.filter_input is not None
        assert self.noise_estimation is not None
        signal, noise = self.filter_input.output, self.noise_estimation.output
        scale, power, exponent = self._parameters()
        ratio = rf.combine_bc(rf.abs(noise), "/", rf.maximum(rf.abs(signal), 1e-10))
        gain = rf.maximum(1.0 - rf.combine_bc(_power(ratio, power), "*", scale), 0.0)
        return rf.combine_bc(signal, "*", rf.cast(_power(gain, exponent), signal.dtype)).copy_transpose(signal.dims)

    def _parameters(self) -> list[Any]:
        if self.parameters is None:
            return list(self.fixed)
        given = self.parameters.output
        if self.average_parameters:
            given = rf.reduce_mean(given, axis=self.dim_of(given, "T"))
        missing = [i for i, value in enumerate(self.fixed) if value is None]
        feature = given.feature_dim
        if feature is None or feature.dimension not in (3, len(missing)):
            raise ConfigError(f"{self.where()}: option 'parameters': {len(missing)} values are needed, not {given}.")
        place = (
            list(range(3)) if feature.dimension == 3 else [missing.index(i) if i in missing else -1 for i in range(3)]
        )
        return [
            rf.gather(given, indices=place[i], axis=feature) if value is None else value
            for i, value in enumerate(self.fixed)
        ]


class _Beamformer(LayerBase):
    """
    Base class of beamformers with masks.

    Sources: spectra of all channels [B, T, C * F], complex; masks. Output [B, T, F], complex.
    """

    recurrent = True

    def __init__(
        self,
        nr_of_channels: int = 1,
        qralgorithm_steps: int | None = None,
        output_nan_filter: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param nr_of_channels: C
        :param qralgorithm_steps: find the principal eigenvector by so many steps of the QR algorithm. Default: exactly
        :param output_nan_filter: zeros instead of NaN, which a bin is in all frames of a sequence if it is in one
        """
        super().__init__(**kwargs)
        if qralgorithm_steps is not None and qralgorithm_steps < 1:
            raise ConfigError(f"{self.where()}: option 'qralgorithm_steps': {qralgorithm_steps}. Possible: from 1 on.")
        self.nr_of_channels = nr_of_channels
        self.qralgorithm_steps = qralgorithm_steps
        self.output_nan_filter = output_nan_filter

    def compute(self, spectra: Tensor, masks: Tensor) -> Tensor:
        """:return: [B, T, F], complex"""
        feature = spectra.feature_dim
        if feature is None or feature.dimension is None or feature.dimension % self.nr_of_channels:
            raise ConfigError(f"{self.where()}: {spectra} cannot be divided into {self.nr_of_channels} channels.")
        num_bins = feature.dimension // self.nr_of_channels
        self._check_masks(masks, num_bins)
        bins = self.new_dim("bins", num_bins, kind=Dim.Types.Feature)
        batch, time = spectra.get_batch_dim_tag(), self.dim_of(spectra, "T")
        output = Tensor(self.name, dims=[batch, time, bins], dtype=spectra.dtype, feature_dim=bins)
        if spectra.raw_tensor is None or masks.raw_tensor is None:
            return output
        raw = spectra.copy_masked(0.0, dims=[time]).copy_transpose([batch, time, feature]).raw_tensor
        shape = tf.shape(raw)
        by_bin = tf.transpose(tf.reshape(raw, [shape[0], shape[1], self.nr_of_channels, num_bins]), [0, 3, 1, 2])
        raw_masks = masks.copy_masked(0.0, dims=[time]).copy_transpose([batch, time, masks.feature_dim]).raw_tensor
        output.raw_tensor = tf.transpose(self._filtered(by_bin, self._masks(raw_masks, num_bins)), [0, 2, 1])
        return output

    def _filtered(self, spectra: tf.Tensor, masks: list[tf.Tensor]) -> tf.Tensor:
        """
        :param spectra: (B, F, T, C), complex
        :param masks: each (B, F, T)
        :return: (B, F, T), complex; NaN, or zeros, for what is not finite, with which decompositions would fail
        """
        is_finite = tf.reduce_all(tf.math.is_finite(tf.abs(spectra)), axis=[2, 3])
        for mask in masks:
            is_finite &= tf.reduce_all(tf.math.is_finite(mask), axis=2)
        finite = tf.where(is_finite[:, :, None, None], spectra, tf.zeros_like(spectra))
        weights = self.filter_weights(finite, [tf.where(is_finite[:, :, None], x, tf.zeros_like(x)) for x in masks])
        result = tf.einsum("bfc,bftc->bft", tf.math.conj(weights), finite)
        other = tf.zeros_like(result) if self.output_nan_filter else tf.cast(float("nan"), result.dtype)
        return tf.where(is_finite[:, :, None] & tf.math.is_finite(tf.abs(result)), result, other)

    def filter_weights(self, spectra: tf.Tensor, masks: list[tf.Tensor]) -> tf.Tensor:
        """
        :param spectra: (B, F, T, C), complex
        :param masks: each (B, F, T)
        :return: (B, F, C), complex
        """
        raise TypeError(f"{type(self).__name__} defines no filter_weights")

    num_masks = 1

    def _check_masks(self, masks: Tensor, num_bins: int) -> None:
        size = None if masks.feature_dim is None else masks.feature_dim.dimension
        possible = [self.num_masks * num_bins, self.num_masks * self.nr_of_channels * num_bins]
        if size not in possible:
            raise ConfigError(f"{self.where()}: the masks are {masks}, but {possible[0]} or {possible[1]} are needed.")

    def _masks(self, raw: tf.Tensor, num_bins: int) -> list[tf.Tensor]:
        """:return: each (B, F, T), the mean over the channels"""
        shape = tf.shape(raw)
        parts = tf.reshape(raw, [shape[0], shape[1], self.num_masks, -1, num_bins])
        return [tf.transpose(mask, [0, 2, 1]) for mask in tf.unstack(tf.reduce_mean(parts, axis=3), axis=2)]


class MaskBasedGevBeamformingLayer(_Beamformer):
    """
    Generalized eigenvalue beamformer (Heymann et al. 2016): the filter that makes the ratio of speech to noise largest.

    Sources: spectra of all channels [B, T, C * F], complex; masks [B, T, 2 * C * F] or [B, T, 2 * F], first of the
    noise, then of the speech. Output [B, T, F], complex.
    """

    layer_class = "mask_based_gevbeamforming"
    num_masks = 2

    def __init__(self, postfilter_id: int = 0, **kwargs: Any) -> None:
        """
        :param postfilter_id: 0: none; 1: blind analytic normalization
        """
        super().__init__(**kwargs)
        if postfilter_id not in (0, 1):
            raise ConfigError(f"{self.where()}: option 'postfilter_id': {postfilter_id}. Possible: 0, 1.")
        self.postfilter_id = postfilter_id

    def filter_weights(self, spectra: tf.Tensor, masks: list[tf.Tensor]) -> tf.Tensor:
        """:return: (B, F, C): principal generalized eigenvector of both covariances"""
        noise, speech = (_covariance(spectra, mask) for mask in masks)
        lower = tf.linalg.cholesky(_loaded(noise, 1e-6))
        whitened = tf.linalg.triangular_solve(lower, tf.linalg.adjoint(tf.linalg.triangular_solve(lower, speech)))
        vector = _principal_eigenvector((whitened + tf.linalg.adjoint(whitened)) / 2, self.qralgorithm_steps)
        weights = tf.linalg.triangular_solve(lower, vector[..., None], adjoint=True)[..., 0]
        return self._normalized(weights, noise) if self.postfilter_id == 1 else weights

    def _normalized(self, weights: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """:return: blind analytic normalization (Warsitz & Haeb-Umbach 2007)"""
        filtered = tf.linalg.matvec(noise, weights)
        power = tf.reduce_sum(tf.abs(filtered) ** 2, axis=-1)
        total = tf.abs(tf.reduce_sum(tf.math.conj(weights) * filtered, axis=-1))
        gain = tf.sqrt(power / self.nr_of_channels) / tf.maximum(total, 1e-10)
        return weights * tf.cast(gain[..., None], weights.dtype)


class MaskBasedMvdrBeamformingWithDiagLoadingLayer(_Beamformer):
    """
    MVDR beamformer for the first channel: least noise, with the speech unchanged. As in Heymann et al. 2016, the speech
    comes from the direction of the principal eigenvector of its covariance.

    Sources: spectra of all channels [B, T, C * F], complex; masks of the noise [B, T, C * F] or [B, T, F]. Output
    [B, T, F], complex.
    """

    layer_class = "mask_based_mvdrbeamforming"

    def __init__(self, diag_loading_coeff: float = 0, **kwargs: Any) -> None:
        """
        :param diag_loading_coeff: this part of the mean power is added to the diagonal of the noise covariance
        """
        super().__init__(**kwargs)
        self.diag_loading_coeff = diag_loading_coeff

    def filter_weights(self, spectra: tf.Tensor, masks: list[tf.Tensor]) -> tf.Tensor:
        """:return: (B, F, C)"""
        noise = _covariance(spectra, masks[0])
        speech = _covariance(spectra, 1.0 - masks[0])
        direction = _principal_eigenvector(speech, self.qralgorithm_steps)
        weights = tf.linalg.solve(_loaded(noise, self.diag_loading_coeff + 1e-6), direction[..., None])[..., 0]
        scale = tf.math.divide_no_nan(
            tf.math.conj(direction[..., 0]), tf.reduce_sum(tf.math.conj(direction) * weights, axis=-1)
        )
        return weights * scale[..., None]


def _covariance(spectra: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """:return: (B, F, C, C): weighted mean over the frames"""
    weight = tf.cast(mask / tf.maximum(tf.reduce_sum(mask, axis=-1, keepdims=True), 1e-10), spectra.dtype)
    return tf.einsum("bft,bftc,bftd->bfcd", weight, spectra, tf.math.conj(spectra))


def _principal_eigenvector(covariance: tf.Tensor, qr_steps: int | None) -> tf.Tensor:
    """
    :param covariance: (..., C, C), Hermitian, no eigenvalue is negative
    :param qr_steps: of the QR algorithm. As the eigenvectors after n steps are the factor Q of the n-th power of the
        matrix, the first one is the first column of this power. None: exactly
    :return: (..., C): of the largest eigenvalue. Its norm is 1, its first entry is real and not negative
    """
    if qr_steps is None:
        vector = tf.linalg.eigh(covariance)[1][..., -1]
        angle = tf.math.angle(vector[..., :1])
        return vector * tf.complex(tf.cos(angle), -tf.sin(angle))
    vector = _with_norm_1(covariance[..., 0])
    for _ in range(qr_steps - 1):
        vector = _with_norm_1(tf.linalg.matvec(covariance, vector))
    return vector


def _with_norm_1(vector: tf.Tensor) -> tf.Tensor:
    power = tf.reduce_sum(tf.abs(vector) ** 2, axis=-1, keepdims=True)
    return vector * tf.cast(tf.math.rsqrt(tf.maximum(power, 1e-37)), vector.dtype)


def _loaded(covariance: tf.Tensor, coefficient: float) -> tf.Tensor:
    """:return: with a part of the mean power on the diagonal"""
    size = tf.shape(covariance)[-1]
    power = tf.math.real(tf.linalg.trace(covariance))
    power /= tf.cast(size, power.dtype)
    loading = tf.cast(power * coefficient + 1e-10, covariance.dtype)
    return covariance + loading[..., None, None] * tf.eye(size, dtype=covariance.dtype)


def _power(x: Tensor, exponent: Any) -> Tensor:
    return rf.combine_bc(x, "pow", exponent) if isinstance(exponent, Tensor) else x**exponent
