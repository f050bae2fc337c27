"""
Signal processing for audio features, in numpy.

Spectra are (frames, bins), audio is (samples,). The numbers are those of librosa with its defaults: periodic Hann
window, padding with zeros where a frame is centered, mel scale and area normalization of Slaney's Auditory Toolbox.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy
import numpy.typing

Floats: TypeAlias = numpy.typing.NDArray[Any]
Complexes: TypeAlias = numpy.typing.NDArray[Any]


def frames(audio: Floats, *, frame_len: int, step: int, center: bool) -> Floats:
    """
    Cuts out overlapping frames.

    :param audio: (samples,)
    :param frame_len: samples per frame
    :param step: samples from frame to frame
    :param center: frame t has its center at `t * step`, otherwise its begin
    :return: (frames, frame_len), at least one frame. A view: do not write
    """
    padding = frame_len // 2 if center else 0
    missing = max(frame_len - len(audio) - 2 * padding, 0)
    padded = numpy.pad(audio, (padding, padding + missing))
    return numpy.lib.stride_tricks.sliding_window_view(padded, frame_len)[::step]


def stft(audio: Floats, *, n_fft: int, step: int, window_len: int | None = None, center: bool = True) -> Complexes:
    """
    Short-time Fourier transform.

    :param audio: (samples,)
    :param n_fft: samples per frame
    :param step: samples from frame to frame
    :param window_len: samples of the window, which stands in the middle of the frame. By default all
    :param center: frame t has its center at `t * step`, otherwise its begin
    :return: (frames, n_fft // 2 + 1)
    """
    window = _centered_window(window_len or n_fft, n_fft)
    return numpy.fft.rfft(frames(audio, frame_len=n_fft, step=step, center=center) * window, axis=-1)


def inverse_stft(spectrum: Complexes, *, n_fft: int, step: int, num_samples: int) -> Floats:
    """
    Overlap and add, the reverse of `stft` with `center`.

    :param spectrum: (frames, n_fft // 2 + 1)
    :param num_samples: of the result
    :return: (num_samples,)
    """
    window = _centered_window(n_fft, n_fft)
    pieces = numpy.fft.irfft(spectrum, n=n_fft, axis=-1) * window
    audio = numpy.zeros(n_fft + step * (len(pieces) - 1) + num_samples)
    weight = numpy.zeros_like(audio)
    for i, piece in enumerate(pieces):
        audio[i * step : i * step + n_fft] += piece
        weight[i * step : i * step + n_fft] += window**2
    audio = audio / numpy.maximum(weight, 1e-8)
    return audio[n_fft // 2 : n_fft // 2 + num_samples]


@functools.lru_cache(maxsize=16)
def mel_filters(*, sample_rate: int, n_fft: int, num_filters: int, fmin: float, fmax: float | None) -> Floats:
    """
    Triangles on the mel scale, each with the area of 1 Hz.

    :param fmin: lower end of the first filter, in Hz
    :param fmax: upper end of the last filter, in Hz. By default half of the sample rate
    :return: (num_filters, n_fft // 2 + 1)
    """
    bin_hz = numpy.linspace(0, sample_rate / 2, n_fft // 2 + 1)
    top = sample_rate / 2 if fmax is None else fmax
    edges_hz = _mel_to_hz(numpy.linspace(_hz_to_mel(fmin), _hz_to_mel(top), num_filters + 2))
    widths = numpy.diff(edges_hz)
    distance = edges_hz[:, None] - bin_hz
    rising = -distance[:-2] / widths[:-1, None]
    falling = distance[2:] / widths[1:, None]
    triangles = numpy.maximum(0, numpy.minimum(rising, falling))
    return triangles * (2 / (edges_hz[2:] - edges_hz[:-2]))[:, None]


def mel_spectrum(
    audio: Floats,
    *,
    sample_rate: int,
    n_fft: int,
    step: int,
    num_filters: int,
    fmin: float = 0,
    fmax: float | None = None,
    center: bool = True,
    power: float = 2.0,
) -> Floats:
    """
    :param power: 2: of the energies, 1: of the magnitudes
    :return: (frames, num_filters)
    """
    spectrum = numpy.abs(stft(audio, n_fft=n_fft, step=step, center=center)) ** power
    starts, weights = _mel_bands(sample_rate, n_fft, num_filters, fmin, fmax)
    bands = numpy.lib.stride_tricks.sliding_window_view(spectrum, weights.shape[1], axis=1)[:, starts]
    mel: Floats = numpy.einsum("tfk,fk->tf", bands, weights)
    return mel


def power_to_db(power: Floats, *, floor: float = 1e-10, range_db: float = 80.0) -> Floats:
    """:return: in dB, not more than `range_db` below the maximum over all frames"""
    db = 10 * numpy.log10(numpy.maximum(floor, power))
    limited: Floats = numpy.maximum(db, db.max() - range_db)
    return limited


def cosine_transform(x: Floats, num_coefficients: int) -> Floats:
    """
    Orthonormal cosine transform of type II.

    :param x: (..., n)
    :return: (..., num_coefficients)
    """
    n = x.shape[-1]
    k = numpy.arange(num_coefficients)
    basis = numpy.cos(math.pi / n * (numpy.arange(n)[:, None] + 0.5) * k) * math.sqrt(2 / n)
    basis[:, 0] /= math.sqrt(2)
    transformed: Floats = x @ basis
    return transformed


def root_mean_square(audio: Floats, *, frame_len: int, step: int, center: bool = True) -> Floats:
    """:return: (frames,)"""
    rms: Floats = numpy.sqrt(numpy.mean(frames(audio, frame_len=frame_len, step=step, center=center) ** 2, axis=-1))
    return rms


def delta(features: Floats, *, order: int = 1, width: int = 9) -> Floats:
    """
    Derivative in time, of the polynomial of degree `order` that fits best to `width` frames (Savitzky-Golay).

    At the ends, the polynomial of the outermost `width` frames is taken; a shorter sequence is first extended by its
    last frame.

    :param features: (frames, features)
    :return: (frames, features)
    """
    num_frames = len(features)
    padded = numpy.pad(features, ((0, max(width - num_frames, 0)), (0, 0)), mode="edge")
    half = width // 2
    fit = numpy.linalg.pinv(
        numpy.vander(numpy.arange(-half, half + 1), order + 1, increasing=True)
    )  # (order + 1, width)
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, width, axis=0)
    factorial = math.factorial(order)
    inner = windows @ fit[order] * factorial
    ends = (numpy.repeat(inner[:1], half, axis=0), numpy.repeat(inner[-1:], half, axis=0))
    return numpy.concatenate([ends[0], inner, ends[1]])[:num_frames]


def resample(audio: Floats, *, from_rate: int, to_rate: int) -> Floats:
    """
    Band-limited interpolation with a Kaiser-windowed sinc.

    :param audio: (samples,) or (samples, channels)
    :return: (ceil(samples * to_rate / from_rate), ...)
    """
    common = math.gcd(from_rate, to_rate)
    up, down = to_rate // common, from_rate // common
    if up == down:
        return audio
    phases = _resample_filters(up, down)
    taps = phases.shape[1]
    padded = numpy.pad(audio, [(taps // 2, taps)] + [(0, 0)] * (audio.ndim - 1))
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, taps, axis=0)  # (samples, ..., taps)
    num_samples = -(-len(audio) * up // down)
    positions = numpy.arange(num_samples) * down
    blocks = [
        numpy.einsum("n...k,nk->n...", windows[block // up], phases[block % up])
        for block in numpy.array_split(positions, max(num_samples // 10_000, 1))
    ]
    return numpy.concatenate(blocks).astype(audio.dtype)


def time_stretch(audio: Floats, *, speed: float, n_fft: int = 2048) -> Floats:
    """
    Changes the duration and keeps the pitch, with a phase vocoder (Flanagan and Golden 1966).

    :param audio: (samples,)
    :param speed: > 1: shorter
    :return: (samples / speed,)
    """
    step = n_fft // 4
    spectrum = stft(audio, n_fft=n_fft, step=step)
    spectrum = numpy.concatenate([spectrum, numpy.zeros_like(spectrum[:2])])
    positions = numpy.arange(0, len(spectrum) - 2, speed)
    left = positions.astype("int64")
    weight = (positions - left)[:, None]
    magnitude = (1 - weight) * numpy.abs(spectrum[left]) + weight * numpy.abs(spectrum[left + 1])
    advance = numpy.angle(spectrum[left + 1]) - numpy.angle(spectrum[left])
    expected = 2 * math.pi * step * numpy.arange(spectrum.shape[1]) / n_fft
    advance = expected + (advance - expected + math.pi) % (2 * math.pi) - math.pi
    phase = numpy.angle(spectrum[0]) + numpy.cumsum(advance, axis=0) - advance
    stretched = inverse_stft(
        magnitude * numpy.exp(1j * phase), n_fft=n_fft, step=step, num_samples=round(len(audio) / speed)
    )
    return stretched.astype(audio.dtype)


def pitch_shift(audio: Floats, *, semitones: float) -> Floats:
    """
    Changes the pitch and keeps the duration.

    :param audio: (samples,)
    :return: (samples,)
    """
    factor = 2 ** (semitones / 12)
    stretched = time_stretch(audio, speed=1 / factor)
    rate = 1000  # the accuracy of the ratio
    shifted = resample(stretched, from_rate=round(rate * factor), to_rate=rate)
    return numpy.pad(shifted, (0, max(len(audio) - len(shifted), 0)))[: len(audio)]


def fundamental_frequency(
    audio: Floats, *, sample_rate: int, window_len: int, step: int, fmin: float = 0, fmax: float | None = None
) -> Floats:
    """
    YIN (de Cheveigne and Kawahara 2002, https://doi.org/10.1121/1.1458024), without its last step.

    :param audio: (samples,)
    :param window_len: samples that are compared with their shift. Lags are at most that long
    :param step: samples from frame to frame
    :param fmin: in Hz
    :param fmax: in Hz, by default a quarter of the sample rate
    :return: (frames,), in Hz, 0 where there is no clear period
    """
    max_lag = window_len if fmin <= 0 else min(window_len, math.ceil(sample_rate / fmin))
    min_lag = max(int(sample_rate / (fmax or sample_rate / 4)), 2)
    difference = _yin_difference(frames(audio, frame_len=2 * window_len, step=step, center=True), window_len)
    cumulative = numpy.cumsum(difference[:, 1:], axis=1) / numpy.arange(1, window_len + 1)
    normalized = difference[:, 1:] / numpy.maximum(cumulative, 1e-12)
    normalized = numpy.concatenate([numpy.ones_like(normalized[:, :1]), normalized], axis=1)  # (frames, 1 + window_len)
    normalized[cumulative[:, -1] < 1e-10] = 1.0  # silence
    return numpy.array([_best_frequency(row[: max_lag + 1], min_lag, sample_rate) for row in normalized])


def _centered_window(window_len: int, n_fft: int) -> Floats:
    window = 0.5 - 0.5 * numpy.cos(2 * math.pi * numpy.arange(window_len) / window_len)
    left = (n_fft - window_len) // 2
    return numpy.pad(window, (left, n_fft - window_len - left))


# Slaney's mel scale: linear up to 1000 Hz, then logarithmic.
_HZ_PER_MEL = 200 / 3
_LOG_FROM_HZ = 1000.0
_LOG_STEP = math.log(6.4) / 27


def _hz_to_mel(hz: float) -> float:
    if hz < _LOG_FROM_HZ:
        return hz / _HZ_PER_MEL
    return _LOG_FROM_HZ / _HZ_PER_MEL + math.log(hz / _LOG_FROM_HZ) / _LOG_STEP


def _mel_to_hz(mel: Floats) -> Floats:
    log_from = _LOG_FROM_HZ / _HZ_PER_MEL
    return numpy.where(
        mel < log_from,
        mel * _HZ_PER_MEL,
        _LOG_FROM_HZ * numpy.exp(_LOG_STEP * (numpy.maximum(mel, log_from) - log_from)),
    )


@functools.lru_cache(maxsize=16)
def _resample_filters(up: int, down: int) -> Floats:
    """:return: (up, taps). Row p interpolates at the fraction p / up of a sample, with the taps centered"""
    cutoff = min(1.0, up / down)  # of the band of the input
    half = math.ceil(10 / cutoff)
    offsets = numpy.arange(-half, half + 1) - numpy.arange(up)[:, None] / up
    inside = numpy.maximum(1 - (offsets / (half + 1)) ** 2, 0)
    filters = numpy.sinc(cutoff * offsets) * numpy.i0(5.0 * numpy.sqrt(inside))
    normalized: Floats = filters / filters.sum(axis=1, keepdims=True)
    return normalized


@functools.lru_cache(maxsize=16)
def _mel_bands(
    sample_rate: int, n_fft: int, num_filters: int, fmin: float, fmax: float | None
) -> tuple[Floats, Floats]:
    """
    Each filter has only a few bins. To skip the others takes less time than a matmul, and no threads of a BLAS.

    :return: first bin of each filter, (num_filters,), and the weights from there on, (num_filters, width)
    """
    filters = mel_filters(sample_rate=sample_rate, n_fft=n_fft, num_filters=num_filters, fmin=fmin, fmax=fmax)
    is_used = filters > 0
    starts = is_used.argmax(axis=1)
    ends = filters.shape[1] - is_used[:, ::-1].argmax(axis=1)
    width = max(int(numpy.where(is_used.any(axis=1), ends - starts, 1).max()), 1)
    starts = numpy.minimum(starts, filters.shape[1] - width)
    return starts, numpy.stack([row[start : start + width] for row, start in zip(filters, starts, strict=True)])


def _yin_difference(windows: Floats, window_len: int) -> Floats:
    """
    :param windows: (frames, 2 * window_len)
    :return: (frames, window_len + 1), sum of squared differences of the first half and its shift, by lag
    """
    size = 4 * window_len
    first = windows[:, :window_len]
    correlation = numpy.fft.irfft(
        numpy.fft.rfft(windows, size) * numpy.conj(numpy.fft.rfft(first, size)), size, axis=-1
    )[:, : window_len + 1]
    energy = numpy.cumsum(numpy.pad(windows**2, ((0, 0), (1, 0))), axis=1)
    shifted = energy[:, window_len:] - energy[:, : window_len + 1]
    difference: Floats = numpy.maximum(shifted[:, :1] + shifted - 2 * correlation, 0)
    return difference


def _best_frequency(normalized: Floats, min_lag: int, sample_rate: int, threshold: float = 0.15) -> float:
    """The first dip below the threshold, to a fraction of a sample by a parabola."""
    below = numpy.flatnonzero(normalized[min_lag:-1] < threshold)
    if not len(below):
        return 0.0
    lag = min_lag + int(below[0])
    while lag + 2 < len(normalized) and normalized[lag + 1] < normalized[lag]:
        lag += 1
    left, middle, right = normalized[lag - 1 : lag + 2]
    curvature = left - 2 * middle + right
    shift = 0.5 * (left - right) / curvature if curvature > 0 else 0.0
    return float(sample_rate / (lag + shift))
