from __future__ import annotations

import io
import sys
import wave

import numpy
import pytest

from returnn.config import Config
from returnn.datasets.util.audio_file import decode_audio
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.engine.model_inputs import ModelInputs
from returnn.log import log
from returnn.tensor import Tensor
from returnn.util.errors import ConfigError, UserError
from returnn.util.system.warn_once import forget_shown

RATE = 8000
NAMES = ["mfcc", "log_mel_filterbank", "log_log_mel_filterbank", "db_mel_filterbank", "linear_spectrogram", "f0", "raw"]
OPTS = {"linear_spectrogram": {"num_feature_filters": 128}}


def sawtooth(seconds=0.5, hz=120.0):
    return ((numpy.arange(int(seconds * RATE)) * hz / RATE) % 1.0 - 0.5).astype("float32")


def wav_bytes(audio, *, width=2, rate=RATE):
    file = io.BytesIO()
    scaled = (numpy.asarray(audio, "float64") * (2 ** (8 * width - 1) - 1)).round().astype("<i8")
    if width == 1:
        scaled += 128
    with wave.open(file, "wb") as out:
        out.setnchannels(1 if audio.ndim == 1 else audio.shape[1])
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(scaled.reshape(-1, 1).view("u1")[:, :width].tobytes())
    return file.getvalue()


def wav_of_rate_0():
    content = wav_bytes(numpy.zeros(10))
    return content[:24] + bytes(4) + content[28:]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_channels", [None, 2])
@pytest.mark.parametrize("more", [{}, {"with_delta": 2}, {"join_frames": 3}], ids=str)
def test_shape_and_dtype(name, num_channels, more):
    extractor = ExtractAudioFeatures(features=name, num_channels=num_channels, **OPTS.get(name, {}), **more)
    audio = sawtooth() if num_channels is None else numpy.stack([sawtooth(), sawtooth(hz=90)], axis=1)
    features = extractor.get_audio_features(audio, RATE)
    num_frames = 4000 if name == "raw" else 51
    num_frames = -(-num_frames // more.get("join_frames", 1))
    assert features.shape == (num_frames, *([2] if num_channels else []), extractor.get_feature_dimension())
    assert features.dtype == "float32"
    assert numpy.isfinite(features).all()


@pytest.mark.parametrize("name", NAMES)
def test_channels_are_independent(name):
    opts = {"features": name, "peak_normalization": False, "preemphasis": 0.97, **OPTS.get(name, {})}
    stereo = numpy.stack([sawtooth(), sawtooth(hz=90)], axis=1)
    both = ExtractAudioFeatures(**opts, num_channels=2).get_audio_features(stereo, RATE)
    for i in range(2):
        one = ExtractAudioFeatures(**opts).get_audio_features(stereo[:, i], RATE)
        numpy.testing.assert_allclose(both[:, i], one, rtol=1e-5, atol=1e-5)


def test_pre_process_can_choose_a_channel():
    stereo = numpy.stack([sawtooth(), sawtooth(hz=90)], axis=1)
    shapes = []

    def second(audio):
        shapes.append(audio.shape)
        return audio[:, 1]

    found = ExtractAudioFeatures(pre_process=second).get_audio_features(stereo, RATE)
    expected = ExtractAudioFeatures().get_audio_features(stereo[:, 1], RATE)
    numpy.testing.assert_allclose(found, expected, rtol=1e-6)
    assert shapes == [stereo.shape]


@pytest.mark.parametrize("num_channels", [None, 1, 2])
def test_pre_process_gets_the_channels_that_there_are(num_channels):
    shapes = []

    def same(audio):
        shapes.append(audio.shape)
        return audio

    extractor = ExtractAudioFeatures(pre_process=same, num_channels=num_channels)
    audio = numpy.repeat(sawtooth()[:, None], num_channels or 1, axis=1)
    extractor.get_audio_features(audio, RATE)
    assert shapes == [audio.shape if num_channels else audio.shape[:1]]
    with pytest.raises(UserError, match=f"the audio has 3 channels after pre_process, expected {num_channels or 1}"):
        extractor.get_audio_features(numpy.repeat(audio[:, :1], 3, axis=1), RATE)


@pytest.mark.parametrize("name", NAMES)
def test_peak_normalization_makes_the_volume_irrelevant(name):
    extractor = ExtractAudioFeatures(features=name, **OPTS.get(name, {}))
    loud, quiet = (extractor.get_audio_features(sawtooth() * scale, RATE) for scale in (0.5, 0.01))
    numpy.testing.assert_allclose(loud, quiet, rtol=1e-3, atol=1e-3)


def test_silence_is_finite():
    for name in NAMES:
        features = ExtractAudioFeatures(features=name, **OPTS.get(name, {})).get_audio_features(numpy.zeros(10), RATE)
        assert numpy.isfinite(features).all()


def test_first_mfcc_is_the_energy():
    features = ExtractAudioFeatures(peak_normalization=False).get_audio_features(sawtooth(), RATE)
    assert features[20, 0] == pytest.approx(numpy.sqrt(1 / 12), rel=0.05)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_of_all_widths(width):
    extractor = ExtractAudioFeatures(features="raw", peak_normalization=False)
    features = extractor.get_audio_features_from_raw_bytes(wav_bytes(sawtooth(), width=width))
    numpy.testing.assert_allclose(features[:, 0], sawtooth(), atol=2.0 ** (2 - 8 * width))


def test_ogg_through_soundfile():
    soundfile = pytest.importorskip("soundfile")
    file = io.BytesIO()
    soundfile.write(file, sawtooth() * 0.5, RATE, format="OGG", subtype="VORBIS")
    file.seek(0)
    features = ExtractAudioFeatures(features="f0").get_audio_features_from_raw_bytes(file)
    assert numpy.median(features) == pytest.approx(120, abs=2)


def test_sample_rate_resamples():
    extractor = ExtractAudioFeatures(features="raw", sample_rate=16000)
    assert extractor.get_audio_features_from_raw_bytes(wav_bytes(sawtooth())).shape == (8000, 1)


def test_norm_by_number_vector_file_and_sequence(tmp_path):
    plain = ExtractAudioFeatures(num_feature_filters=3).get_audio_features(sawtooth(), RATE)
    path = tmp_path / "mean"
    path.write_text("1\n2\n3\n")
    for mean, std_dev, expected in [
        (1.0, 2.0, (plain - 1) / 2),
        ([1, 2, 3], None, plain - [1, 2, 3]),
        (str(path), None, plain - [1, 2, 3]),
        ("per_seq", "per_seq", (plain - plain.mean(0)) / plain.std(0)),
    ]:
        extractor = ExtractAudioFeatures(num_feature_filters=3, norm_mean=mean, norm_std_dev=std_dev)
        numpy.testing.assert_allclose(extractor.get_audio_features(sawtooth(), RATE), expected, rtol=1e-4, atol=1e-4)


def test_random_permute_is_repeated_by_its_seed():
    switches = {f"rnd_{name}_switch": 1.0 for name in ("zoom", "stretch", "pitch")}

    def run(seed):
        state = numpy.random.RandomState(seed)
        extractor = ExtractAudioFeatures(features="raw", random_permute=switches, random_state=state)
        return extractor.get_audio_features(sawtooth(), RATE)

    numpy.testing.assert_array_equal(run(1), run(1))
    assert run(1).shape != run(2).shape


def test_functions_get_what_they_take():
    seen = []

    def pre_process(audio, *, sample_rate):
        seen.append(sample_rate)
        return audio * 2

    def post_process(features, **kwargs):
        seen.append(kwargs["seq_name"])
        return features + 1

    def features(audio, step_len, factor):
        return audio[:: int(step_len * RATE), None] * factor

    extractor = ExtractAudioFeatures(
        features=features,
        feature_options={"factor": 3},
        num_feature_filters=1,
        pre_process=pre_process,
        post_process=post_process,
        peak_normalization=False,
    )
    out = extractor.get_audio_features(sawtooth(), RATE, seq_name="s")
    numpy.testing.assert_allclose(out[:, 0], sawtooth()[::80] * 6 + 1, rtol=1e-5)
    assert seen == [RATE, "s"]


@pytest.mark.parametrize(
    ("opts", "message"),
    [
        ({"features": "mffc"}, "audio features: there is no features 'mffc'.\n  Did you mean 'mfcc'?"),
        ({"features": "raw_ogg"}, "'raw_ogg'.*are not possible"),
        ({"features": "raw", "num_feature_filters": 40}, "is 40, but the features 'raw' have only 1"),
        ({"feature_options": {"f_min": 1}}, "there is no feature_options 'f_min'.\n  Did you mean 'fmin'"),
        ({"random_permute": {"rnd_zoom": 1}}, "random_permute: there is no option 'rnd_zoom'.\n  Did you mean"),
        ({"norm_mean": [1, 2]}, r"option 'norm_mean' has shape \(2,\), but there are 40 features"),
        (
            {"norm_mean": "per_sequence"},
            "option 'norm_mean': there is no file 'per_sequence'.*\n  Possible: 'per_seq', a number",
        ),
        ({"raw_ogg_opts": {}}, "option 'raw_ogg_opts' is for the features 'raw_ogg'"),
    ],
)
def test_wrong_option_is_named(opts, message):
    with pytest.raises(ConfigError, match=message) as error:
        ExtractAudioFeatures(**opts)
    assert len(str(error.value).splitlines()) <= 5


def test_wrong_norm_file_is_named(tmp_path):
    path = tmp_path / "mean"
    path.write_text("1 x")
    with pytest.raises(UserError, match=r"mean': expected numbers, could not convert string to float: 'x'"):
        ExtractAudioFeatures(norm_mean=str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "sequence 'seq1': the audio file is empty"),
        (b"no audio", "sequence 'seq1': cannot decode the audio: "),
        (wav_of_rate_0(), "sequence 'seq1': the audio has a sample rate of 0 Hz"),
        (wav_bytes(numpy.zeros(0)), "sequence 'seq1': the audio has no samples"),
        (
            wav_bytes(numpy.zeros((10, 2))),
            "sequence 'seq1': the audio has 2 channels, expected 1.\n  Mix the channels before, as by 'ffmpeg",
        ),
    ],
)
def test_wrong_audio_is_named(content, message):
    with pytest.raises(UserError, match=message) as error:
        ExtractAudioFeatures().get_audio_features_from_raw_bytes(content, seq_name="seq1")
    assert len(str(error.value).splitlines()) <= 5


def test_what_is_no_audio_is_said_by_its_first_bytes(monkeypatch):
    def error(content):
        with pytest.raises(UserError) as info:
            decode_audio(content, name="seq1")
        return str(info.value)

    page = b"<!DOCTYPE html> not found"
    assert error(page).endswith(f". It begins with the bytes {page[:20]!r}.")
    monkeypatch.setitem(sys.modules, "soundfile", None)  # as if it was not installed
    assert error(page).startswith(f"seq1: is no wav. It begins with the bytes {page[:20]!r}, as no usual audio does.")
    assert "pip install soundfile" in error(page)
    assert error(b"OggS 123").startswith("The package 'soundfile' is needed for audio other than plain wav (seq1)")


@pytest.mark.parametrize("with_soundfile", [False, True])
def test_wav_with_a_broken_header_needs_no_package(with_soundfile, monkeypatch):
    if not with_soundfile:
        monkeypatch.setitem(sys.modules, "soundfile", None)  # as if it was not installed
    content = wav_bytes(sawtooth())
    for size, problem in ((12, "fmt chunk and/or data chunk missing"), (30, "its header ends too early")):
        with pytest.raises(UserError) as info:
            decode_audio(content[:size], name="seq1")
        assert str(info.value) == f"seq1: the wav file is broken: {problem}. It has {size} bytes."
    audio, _ = decode_audio(content[:47], name="seq1")  # inside of the second sample
    assert len(audio) == 1


def test_audio_of_a_quiet_model_that_was_not_written_to_its_end(monkeypatch, capsys):
    forget_shown()
    monkeypatch.setattr(log, "verbose", [True] + [False] * 5)
    audio = {"num_feature_filters": 4, "features": "log_mel_filterbank", "sample_rate": RATE}
    config = Config({"dev": {"class": "OggZipDataset", "audio": audio}})
    inputs = ModelInputs(config, "data", {"data": Tensor("data", dim=4, batch=None, dtype="float32")})
    for _ in range(2):
        inputs.dataset([wav_bytes(sawtooth())[: 44 + 2 * 1000]])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("WARNING: input 0: the audio file says that it has")


def test_wav_that_was_not_written_to_its_end_is_said(capsys):
    content = wav_bytes(sawtooth())
    extractor = ExtractAudioFeatures()
    extractor.get_audio_features_from_raw_bytes(content, seq_name="seq1")
    of_a_pipe = content[:40] + b"\xff\xff\xff\xff" + content[44:]  # its writer did not know the length
    extractor.get_audio_features_from_raw_bytes(of_a_pipe, seq_name="seq2")
    assert "WARNING" not in "".join(capsys.readouterr())
    extractor.get_audio_features_from_raw_bytes(content[: 44 + 2 * 1000], seq_name="seq3")
    num = len(sawtooth())
    text = (
        f"sequence 'seq3': the audio file says that it has {num:,} samples, and has 1,000. Was it written to its end?"
    )
    assert text in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sample_rate": "16k"}, "option 'sample_rate': expected a positive integer, got '16k'."),
        ({"sample_rate": 0}, "option 'sample_rate': expected a positive integer, got 0."),
        ({"sample_rate": 8000.5}, "option 'sample_rate': expected a positive integer, got 8000.5."),
        ({"step_len": -0.01}, "option 'step_len': expected a positive number, got -0.01."),
        ({"window_len": "25ms"}, "option 'window_len': expected a positive number, got '25ms'."),
        ({"num_feature_filters": "40"}, "option 'num_feature_filters': expected a positive integer, got '40'."),
        ({"join_frames": -1}, "option 'join_frames': expected a positive integer, got -1."),
    ],
)
def test_wrong_sizes_are_named(options, text):
    with pytest.raises(ConfigError) as error:
        ExtractAudioFeatures(**options)
    assert str(error.value) == f"audio features: {text}"


def test_another_sample_rate_is_said_once_where_it_matters(capsys):
    for sample_rate in (None, RATE):
        extractor = ExtractAudioFeatures(sample_rate=sample_rate)
        for i, rate in enumerate([RATE, RATE, RATE // 2, RATE, RATE // 2]):
            extractor.get_audio_features(sawtooth(), rate, seq_name=f"seq{i}")
    out = "".join(capsys.readouterr())
    assert out.count("WARNING") == 1
    assert f"sequence 'seq2': the audio has {RATE // 2} Hz, that before {RATE} Hz" in out
    assert "Set 'sample_rate' of the option 'audio'" in out


def test_wrong_dim_after_post_process_is_named():
    extractor = ExtractAudioFeatures(post_process=lambda features: features[:, :3])
    with pytest.raises(ConfigError, match=r"40 features per frame are expected, got shape \(51, 3\)"):
        extractor.get_audio_features(sawtooth(), RATE)


def test_window_longer_than_linear_spectrogram_is_named():
    extractor = ExtractAudioFeatures(features="linear_spectrogram", num_feature_filters=40)
    with pytest.raises(ConfigError, match="'num_feature_filters' is 40, it has to be at least 100"):
        extractor.get_audio_features(sawtooth(), RATE)
