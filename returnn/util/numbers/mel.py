"""Mel scale (O'Shaughnessy 1987), and filters which are triangles on it."""

from __future__ import annotations

import math

import numpy
import numpy.typing


def mel_of_hz(frequency_hz: float) -> float:
    """:return: frequency on the mel scale"""
    return 2595.0 * math.log10(1.0 + frequency_hz / 700.0)


def hz_of_mel(mel: float) -> float:
    """:return: frequency in Hz"""
    return 700.0 * math.expm1(mel / 2595.0 * math.log(10.0))


def mel_filterbank_matrix(
    *, num_filters: int, fft_size: int, sampling_rate: float, f_min: float | None = None, f_max: float | None = None
) -> numpy.typing.NDArray[numpy.float32]:
    """
    :param num_filters: number of filters, whose centers have equal distances on the mel scale
    :param fft_size: in samples; there are `fft_size // 2 + 1` bins
    :param sampling_rate: in Hz
    :param f_min: where the first filter begins, in Hz, default 0
    :param f_max: where the last one ends, in Hz, default half of the sampling rate
    :return: (bins, filters): triangles of height 1, each from the center of the filter before to the one behind
    """
    low, high = mel_of_hz(f_min or 0.0), mel_of_hz(sampling_rate / 2 if f_max is None else f_max)
    points_hz = [hz_of_mel(mel) for mel in numpy.linspace(low, high, num_filters + 2)]
    corners = numpy.array(points_hz) * (fft_size / sampling_rate)
    bins = numpy.arange(fft_size // 2 + 1)[:, None]
    begin, center, end = corners[:-2], corners[1:-1], corners[2:]
    rising, falling = (bins - begin) / (center - begin), (end - bins) / (end - center)
    return numpy.maximum(0.0, numpy.minimum(rising, falling)).astype("float32")
