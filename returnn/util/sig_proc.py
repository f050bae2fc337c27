"""Filter banks that model the ear: gammatone filters, equally far apart on the basilar membrane."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray

Array = NDArray[Any]


class GammatoneFilterbank:
    """
    Impulse responses of gammatone filters (Patterson et al. 1992; Schlueter et al. 2007, "Gammatone features and
    feature combination for large vocabulary speech recognition").
    """

    def __init__(
        self,
        num_channels: int,
        length: float,
        sample_rate: int = 16000,
        freq_max: float = 7500.0,
        freq_min: float = 100.0,
        normalization: bool = True,
    ):
        """
        :param num_channels: number of filters
        :param length: of the impulse responses, in seconds
        :param sample_rate: in Hz
        :param freq_max: center frequency of the last filter, in Hz
        :param freq_min: center frequency of the first filter, in Hz
        :param normalization: the largest gain of each filter is 1
        """
        self.num_channels = num_channels
        self.length = length
        self.sample_rate = sample_rate
        self.freq_max = freq_max
        self.freq_min = freq_min
        self.normalization = normalization

    def get_gammatone_filterbank(self) -> Array:
        """:return: (samples, channels), float32"""
        centers = self.center_frequencies(self.num_channels, self.freq_max, self.freq_min)
        responses = [self.gammatone_impulse_response(f, self.length, self.sample_rate) for f in centers]
        filters = numpy.stack(responses, axis=1)
        return (self.normalize_filters(filters) if self.normalization else filters).astype("float32")

    def gammatone_impulse_response(
        self,
        f_center: float,
        length: float,
        sample_rate: int,
        output_gain: float = 1.0,
        filter_order: int = 4,
        phase_shift: float = 0.0,
    ) -> Array:
        """
        `gain t^(order - 1) exp(-2 pi b t) cos(2 pi f t + phase)`

        :param f_center: f, in Hz
        :param length: in seconds
        :param sample_rate: in Hz
        :param output_gain: factor
        :param filter_order: slope of the filter
        :param phase_shift: in radians
        :return: (samples,)
        """
        t = numpy.arange(int(length * sample_rate)) / sample_rate
        bandwidth = self.bandwidth_by_center_frequency(f_center)
        envelope = output_gain * t ** (filter_order - 1) * numpy.exp(-2 * numpy.pi * bandwidth * t)
        response: Array = envelope * numpy.cos(2 * numpy.pi * f_center * t + phase_shift)
        return response

    @staticmethod
    def bandwidth_by_center_frequency(
        freq: float, lin_approx_coeff: float = 24.7, quality_factor: float = 9.264491981582191
    ) -> float:
        """
        :param freq: in Hz
        :param lin_approx_coeff: bandwidth at 0 Hz, in Hz
        :param quality_factor: ratio of frequency and bandwidth, for high frequencies
        :return: in Hz: equivalent rectangular bandwidth (Glasberg & Moore 1990)
        """
        return lin_approx_coeff + freq / quality_factor

    @staticmethod
    def center_frequencies(num_channels: int, freq_max: float, freq_min: float) -> Array:
        """:return: (channels,), in Hz, equally far apart on the basilar membrane"""
        positions = numpy.linspace(inv_greenwood_function(freq_min), inv_greenwood_function(freq_max), num_channels)
        return numpy.array([greenwood_function(x) for x in positions])

    @staticmethod
    def normalize_filters(filters: Array) -> Array:
        """:return: (samples, channels), with the largest gain of each filter 1"""
        gains = numpy.abs(numpy.fft.rfft(filters, n=max(len(filters), 4096), axis=0)).max(axis=0)
        normalized: Array = filters / gains
        return normalized


def greenwood_function(
    x: float, scaling_constant: float = 165.4, constant_of_integration: float = 0.88, slope: float = 2.1
) -> float:
    """
    :param x: position on the basilar membrane, 0 to 1
    :param scaling_constant: A in `A (10^(a x) - k)`, in Hz (Greenwood 1990)
    :param constant_of_integration: k
    :param slope: a
    :return: frequency, in Hz
    """
    return float(scaling_constant * (10.0 ** (slope * x) - constant_of_integration))


def inv_greenwood_function(
    freq: float, scaling_constant: float = 165.4, constant_of_integration: float = 0.88, slope: float = 2.1
) -> float:
    """
    :param freq: in Hz
    :param scaling_constant: see `greenwood_function`
    :param constant_of_integration: see there
    :param slope: see there
    :return: position on the basilar membrane
    """
    return float(numpy.log10(freq / scaling_constant + constant_of_integration) / slope)
