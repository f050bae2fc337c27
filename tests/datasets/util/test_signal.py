from __future__ import annotations

import numpy
import pytest
import scipy.fft
import scipy.signal

from returnn.datasets.util import signal

RATE = 8000


def tone(hz, seconds=0.5, rate=RATE):
    return numpy.sin(2 * numpy.pi * hz * numpy.arange(int(seconds * rate)) / rate)


def noise(num, seed=1):
    return numpy.random.RandomState(seed).uniform(-1, 1, num)


def main_frequency(audio, rate=RATE):
    return numpy.argmax(numpy.abs(numpy.fft.rfft(audio * numpy.hanning(len(audio))))) * rate / len(audio)


def test_stft_as_in_scipy():
    audio = noise(1000)
    window = scipy.signal.get_window("hann", 200)
    transform = scipy.signal.ShortTimeFFT(window, hop=80, fs=RATE)
    ours = signal.stft(audio, n_fft=200, step=80)
    theirs = transform.stft(audio, p0=0, p1=len(ours))  # its phases are those of the frame's center
    numpy.testing.assert_allclose(numpy.abs(ours), numpy.abs(theirs.T), atol=1e-9)


def test_window_may_be_shorter_than_the_transform():
    audio = noise(1000)
    short, padded = signal.stft(audio, n_fft=256, window_len=200, step=80), signal.stft(audio, n_fft=200, step=80)
    numpy.testing.assert_allclose((numpy.abs(short) ** 2).sum(1)[3:8], (numpy.abs(padded) ** 2).sum(1)[3:8], rtol=0.3)
    assert short.shape[1] == 129


def test_inverse_stft_is_the_reverse():
    audio = noise(1000)
    spectrum = signal.stft(audio, n_fft=256, step=64)
    numpy.testing.assert_allclose(
        signal.inverse_stft(spectrum, n_fft=256, step=64, num_samples=1000)[:900], audio[:900]
    )


@pytest.mark.parametrize(
    ("num_samples", "center", "expected"), [(1, True, 1), (1, False, 1), (800, True, 11), (800, False, 8)]
)
def test_number_of_frames(num_samples, center, expected):
    assert len(signal.frames(noise(num_samples), frame_len=200, step=80, center=center)) == expected


def test_cosine_transform_as_in_scipy():
    x = noise(60).reshape(3, 20)
    numpy.testing.assert_allclose(signal.cosine_transform(x, 7), scipy.fft.dct(x, norm="ortho")[:, :7], atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_delta_as_in_scipy(order):
    x = noise(60).reshape(20, 3)
    theirs = scipy.signal.savgol_filter(x, 9, deriv=order, polyorder=order, axis=0)
    numpy.testing.assert_allclose(signal.delta(x, order=order), theirs, atol=1e-12)


def test_delta_of_short_sequence():
    assert signal.delta(noise(6).reshape(2, 3)).shape == (2, 3)
    assert not signal.delta(numpy.ones((3, 2))).round(12).any()


def test_mel_filters_have_area_one_and_peak_in_order():
    filters = signal.mel_filters(sample_rate=RATE, n_fft=4096, num_filters=20, fmin=50, fmax=3500)
    hz = numpy.linspace(0, RATE / 2, filters.shape[1])
    numpy.testing.assert_allclose(numpy.trapezoid(filters, hz, axis=1), 1.0, rtol=0.01)
    assert (numpy.diff(filters.argmax(axis=1)) > 0).all()
    assert not filters[:, (hz < 50) | (hz > 3500)].any()


@pytest.mark.parametrize("rates", [(8000, 16000), (16000, 8000), (44100, 16000), (8000, 11024)])
def test_resample_keeps_tone_and_amplitude(rates):
    from_rate, to_rate = rates
    audio = signal.resample(tone(440, rate=from_rate), from_rate=from_rate, to_rate=to_rate)
    assert len(audio) == -(-from_rate // 2 * to_rate // from_rate)
    inner = slice(to_rate // 10, -to_rate // 10)
    numpy.testing.assert_allclose(audio[inner], tone(440, rate=to_rate)[: len(audio)][inner], atol=0.01)


def test_resample_removes_what_the_new_rate_cannot_hold():
    assert numpy.abs(signal.resample(tone(3500), from_rate=8000, to_rate=4000))[200:-200].max() < 0.02


def test_resample_of_channels_is_that_of_each():
    stereo = numpy.stack([tone(440), noise(4000)], axis=1)
    both = signal.resample(stereo, from_rate=8000, to_rate=6000)
    for i in range(2):
        numpy.testing.assert_allclose(
            both[:, i], signal.resample(stereo[:, i], from_rate=8000, to_rate=6000), atol=1e-12
        )


def test_time_stretch_keeps_the_pitch():
    audio = signal.time_stretch(tone(440, 1.0), speed=1.25)
    assert len(audio) == 6400
    assert main_frequency(audio) == pytest.approx(440, abs=3)


def test_pitch_shift_keeps_the_duration():
    audio = signal.pitch_shift(tone(440, 1.0), semitones=12)
    assert len(audio) == 8000
    assert main_frequency(audio) == pytest.approx(880, abs=6)


@pytest.mark.parametrize("hz", [90, 123.4, 400])
def test_fundamental_frequency_of_a_sawtooth(hz):
    audio = (numpy.arange(8000) * hz / RATE) % 1.0 - 0.5
    f0 = signal.fundamental_frequency(audio, sample_rate=RATE, window_len=200, step=80, fmin=60, fmax=500)
    assert f0.shape == (101,)
    numpy.testing.assert_allclose(f0[5:-5], hz, rtol=0.01)


def test_no_fundamental_frequency_of_silence_and_noise():
    for audio in (numpy.zeros(2000), noise(2000)):
        assert not signal.fundamental_frequency(audio, sample_rate=RATE, window_len=200, step=80).any()


def test_numbers_of_librosa():
    """Recorded with librosa 0.11: `feature.mfcc` and `feature.melspectrogram`, n_fft=200, hop_length=80."""
    audio = ((numpy.arange(4000) * 120.0 / RATE) % 1.0 - 0.5) * numpy.linspace(0.1, 1, 4000)
    opts = {"sample_rate": RATE, "n_fft": 200, "step": 80}
    mel = signal.mel_spectrum(audio, num_filters=5, fmin=60, fmax=3500, **opts)
    numpy.testing.assert_allclose(
        mel[[0, 20, 50]],
        [
            [1.66300e-03, 2.64000e-04, 1.11000e-04, 5.70000e-05, 3.20000e-05],
            [1.03997e-01, 1.84120e-02, 7.74800e-03, 3.95500e-03, 2.23600e-03],
            [1.46409e-01, 2.35470e-02, 9.88500e-03, 5.04400e-03, 2.85400e-03],
        ],
        atol=1e-6,
    )
    mfcc = signal.cosine_transform(signal.power_to_db(signal.mel_spectrum(audio, num_filters=128, **opts)), 5)
    numpy.testing.assert_allclose(
        mfcc[[0, 20, 50]],
        [
            [-463.1902, 51.4881, 18.1425, 20.2046, 9.8778],
            [-270.1546, 30.7379, 5.926, 14.0147, 1.0949],
            [-253.4958, 41.0486, 15.3415, 21.4865, 9.719],
        ],
        atol=1e-3,
    )
