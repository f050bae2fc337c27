"""Spectra: Fourier and cosine transforms, mel filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.signal.complex_numbers import complex_dtype_of, real_dtype_of
from returnn.util.errors import ConfigError, check_known
from returnn.util.numbers.mel import mel_filterbank_matrix


class _StftBase(_ConcatInputLayer):
    """Base class of the short-time Fourier transform and its inverse: from samples to frames, or the reverse."""

    recurrent = True

    def __init__(
        self,
        frame_shift: int,
        frame_size: int,
        fft_size: int | None = None,
        in_spatial_dims: Sequence[str | Dim] | None = None,
        out_spatial_dims: Sequence[Dim] | None = None,
        use_time_mask: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param frame_shift: distance of the frames, in samples
        :param frame_size: in samples
        :param fft_size: in samples, default: `frame_size`
        :param in_spatial_dims: the dim of the source with samples or frames, as a list of one. Default: "T"
        :param out_spatial_dims: the dim of the output with frames or samples, as a list of one
        :param use_time_mask: the source is zero beyond the end of a sequence
        """
        super().__init__(**kwargs)
        self.frame_shift = frame_shift
        self.frame_size = frame_size
        self.fft_size = fft_size or frame_size
        self.num_frequencies = self.fft_size // 2 + 1
        self.in_axis: str | Dim = self._only_one(in_spatial_dims, option="in_spatial_dims") or "T"
        self.out_spatial_dim: Dim | None = self._only_one(out_spatial_dims, option="out_spatial_dims")
        self.use_time_mask = use_time_mask

    def _only_one(self, dims: Sequence[Any] | Any | None, *, option: str) -> Any:
        dims = [] if dims is None else dims if isinstance(dims, (list, tuple)) else [dims]
        if len(dims) > 1:
            raise ConfigError(f"{self.where()}: option {option!r}: only one dim is possible, not {list(dims)}.")
        return dims[0] if dims else None


class StftLayer(_StftBase):
    """
    Short-time Fourier transform, with a Hann window.

    Source [..., T, 1] or [..., T], samples; output [..., T', fft_size // 2 + 1], complex.
    """

    layer_class = "stft"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T', F], complex"""
        source = without_feature_dim_of_size_one(source)
        in_dim = self.dim_of(source, self.in_axis, option="in_spatial_dims")
        frequency = self.output_feature_dim(self.num_frequencies)
        output, _, _ = rf.stft(
            source,
            in_spatial_dim=in_dim,
            frame_step=self.frame_shift,
            frame_length=self.frame_size,
            fft_length=self.fft_size,
            window_use_frame_length=True,
            align_window_left=True,
            window_enforce_even=True,
            out_spatial_dim=self.out_spatial_dim,
            out_dim=frequency,
            use_mask=self.use_time_mask,
        )
        return output.copy_with_roles(feature_dim=frequency)


class IstftLayer(_StftBase):
    """
    Inverse of `StftLayer`.

    Source [..., T', F], complex, output [..., T, 1], samples.
    """

    layer_class = "istft"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T, 1]"""
        in_dim = self.dim_of(source, self.in_axis, option="in_spatial_dims")
        frequency = source.feature_dim
        if frequency is None or frequency.dimension != self.num_frequencies:
            raise ConfigError(f"{self.where()}: {self.num_frequencies} frequencies are expected, but got {source}.")
        if self.use_time_mask:
            source = source.copy_masked(0.0, dims=[in_dim])
        samples = (in_dim - 1) * self.frame_shift + self.frame_size
        if self.out_spatial_dim is not None:
            self.out_spatial_dim.declare_same_as(samples)
            samples = self.out_spatial_dim
        others = [dim for dim in source.dims if dim not in (in_dim, frequency)]
        channel = self.output_feature_dim(1)
        dtype = real_dtype_of(source.dtype)
        output = Tensor(self.name, dims=[*others, samples, channel], dtype=dtype, feature_dim=channel)
        if source.raw_tensor is not None:
            raw = tf.signal.inverse_stft(
                source.copy_transpose([*others, in_dim, frequency]).raw_tensor,
                frame_length=self.frame_size,
                frame_step=self.frame_shift,
                fft_length=self.fft_size,
                window_fn=tf.signal.inverse_stft_window_fn(self.frame_shift),
            )
            output.raw_tensor = raw[..., None]
        return output


class MelFilterbankLayer(_ConcatInputLayer):
    """
    Triangular filters on the mel scale.

    Source [..., fft_size // 2 + 1], magnitudes; output [..., nr_of_filters].
    """

    layer_class = "mel_filterbank"

    def __init__(
        self,
        sampling_rate: float = 16000,
        fft_size: int = 1024,
        nr_of_filters: int = 80,
        f_min: float | None = None,
        f_max: float | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param sampling_rate: in Hz
        :param fft_size: of the spectrum, in samples
        :param nr_of_filters: size of the feature dim of the output
        :param f_min: where the first filter begins, in Hz, default 0
        :param f_max: where the last one ends, in Hz, default half of the sampling rate
        """
        super().__init__(**kwargs)
        self.sampling_rate = sampling_rate
        self.fft_size = fft_size
        self.nr_of_filters = nr_of_filters
        self.f_min = f_min
        self.f_max = f_max

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., nr_of_filters]"""
        feature, out_dim = source.feature_dim, self.output_feature_dim(self.nr_of_filters)
        if feature is None or feature.dimension != self.fft_size // 2 + 1:
            raise ConfigError(f"{self.where()}: {self.fft_size // 2 + 1} frequencies are expected, but got {source}.")
        filters = mel_filterbank_matrix(
            num_filters=self.nr_of_filters,
            fft_size=self.fft_size,
            sampling_rate=self.sampling_rate,
            f_min=self.f_min,
            f_max=self.f_max,
        )
        matrix = rf.convert_to_tensor(filters, dims=[feature, out_dim], dtype=source.dtype)
        return rf.matmul(source, matrix, reduce=feature, use_mask=False).copy_with_roles(feature_dim=out_dim)


class DctLayer(_ConcatInputLayer):
    """
    Discrete cosine transform over the feature dim.

    Source [..., F], output [..., n].
    """

    layer_class = "dct"
    recurrent = True

    def __init__(self, type: int = 2, n: int | None = None, norm: str | None = None, **kwargs: Any) -> None:
        """
        :param type: 1, 2, 3 or 4
        :param n: length of the transform: the source is cut, or gets zeros. Default: that of the source
        :param norm: "ortho" for an orthogonal transform
        """
        super().__init__(**kwargs)
        if type not in (1, 2, 3, 4):
            raise ConfigError(f"{self.where()}: option 'type': {type!r}. Possible: 1, 2, 3, 4.")
        if norm is not None:
            check_known("norm", norm, ("ortho",), where=self.where())
        self.type = type
        self.n = n
        self.norm = norm

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., n]"""
        feature = self.feature_dim_of(source)
        source = source.copy_with_feature_last()
        out_dim = feature if self.n in (None, feature.dimension) else self.output_feature_dim(self.n)
        output = Tensor(self.name, dims=[*source.dims[:-1], out_dim], dtype=source.dtype, feature_dim=out_dim)
        if source.raw_tensor is not None:
            output.raw_tensor = tf.signal.dct(source.raw_tensor, type=self.type, n=self.n, norm=self.norm)
        return output


class MultiChannelMultiResolutionStftLayer(_ConcatInputLayer):
    """
    Fourier transforms of several channels, with several resolutions.

    Source [B, T, C], samples; output [B, T', F], complex: for each resolution, the frequencies of all channels. There
    are as many frames as the first resolution has. Longer ones of other resolutions can reach beyond the end of a
    sequence, over what is in memory there, as recorded, and zeros behind it. So the first one should have the
    longest frames.
    """

    layer_class = "multichannel_multiresolution_stft_layer"
    recurrent = True

    def __init__(
        self,
        frame_shift: int,
        frame_sizes: Sequence[int],
        fft_sizes: Sequence[int],
        window: str = "hanning",
        use_rfft: bool = True,
        nr_of_channels: int = 1,
        pad_last_frame: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param frame_shift: distance of the frames, in samples
        :param frame_sizes: in samples, one for each resolution
        :param fft_sizes: in samples, one for each resolution
        :param window: "hanning", "blackman", "None" or "ones" for none
        :param use_rfft: only frequencies up to half of the sampling rate
        :param nr_of_channels: C
        :param pad_last_frame: samples which fill no frame at the end get zeros
        """
        super().__init__(**kwargs)
        check_known("window", window, _WINDOWS, where=self.where())
        if len(frame_sizes) != len(fft_sizes):
            raise ConfigError(f"{self.where()}: 'frame_sizes' and 'fft_sizes' have to be as many.")
        self.frame_shift = frame_shift
        self.frame_sizes = frame_sizes
        self.fft_sizes = fft_sizes
        self.window = window
        self.use_rfft = use_rfft
        self.nr_of_channels = nr_of_channels
        self.pad_last_frame = pad_last_frame

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T', F], complex"""
        if source.feature_dim is None or source.feature_dim.dimension != self.nr_of_channels:
            raise ConfigError(f"{self.where()}: {self.nr_of_channels} channels are expected, but got {source}.")
        time, channels = self.dim_of(source, "T"), source.feature_dim
        frames = self._frames_dim(time)
        bins = [size // 2 + 1 if self.use_rfft else size for size in self.fft_sizes]
        feature = self.output_feature_dim(sum(bins) * self.nr_of_channels)
        others = [dim for dim in source.dims if dim not in (time, channels)]
        dtype = complex_dtype_of(source.dtype)
        output = Tensor(self.name, dims=[*others, frames, feature], dtype=dtype, feature_dim=feature)
        if source.raw_tensor is not None:
            source = source.copy_masked(0.0, dims=[time]) if self.pad_last_frame else source
            samples = source.copy_transpose([*others, channels, time]).raw_tensor
            parts = [self._transform(samples, *sizes) for sizes in zip(self.frame_sizes, self.fft_sizes, strict=True)]
            output.raw_tensor = tf.concat(parts, axis=-1)
        return output

    def _frames_dim(self, time: Dim) -> Dim:
        if self.pad_last_frame:
            return time.ceildiv_right(self.frame_shift)
        return (time - (self.frame_sizes[0] - 1)).ceildiv_right(self.frame_shift)

    def _transform(self, samples: tf.Tensor, frame_size: int, fft_size: int) -> tf.Tensor:
        """:return: (..., T', C * bins)"""
        if self.pad_last_frame:
            frames = tf.signal.frame(samples, frame_size, self.frame_shift, pad_end=True)
        else:
            num = tf.maximum((tf.shape(samples)[-1] - self.frame_sizes[0]) // self.frame_shift + 1, 0)
            frames = tf.signal.frame(samples, frame_size, self.frame_shift, pad_end=True)[..., :num, :]
        window = _WINDOWS[self.window](frame_size, samples.dtype)
        frames = frames if window is None else frames * window
        if self.use_rfft:
            spectrum = tf.signal.rfft(frames, [fft_size])
        else:
            padded = tf.signal.frame(frames, fft_size, fft_size, pad_end=True)[..., 0, :]
            spectrum = tf.signal.fft(tf.cast(padded, complex_dtype_of(padded.dtype.name)))
        rank = spectrum.shape.ndims  # (..., C, T', bins)
        spectrum = tf.transpose(spectrum, [*range(rank - 3), rank - 2, rank - 3, rank - 1])
        shape = tf.shape(spectrum)
        return tf.reshape(spectrum, tf.concat([shape[:-2], [shape[-2] * shape[-1]]], axis=0))


class MultiChannelStftLayer(MultiChannelMultiResolutionStftLayer):
    """
    Fourier transform of several channels.

    Source [B, T, C], samples; output [B, T', F], complex: the frequencies of all channels.
    """

    layer_class = "multichannel_stft_layer"
    fixed_options = ("frame_sizes", "fft_sizes")

    def __init__(
        self,
        frame_shift: int,
        frame_size: int,
        fft_size: int,
        window: str = "hanning",
        use_rfft: bool = True,
        nr_of_channels: int = 1,
        pad_last_frame: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param frame_shift: distance of the frames, in samples
        :param frame_size: in samples
        :param fft_size: in samples
        :param window: "hanning", "blackman", "None" or "ones" for none
        :param use_rfft: only frequencies up to half of the sampling rate
        :param nr_of_channels: C
        :param pad_last_frame: samples which fill no frame at the end get zeros
        """
        super().__init__(
            frame_shift=frame_shift,
            frame_sizes=[frame_size],
            fft_sizes=[fft_size],
            window=window,
            use_rfft=use_rfft,
            nr_of_channels=nr_of_channels,
            pad_last_frame=pad_last_frame,
            **kwargs,
        )


def without_feature_dim_of_size_one(source: Tensor) -> Tensor:
    """:return: source without its feature dim, if that has size 1"""
    feature = source.feature_dim
    return rf.squeeze(source, feature) if feature is not None and feature.dimension == 1 else source


def _blackman(size: int, dtype: tf.DType) -> tf.Tensor:
    angle = tf.range(size, dtype=dtype) * (2 * math.pi / size)
    return 0.42 - 0.5 * tf.cos(angle) + 0.08 * tf.cos(2 * angle)


_WINDOWS: dict[str, Any] = {
    "hanning": lambda size, dtype: tf.signal.hann_window(size, periodic=True, dtype=dtype),
    "blackman": _blackman,
    "ones": lambda size, dtype: None,
    "None": lambda size, dtype: None,
}
