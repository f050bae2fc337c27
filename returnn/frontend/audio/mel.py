"""Features on the mel scale."""

from __future__ import annotations

import math

from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend.array_ import squeeze
from returnn.frontend.math_ import abs, safe_log, square
from returnn.frontend.matmul import matmul
from returnn.frontend.signal import stft
from returnn.tensor import Dim, Tensor
from returnn.util.numbers.mel import mel_filterbank_matrix


def mel_filterbank(
    x: Tensor,
    *,
    in_dim: Dim,
    out_dim: Dim,
    sampling_rate: int | float,
    fft_length: int | None = None,
    f_min: int | float | None = None,
    f_max: int | float | None = None,
) -> Tensor:
    """
    :param x: {..., in_dim}, such as a power spectrum
    :param in_dim: frequencies, from 0 to half of the sampling rate
    :param out_dim: the filters, triangles with centers of equal distances on the mel scale
    :param sampling_rate: in Hz
    :param fft_length: in samples, where there are `fft_length // 2 + 1` frequencies. Default: an even number
    :param f_min: where the first filter begins, in Hz, default 0
    :param f_max: where the last one ends, in Hz, default half of the sampling rate
    :return: {..., out_dim}
    """
    require_dims("mel_filterbank: in_dim", x, [in_dim])
    if in_dim.size is None or out_dim.size is None:
        raise fail(f"mel_filterbank: {in_dim} and {out_dim} should have fixed sizes.")
    if fft_length is None:
        fft_length = (in_dim.size - 1) * 2
    if fft_length // 2 + 1 != in_dim.size:
        raise fail(
            f"mel_filterbank: with fft_length {fft_length}, {in_dim} should have the size {fft_length // 2 + 1}."
        )
    matrix = mel_filterbank_matrix(
        num_filters=out_dim.size, fft_size=fft_length, sampling_rate=sampling_rate, f_min=f_min, f_max=f_max
    )
    filters = get_backend_of(x).convert_to_tensor(matrix, dims=[in_dim, out_dim], dtype=x.dtype, device=x.device)
    return matmul(x, filters, reduce=in_dim).copy_with_roles(feature_dim=out_dim)


def log_mel_filterbank_from_raw(
    raw_audio: Tensor,
    *,
    in_spatial_dim: Dim,
    out_dim: Dim,
    sampling_rate: int = 16_000,
    window_len: float = 0.025,
    step_len: float = 0.010,
    n_fft: int | None = None,
    log_base: int | float = 10,
) -> tuple[Tensor, Dim]:
    """
    Logarithm of the power in mel filters, at least 1e-10.

    :param raw_audio: {..., in_spatial_dim}; also with a feature dim of size 1
    :param in_spatial_dim: the samples
    :param out_dim: the filters
    :param sampling_rate: in Hz
    :param window_len: in seconds
    :param step_len: distance of the frames, in seconds
    :param n_fft: samples which are transformed; default: the next power of two
    :param log_base: of the logarithm
    :return: {..., out_spatial_dim, out_dim}; out_spatial_dim
    """
    feature = raw_audio.feature_dim
    if feature is not None and feature.size == 1:
        raw_audio = squeeze(raw_audio, feature)
    spectrum, out_spatial_dim, frequencies = stft(
        raw_audio,
        in_spatial_dim=in_spatial_dim,
        frame_step=int(step_len * sampling_rate),
        frame_length=int(window_len * sampling_rate),
        fft_length=n_fft,
    )
    power = square(abs(spectrum))
    mel = mel_filterbank(power, in_dim=frequencies, out_dim=out_dim, sampling_rate=sampling_rate, fft_length=n_fft)
    return safe_log(mel, eps=1e-10) * (1.0 / math.log(log_base)), out_spatial_dim


__all__ = ["log_mel_filterbank_from_raw", "mel_filterbank"]
