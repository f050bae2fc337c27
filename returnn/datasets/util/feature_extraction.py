"""Audio to features: the option `audio` of the data sets."""

from __future__ import annotations

import inspect
import numbers
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy
import numpy.typing

from returnn.datasets.util import signal
from returnn.datasets.util.audio_features import FEATURE_OPTIONS, FEATURES
from returnn.datasets.util.audio_file import decode_audio
from returnn.datasets.util.signal import Floats
from returnn.log import log
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.files.near_files import hint_for_missing_file
from returnn.util.files.text_file import read_text
from returnn.util.python.optional_import import import_optional
from returnn.util.texts.counted import counted, there_are

Norm: TypeAlias = "Floats | str | float | None"

_WHERE = "audio features"
_DEFAULT_NUM_FILTERS = 40
_POSITIVE = {
    **dict.fromkeys(("window_len", "step_len"), float),
    **dict.fromkeys(("num_feature_filters", "sample_rate", "num_channels", "join_frames"), int),
}
_FEATURES_OF_DIM_1 = ("raw", "f0")
_RANDOM_PERMUTE_DEFAULTS = {
    "rnd_scale_lower": 0.8,  # of the amplitude
    "rnd_scale_upper": 1.0,
    "rnd_zoom_switch": 0.2,  # probability of a change of speed and pitch together
    "rnd_zoom_lower": 0.9,
    "rnd_zoom_upper": 1.1,
    "rnd_zoom_order": 3,  # of the splines
    "rnd_stretch_switch": 0.2,  # probability of a change of speed alone
    "rnd_stretch_lower": 0.9,
    "rnd_stretch_upper": 1.2,
    "rnd_pitch_switch": 0.2,  # probability of a change of pitch alone
    "rnd_pitch_lower": -1.0,  # in semitones
    "rnd_pitch_upper": 1.0,
}


class ExtractAudioFeatures:
    """Extracts one kind of features from audio; see the options."""

    def __init__(
        self,
        window_len: float = 0.025,
        step_len: float = 0.010,
        num_feature_filters: int | None = None,
        with_delta: bool | int = False,
        norm_mean: Norm = None,
        norm_std_dev: Norm = None,
        features: str | Callable[..., Floats] = "mfcc",
        feature_options: Mapping[str, Any] | None = None,
        random_permute: Mapping[str, Any] | bool | None = None,
        random_state: numpy.random.RandomState | None = None,
        raw_ogg_opts: Mapping[str, Any] | None = None,
        pre_process: Callable[..., Floats] | None = None,
        post_process: Callable[..., Floats] | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        peak_normalization: bool = True,
        preemphasis: float | None = None,
        join_frames: int | None = None,
    ):
        """
        :param window_len: in seconds
        :param step_len: from frame to frame, in seconds
        :param num_feature_filters: features per frame. By default 40, or 1 for "raw" and "f0"
        :param with_delta: how many derivatives in time to append. True: one
        :param norm_mean: is subtracted. A number, a vector, a text file with one number per line,
            or "per_seq" for the mean over the sequence
        :param norm_std_dev: is divided by; as `norm_mean`
        :param features: "mfcc" (the first one is replaced by the energy, as usual), "log_mel_filterbank",
            "log_log_mel_filterbank", "db_mel_filterbank", "linear_spectrogram", "f0" (in Hz, 0 if unvoiced),
            "raw" (samples), or a function. That gets those of `audio`, `sample_rate`, `window_len`, `step_len` and
            `num_feature_filters` that it has as arguments, and `feature_options`
        :param feature_options: further options of the features
        :param random_permute: augmentation: changes speed, pitch and amplitude by chance, in each epoch anew. True, or
            a dict of: "rnd_scale_lower" (default 0.8) and "rnd_scale_upper" (1.0), factor of the amplitude, always;
            "rnd_zoom_switch" (0.2), the probability of another speed and pitch together (above 0 it needs scipy),
            "rnd_zoom_lower" (0.9) and "rnd_zoom_upper" (1.1), how much longer, "rnd_zoom_order" (3), of the splines;
            "rnd_stretch_switch" (0.2), of another speed alone, "rnd_stretch_lower" (0.9) and "rnd_stretch_upper" (1.2),
            the speed; "rnd_pitch_switch" (0.2), of another pitch alone, "rnd_pitch_lower" (-1.0) and "rnd_pitch_upper"
            (1.0), in semitones
        :param random_state: for `random_permute` and `pre_process`
        :param raw_ogg_opts: for the features "raw_ogg", which are not possible
        :param pre_process: function of audio (samples,), or (samples, channels) where there are several or
            `num_channels` is set, and those of `sample_rate`, `random_state` and `seq_name` that it has as arguments.
            It comes behind the change of the sample rate, and before all else: it can choose a channel
        :param post_process: function of features (frames, dim), or (frames, channels, dim), and those of
            `random_state` and `seq_name` that it has as arguments; returns features. With `random_state`, it can be an
            augmentation
        :param sample_rate: in Hz; audio with another one is resampled. By default it is not, and has other features
        :param num_channels: features are then (frames, channels, dim)
        :param peak_normalization: scale the audio so that its largest sample is 1
        :param preemphasis: subtract that times the sample before
        :param join_frames: put that many frames into one; the last one is filled up with zeros
        :raises ConfigError: if an option is wrong
        """
        self.window_len = window_len
        self.step_len = step_len
        self.features = _check_features(features)
        self.feature_options = dict(feature_options or {})
        self._extract = FEATURES[features] if isinstance(features, str) else features
        self._check_feature_options()
        self.num_feature_filters = num_feature_filters or self._default_num_feature_filters()
        self.with_delta = int(with_delta)
        self.join_frames = join_frames
        self.num_channels = num_channels
        self.norm_mean = self._load_norm("norm_mean", norm_mean)
        self.norm_std_dev = self._load_norm("norm_std_dev", norm_std_dev)
        self.random_permute_opts = _random_permute_options(random_permute)
        self.random_state = random_state or numpy.random.RandomState(1)
        self.raw_ogg_opts = raw_ogg_opts
        if raw_ogg_opts is not None:
            raise ConfigError(f"{_WHERE}: option 'raw_ogg_opts' is for the features 'raw_ogg', which are not possible.")
        self.pre_process = pre_process
        self.post_process = post_process
        self.sample_rate = sample_rate
        self._check_sizes()
        self._sample_rates: set[int] = set()  # of all audio so far
        self.peak_normalization = peak_normalization
        self.preemphasis = preemphasis
        self.num_dim = self._dim_of_frame() * (join_frames or 1)

    def _check_sizes(self) -> None:
        for name, kind in _POSITIVE.items():
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, numbers.Real) or value <= 0 or kind(value) != value:
                text = "integer" if kind is int else "number"
                raise ConfigError(f"{_WHERE}: option {name!r}: expected a positive {text}, got {value!r}.")
            setattr(self, name, kind(value))

    def get_feature_dimension(self) -> int:
        """:return: features per frame, with derivatives and joined frames"""
        return self.num_dim

    def get_audio_features_from_raw_bytes(self, raw_bytes: Any, seq_name: str | None = None) -> Floats:
        """
        :param raw_bytes: of an audio file, or a file to read them from
        :param seq_name: for errors
        :return: as `get_audio_features`
        :raises UserError: if it is no audio
        """
        content = raw_bytes if isinstance(raw_bytes, bytes) else raw_bytes.read()
        audio, sample_rate = decode_audio(content, name=_seq_text(seq_name))
        return self.get_audio_features(audio, sample_rate, seq_name=seq_name)

    def get_audio_features(self, audio: Floats, sample_rate: int, seq_name: str | None = None) -> Floats:
        """
        :param audio: (samples,) or (samples, channels)
        :param sample_rate: in Hz
        :param seq_name: for errors
        :return: (frames, dim), or (frames, channels, dim) with `num_channels`. float32
        :raises UserError: if the audio has other channels than expected
        """
        audio, sample_rate = self._prepare(audio, sample_rate, seq_name)
        if self.num_channels is None:
            features = self._features_of_channel(audio, sample_rate)
        else:
            channels = audio.reshape(len(audio), -1).T
            features = numpy.stack([self._features_of_channel(channel, sample_rate) for channel in channels], axis=1)
        features = self._joined(self._normalized(features))
        if self.post_process:
            features = _call(self.post_process, features, random_state=self.random_state, seq_name=seq_name)
        if features.shape[-1] != self.num_dim:
            raise ConfigError(
                f"{_WHERE}: {counted(self.num_dim, 'feature')} per frame are expected, got shape {features.shape}.\n"
                "  See the options 'features', 'post_process' and 'num_feature_filters'."
            )
        return features.astype("float32")

    def _prepare(self, audio: Floats, sample_rate: int, seq_name: str | None) -> tuple[Floats, int]:
        if self.sample_rate is not None and sample_rate != self.sample_rate:
            audio = signal.resample(audio, from_rate=sample_rate, to_rate=self.sample_rate)
            sample_rate = self.sample_rate
        self._watch_sample_rate(sample_rate, seq_name)
        audio = self._without_axis_of_one_channel(audio)
        if self.pre_process:  # before the check, as it can choose or mix the channels
            audio = _call(
                self.pre_process, audio, sample_rate=sample_rate, random_state=self.random_state, seq_name=seq_name
            )
        audio = self._check_channels(self._without_axis_of_one_channel(audio), seq_name)
        if self.preemphasis:
            audio = numpy.concatenate([audio[:1], audio[1:] - self.preemphasis * audio[:-1]])
        if self.peak_normalization:
            peak = numpy.max(numpy.abs(audio))
            audio = audio / peak if peak > 0 else audio
        if self.random_permute_opts is not None:
            audio = _randomly_permuted(audio, self.random_permute_opts, self.random_state)
        return audio, sample_rate

    def _watch_sample_rate(self, sample_rate: int, seq_name: str | None) -> None:
        """Warns once: a filter, or a sample, is about something else with another rate, and no model can know that."""
        if sample_rate in self._sample_rates:
            return
        if len(self._sample_rates) == 1:
            (before,) = self._sample_rates
            log.print_warning(
                f"{_WHERE}: {_seq_text(seq_name)}: the audio has {sample_rate} Hz, that before {before} Hz, so that "
                "equal sounds have other features.\n"
                "  Set 'sample_rate' of the option 'audio', to which all audio is resampled then."
            )
        self._sample_rates.add(sample_rate)

    def _features_of_channel(self, audio: Floats, sample_rate: int) -> Floats:
        features = _call(
            self._extract,
            audio=audio,
            sample_rate=sample_rate,
            window_len=self.window_len,
            step_len=self.step_len,
            num_feature_filters=self.num_feature_filters,
            random_state=self.random_state,
            required=self.feature_options,
        )
        deltas = [signal.delta(features, order=order) for order in range(1, self.with_delta + 1)]
        return numpy.concatenate([features, *deltas], axis=-1)

    def _normalized(self, features: Floats) -> Floats:
        if self.norm_mean is not None:
            mean = features.mean(axis=0) if isinstance(self.norm_mean, str) else self.norm_mean
            features = features - mean
        if self.norm_std_dev is not None:
            std_dev = features.std(axis=0) if isinstance(self.norm_std_dev, str) else self.norm_std_dev
            features = features / numpy.maximum(std_dev, 1e-10)
        return features

    def _joined(self, features: Floats) -> Floats:
        if not self.join_frames:
            return features
        n = self.join_frames
        missing = -len(features) % n
        padded = numpy.pad(features, [(0, missing)] + [(0, 0)] * (features.ndim - 1))
        blocks = padded.reshape(-1, n, *features.shape[1:])
        return numpy.concatenate([blocks[:, i] for i in range(n)], axis=-1)

    def _without_axis_of_one_channel(self, audio: Floats) -> Floats:
        return audio[:, 0] if self.num_channels is None and audio.ndim == 2 and audio.shape[1] == 1 else audio

    def _check_channels(self, audio: Floats, seq_name: str | None) -> Floats:
        given = 1 if audio.ndim == 1 else audio.shape[1]
        if given != (self.num_channels or 1):
            mix = (
                "Mix the channels before, as by 'ffmpeg -i IN.wav -ac 1 OUT.wav', or take one by 'pre_process', which"
                " gets (samples, channels). "
            )
            raise UserError(
                f"{_WHERE}: {_seq_text(seq_name)}: the audio has {counted(given, 'channel')}"
                f"{' after pre_process' if self.pre_process else ''}, expected {self.num_channels or 1}.\n"
                f"  {mix if self.num_channels is None else ''}'num_channels' of the option 'audio' says how many there"
                " are, for features of each channel."
            )
        return audio

    def _default_num_feature_filters(self) -> int:
        return 1 if self.features in _FEATURES_OF_DIM_1 else _DEFAULT_NUM_FILTERS

    def _dim_of_frame(self) -> int:
        if self.features in _FEATURES_OF_DIM_1 and self.num_feature_filters != 1:
            raise ConfigError(
                f"{_WHERE}: option 'num_feature_filters' is {self.num_feature_filters}, "
                f"but the features {self.features!r} have only 1 per frame."
            )
        return self.num_feature_filters * (1 + self.with_delta)

    def _check_feature_options(self) -> None:
        if isinstance(self.features, str):
            known = FEATURE_OPTIONS.get(self.features, set())
            for name in self.feature_options:
                check_known("feature_options", name, known, where=f"{_WHERE} {self.features!r}")

    def _load_norm(self, option: str, norm: Norm) -> Norm:
        if norm is None or (isinstance(norm, str) and norm == "per_seq"):
            return norm
        if isinstance(norm, str):
            if not os.path.exists(norm):
                raise ConfigError(
                    f"{_WHERE}: option {option!r}: there is no file {norm!r}.{hint_for_missing_file(norm)}\n"
                    "  Possible: 'per_seq', a number, a vector, or a text file with one number per line."
                )
            norm = _read_vector(norm)
        vector = numpy.asarray(norm, dtype="float32")
        if vector.shape not in [(), (self._dim_of_frame(),)]:
            raise ConfigError(
                f"{_WHERE}: option {option!r} has shape {vector.shape}, but "
                f"{there_are(self._dim_of_frame(), 'feature')}."
            )
        return vector


def _check_features(features: str | Callable[..., Floats]) -> str | Callable[..., Floats]:
    if features == "raw_ogg":
        raise ConfigError(
            f"{_WHERE}: the features 'raw_ogg', the coefficients inside of an Ogg Vorbis stream, are not possible: "
            "they need a parser that no package offers.\n  Take 'raw' for the samples."
        )
    if isinstance(features, str):
        check_known("features", features, FEATURES, where=_WHERE)
    return features


def _random_permute_options(given: Mapping[str, Any] | bool | None) -> dict[str, float] | None:
    if given is None or given is False:
        return None
    opts = {} if given is True else dict(given)
    for name in opts:
        check_known("option", name, _RANDOM_PERMUTE_DEFAULTS, where=f"{_WHERE}: random_permute")
    return {**_RANDOM_PERMUTE_DEFAULTS, **opts}


def _randomly_permuted(audio: Floats, opts: Mapping[str, float], rnd: numpy.random.RandomState) -> Floats:
    audio = audio * rnd.uniform(opts["rnd_scale_lower"], opts["rnd_scale_upper"])
    if rnd.uniform() < opts["rnd_zoom_switch"]:
        ndimage = import_optional("scipy.ndimage", needed_for="the option 'random_permute' of audio features")
        factor = rnd.uniform(opts["rnd_zoom_lower"], opts["rnd_zoom_upper"])
        zoom = [factor] + [1] * (audio.ndim - 1)
        audio = ndimage.zoom(audio, zoom, order=int(opts["rnd_zoom_order"]))
    if rnd.uniform() < opts["rnd_stretch_switch"]:
        speed = rnd.uniform(opts["rnd_stretch_lower"], opts["rnd_stretch_upper"])
        audio = _per_channel(lambda channel: signal.time_stretch(channel, speed=speed), audio)
    if rnd.uniform() < opts["rnd_pitch_switch"]:
        semitones = rnd.uniform(opts["rnd_pitch_lower"], opts["rnd_pitch_upper"])
        audio = _per_channel(lambda channel: signal.pitch_shift(channel, semitones=semitones), audio)
    return audio


def _per_channel(func: Callable[[Floats], Floats], audio: Floats) -> Floats:
    if audio.ndim == 1:
        return func(audio)
    return numpy.stack([func(channel) for channel in audio.T], axis=1)


def _call(
    func: Callable[..., Floats], *args: Floats, required: Mapping[str, Any] | None = None, **offered: Any
) -> Floats:
    """Calls with `required`, and with those of `offered` that the function takes."""
    params = inspect.signature(func).parameters
    if not any(param.kind is inspect.Parameter.VAR_KEYWORD for param in params.values()):
        offered = {name: value for name, value in offered.items() if name in params}
    return func(*args, **offered, **(required or {}))


def _read_vector(filename: str) -> Floats:
    try:
        return numpy.array([float(number) for number in read_text(filename).split()], dtype="float32")
    except ValueError as exc:
        raise UserError(f"{_WHERE}: file {filename!r}: expected numbers, {exc}.") from exc


def _seq_text(seq_name: str | None) -> str:
    return f"sequence {seq_name!r}" if seq_name is not None else "a sequence"
