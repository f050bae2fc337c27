"""
The kinds of audio features, each a function of audio (samples,) to features (frames, num_feature_filters).

`window_len` and `step_len` are in seconds. Arguments with defaults are the `feature_options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy

from returnn.datasets.util import signal
from returnn.datasets.util.signal import Floats
from returnn.util.errors import ConfigError


def _mfcc(
    audio: Floats,
    sample_rate: int,
    window_len: float,
    step_len: float,
    num_feature_filters: int,
    n_mels: int = 128,
    fmin: float = 0,
    fmax: float | None = None,
    center: bool = True,
) -> Floats:
    n_fft, step = int(window_len * sample_rate), int(step_len * sample_rate)
    mel = signal.mel_spectrum(
        audio,
        sample_rate=sample_rate,
        n_fft=n_fft,
        step=step,
        num_filters=n_mels,
        fmin=fmin,
        fmax=fmax,
        center=center,
    )
    features = signal.cosine_transform(signal.power_to_db(mel), num_feature_filters)
    features[:, 0] = signal.root_mean_square(audio, frame_len=n_fft, step=step, center=center)
    return features


def _log_mel_filterbank(
    audio: Floats, sample_rate: int, window_len: float, step_len: float, num_feature_filters: int
) -> Floats:
    """`log(max(mel, 1e-3))`, of energies. The floor keeps the noise in pauses from getting weight."""
    return numpy.log(numpy.maximum(1e-3, _mel(audio, sample_rate, window_len, step_len, num_feature_filters)))


def _log_log_mel_filterbank(
    audio: Floats, sample_rate: int, window_len: float, step_len: float, num_feature_filters: int
) -> Floats:
    """`log(1 + log(1 + mel))`, of energies. Never negative."""
    return numpy.log1p(numpy.log1p(_mel(audio, sample_rate, window_len, step_len, num_feature_filters)))


def _mel(audio: Floats, sample_rate: int, window_len: float, step_len: float, num_feature_filters: int) -> Floats:
    return signal.mel_spectrum(
        audio,
        sample_rate=sample_rate,
        n_fft=int(window_len * sample_rate),
        step=int(step_len * sample_rate),
        num_filters=num_feature_filters,
    )


def _db_mel_filterbank(
    audio: Floats,
    sample_rate: int,
    window_len: float,
    step_len: float,
    num_feature_filters: int,
    fmin: float = 0,
    fmax: float | None = None,
    min_amp: float = 1e-10,
    center: bool = True,
) -> Floats:
    """`20 log10(max(mel, min_amp))`, of magnitudes."""
    mel = signal.mel_spectrum(
        audio,
        sample_rate=sample_rate,
        n_fft=int(window_len * sample_rate),
        step=int(step_len * sample_rate),
        num_filters=num_feature_filters,
        fmin=fmin,
        fmax=fmax,
        center=center,
        power=1.0,
    )
    return 20 * numpy.log10(numpy.maximum(min_amp, mel))


def _linear_spectrogram(
    audio: Floats,
    sample_rate: int,
    window_len: float,
    step_len: float,
    num_feature_filters: int,
    center: bool = True,
) -> Floats:
    """Magnitudes, without the one at 0 Hz."""
    window = int(window_len * sample_rate)
    if 2 * num_feature_filters < window:
        raise ConfigError(
            f"audio features 'linear_spectrogram': option 'num_feature_filters' is {num_feature_filters}, "
            f"it has to be at least {-(-window // 2)},\n  which is half of the window of {window} samples."
        )
    spectrum = signal.stft(
        audio, n_fft=2 * num_feature_filters, window_len=window, step=int(step_len * sample_rate), center=center
    )
    return numpy.abs(spectrum)[:, 1:]


def _f0(
    audio: Floats, sample_rate: int, window_len: float, step_len: float, fmin: float = 0, fmax: float | None = None
) -> Floats:
    frequencies = signal.fundamental_frequency(
        audio,
        sample_rate=sample_rate,
        window_len=int(window_len * sample_rate),
        step=int(step_len * sample_rate),
        fmin=fmin,
        fmax=fmax,
    )
    return frequencies[:, None]


def _raw(audio: Floats) -> Floats:
    return audio[:, None]


FEATURES: dict[str, Callable[..., Floats]] = {
    "mfcc": _mfcc,
    "log_mel_filterbank": _log_mel_filterbank,
    "log_log_mel_filterbank": _log_log_mel_filterbank,
    "db_mel_filterbank": _db_mel_filterbank,
    "linear_spectrogram": _linear_spectrogram,
    "f0": _f0,
    "raw": _raw,
}
FEATURE_OPTIONS = {
    name: {param.name for param in inspect.signature(func).parameters.values() if param.default is not param.empty}
    for name, func in FEATURES.items()
}
