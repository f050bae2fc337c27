"""Spectra, against NumPy."""

import numpy
import pytest

from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

CHANNELS = 6
BATCH = batch_of(padding={"float32": 0.0, "int32": 0})
SEQUENCES = list(enumerate(LENGTHS))
STFT = {"class": "multichannel_stft_layer", "nr_of_channels": CHANNELS, "from": "data"}
NET = {
    "single": {**STFT, "frame_shift": 1, "frame_size": 3, "fft_size": 4},
    "padded": {**STFT, "frame_shift": 2, "frame_size": 3, "fft_size": 4, "pad_last_frame": True, "window": "ones"},
    "full": {**STFT, "frame_shift": 1, "frame_size": 2, "fft_size": 4, "use_rfft": False, "window": "None"},
    "several": {
        **STFT, "class": "multichannel_multiresolution_stft_layer", "frame_shift": 1, "frame_sizes": [3, 2],
        "fft_sizes": [4, 2], "window": "blackman",
    },
    "noise": {"class": "first_t_frames_noise_estimator", "nr_of_frames": 2, "from": "data"},
    "all_noise": {"class": "first_t_frames_noise_estimator", "nr_of_frames": -1, "from": "data"},
    "lpq": {"class": "linear", "activation": "sigmoid", "n_out": 3, "from": "data"},
    "wiener": {
        "class": "parametric_wiener_filter", "filter_input": "data", "noise_estimation": "noise", "parameters": "lpq",
    },
    "wiener_mean": {
        "class": "parametric_wiener_filter", "filter_input": "data", "noise_estimation": "noise", "parameters": "lpq",
        "average_parameters": True, "p_overwrite": 2.0,
    },
}  # fmt: skip
WINDOWS = {
    "hanning": lambda size: numpy.hanning(size + 1 - size % 2)[:size],  # periodic only if even, as in TensorFlow
    "blackman": lambda size: numpy.blackman(size + 1)[:-1],
    "ones": numpy.ones,
}


@pytest.fixture(scope="module")
def results():
    return LayerNet(NET).run(BATCH)


def stft(samples, *, shift, size, fft_size, number, window="hanning", transform=numpy.fft.rfft):
    """
    :param samples: (T, C)
    :return: (number, C * bins)
    """
    padded = numpy.concatenate([samples, numpy.zeros((size, CHANNELS))])
    frames = [padded[i * shift : i * shift + size].T * WINDOWS[window](size) for i in range(number)]
    return numpy.array([transform(frame, fft_size).reshape(-1) for frame in frames])


@pytest.mark.parametrize(("b", "length"), SEQUENCES)
def test_channels_stand_side_by_side_in_the_spectrum(results, b, length):
    x = BATCH["data"][b, :length]
    several = [stft(x, shift=1, size=n, fft_size=m, number=length - 2, window="blackman") for n, m in [(3, 4), (2, 2)]]
    expected = {
        "single": stft(x, shift=1, size=3, fft_size=4, number=length - 2),
        "padded": stft(x, shift=2, size=3, fft_size=4, number=-(-length // 2), window="ones"),
        "full": stft(x, shift=1, size=2, fft_size=4, number=length - 1, window="ones", transform=numpy.fft.fft),
        "several": numpy.concatenate(several, axis=1),
    }
    for name, value in expected.items():
        numpy.testing.assert_allclose(results[name][b, : len(value)], value, rtol=1e-4, atol=1e-5, err_msg=name)
        assert not results[name][b, len(value) :].any()


@pytest.mark.parametrize(("b", "length"), SEQUENCES)
def test_noise_is_the_mean_of_the_first_frames(results, b, length):
    x = BATCH["data"][b, :length]
    for name, number in (("noise", 2), ("all_noise", length)):
        expected = numpy.broadcast_to(x[:number].mean(axis=0), x.shape)
        numpy.testing.assert_allclose(results[name][b, :length], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("b", "length"), SEQUENCES)
def test_wiener_filter(results, b, length):
    x, noise, parameters = (out[b, :length] for out in (BATCH["data"], results["noise"], results["lpq"]))
    mean = numpy.broadcast_to(parameters.mean(axis=0), parameters.shape)
    for name, (scale, power, exponent) in (("wiener", parameters.T), ("wiener_mean", mean.T)):
        power = power if name == "wiener" else numpy.full_like(power, 2.0)
        gain = 1 - scale[:, None] * (numpy.abs(noise) / numpy.abs(x)) ** power[:, None]
        expected = x * numpy.maximum(gain, 0) ** exponent[:, None]
        numpy.testing.assert_allclose(results[name][b, :length], expected, rtol=1e-3, atol=1e-4)
