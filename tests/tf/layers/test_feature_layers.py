"""Properties of the layers which compute with features: normalization, convolution, spectra, alignments, ..."""

import numpy
import pytest

from returnn.tensor import Dim, batch_dim
from returnn.tf.layers.options.registry import get_layer_class
from tests.tf.layers.feature_cases import CASES, FEATURES, NOT_PER_SEQUENCE
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, one_of

ZEROS = {"float32": 0.0, "int32": 0}


@pytest.fixture(scope="module")
def net():
    return LayerNet(CASES)


@pytest.fixture(scope="module")
def results(net):
    return net.run(batch_of())


@pytest.fixture(scope="module")
def results_of_single_sequences(net):
    batch = batch_of()
    return [net.run(one_of(batch, i), [length]) for i, length in enumerate(LENGTHS)]


@pytest.mark.parametrize("name", CASES)
def test_template_is_like_the_output(net, name):
    layer = net.net.get_layer(name)
    options = {k: v for k, v in layer.kwargs.items() if k not in ("name", "network", "output")}
    layer_class = get_layer_class(CASES[name]["class"])
    with net.graph.as_default():
        template = layer_class.get_out_data_from_opts(name=name, network=net.net, **options)
    out = net.outputs[name]
    assert template.raw_tensor is None
    for attribute in ("dims", "dtype", "sparse_dim", "feature_dim_axis", "time_dim_axis"):
        assert getattr(template, attribute) == getattr(out, attribute)


@pytest.mark.parametrize("name", CASES)
def test_padding_does_not_matter(net, results, name):
    expected = net.run(batch_of(padding=ZEROS))[name]
    numpy.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-6)
    assert numpy.isfinite(results[name]).all()


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_PER_SEQUENCE])
def test_a_batch_is_its_sequences(results, results_of_single_sequences, name):
    for i, single in enumerate(results_of_single_sequences):
        actual, expected = numpy.array(results[name][i]), single[name][0]
        cropped = tuple(slice(size) for size in expected.shape)
        numpy.testing.assert_allclose(actual[cropped], expected, rtol=1e-4, atol=1e-5)


def test_inverse_fourier_transform_gives_the_samples_back(results):
    # With a window of 2 and Hann weights 0, 1, every sample but the first is in a frame.
    samples = results["sample"]
    for row, length in zip(range(len(LENGTHS)), LENGTHS, strict=True):
        numpy.testing.assert_allclose(results["istft"][row, 1:length], samples[row, 1:length], atol=1e-6)


def test_real_parts_come_back(results):
    numpy.testing.assert_array_equal(results["real"], batch_of(padding=ZEROS)["data"])


def test_soft_alignment_sums_up_to_one(results):
    for row, length in enumerate(LENGTHS):
        numpy.testing.assert_allclose(results["soft_alignment"][:length, row].sum(-1), 1.0, rtol=1e-5)


# Values of single options, against NumPy.


@pytest.fixture(scope="module")
def params(net):
    return {param.op.name: net.session.run(param) for param in net.net.get_params_list()}


def frames_of(value):
    """:return: all frames of all sequences, behind each other"""
    return numpy.concatenate([row[:length] for row, length in zip(value, LENGTHS, strict=True)])


def test_initial_values_of_batch_normalization(results):
    """Without training, the running mean is 0, and the variance 1."""
    data = batch_of(padding=ZEROS)["data"]
    expected = 2.0 * frames_of(data) / numpy.sqrt(1 + 1e-3) + 0.5
    numpy.testing.assert_allclose(frames_of(results["batch_norm_init"]), expected, rtol=1e-5, atol=1e-6)


def test_forced_statistics_of_the_batch_count_outside_of_training(results):
    """As `use_sample` says, a quarter of what is normalized by is the running mean 0, and variance 1."""
    data = frames_of(batch_of(padding=ZEROS)["data"])
    mean, variance = 0.75 * data.mean(axis=0), 0.25 + 0.75 * data.var(axis=0)
    expected = (data - mean) / numpy.sqrt(variance + 1e-3)
    numpy.testing.assert_allclose(frames_of(results["batch_norm_forced"]), expected, rtol=1e-4, atol=1e-5)


def test_convolution_over_an_expanded_dim(results, params):
    """Behind the frames there is a dim of size 1; the second half of the filter is beside it."""
    data = batch_of(padding=ZEROS)["data"]
    filters, bias = params["conv_expanded/W"], params["conv_expanded/bias"]
    assert filters.shape == (3, 2, 6, 4)
    numpy.testing.assert_array_equal(bias, 0.5)
    padded = numpy.pad(data, [(0, 0), (1, 1), (0, 0)])
    expected = sum(padded[:, i : i + 5] @ filters[i, 0] for i in range(3)) + bias
    numpy.testing.assert_allclose(
        frames_of(results["conv_expanded"][:, :, 0]), frames_of(expected), rtol=1e-4, atol=1e-5
    )


def transposed_conv(x, filters, num, *, cut):
    """
    :param x: (..., T, F_in)
    :param filters: (3, F_out, F_in)
    :return: (..., num, F_out), with stride 2, without the first `cut` frames
    """
    length = x.shape[-2]
    out = numpy.zeros((*x.shape[:-2], 2 * length + 4, filters.shape[1]))
    for t in range(length):
        for i in range(3):
            out[..., 2 * t + i, :] += x[..., t, :] @ filters[i].T
    return out[..., cut : cut + num, :]


@pytest.mark.parametrize(("b", "length"), list(enumerate(LENGTHS)))
def test_transposed_convolution(results, params, b, length):
    x, image = batch_of(padding=ZEROS)["data"][b, :length], batch_of(padding=ZEROS)["image"][b, :length]
    filters = {name: params[f"{name}/W_native_transposed_conv"][:, 0] for name in TRANSPOSED}
    more = transposed_conv(x, filters["transposed_conv_more"], 2 * length + 2, cut=0) + 0.5
    assert numpy.allclose(more[-1], 0.5)
    # As in TensorFlow, "same" cuts off half of what is too much, rounded down.
    of_static = transposed_conv(image, filters["transposed_conv_of_static"], 7, cut=1)
    turned = params["filters/filters"].transpose(1, 2, 0)
    of_layers = transposed_conv(x, turned, 2 * length, cut=0) + params["biases/biases"]
    expected = {"transposed_conv_more": more, "transposed_conv_of_layers": of_layers}
    for name, value in expected.items():
        numpy.testing.assert_allclose(results[name][b, : len(value)], value, rtol=1e-4, atol=1e-5, err_msg=name)
    found = results["transposed_conv_of_static"][b, :length]
    numpy.testing.assert_allclose(found, of_static, rtol=1e-4, atol=1e-5)


TRANSPOSED = ("transposed_conv_more", "transposed_conv_of_static")


@pytest.mark.parametrize(("b", "length"), list(enumerate(LENGTHS)))
def test_fourier_transform_along_a_given_dim(results, b, length):
    image = batch_of(padding=ZEROS)["image"][b, :length]  # (T, 4, 6)
    window = numpy.array([0.0, 1.0])  # Hann
    spectra = numpy.stack([numpy.fft.rfft(image[:, i : i + 2] * window[:, None], axis=1) for i in range(3)], axis=2)
    # The frames are in place of the samples: (T, frames, 6, frequencies)
    found = results["stft_of_static"][b, :length]
    order = [found.shape.index(size, 1) for size in (3, 6, 2)]
    expected = spectra.transpose(0, 2, 3, 1)
    numpy.testing.assert_allclose(found.transpose(0, *order), expected, rtol=1e-4, atol=1e-5)
    samples = results["istft_of_static"][b, :length]
    assert samples.shape[-1] == 1
    order = [samples.shape.index(size, 1) for size in (4, 6)]
    back = samples[..., 0].transpose(0, *order)
    numpy.testing.assert_allclose(back[:, 1:], image[:, 1:], rtol=1e-4, atol=1e-5)


def test_transforms_of_several_sizes_without_symmetry(results):
    data = batch_of(padding=ZEROS)["data"]
    windows = {3: numpy.array([0.0, 1.0, 1.0]), 2: numpy.array([0.0, 1.0])}
    windows[3] = numpy.hanning(3 + 1 - 3 % 2)[:3]  # as TensorFlow has it: periodic only if even
    for b, length in enumerate(LENGTHS):
        parts = []
        for size, fft_size in ((3, 4), (2, 2)):
            rows = [data[b, t : t + size].T * windows[size] for t in range(length - 2)]
            parts.append(numpy.array([numpy.fft.fft(row, fft_size).reshape(-1) for row in rows]))
        expected = numpy.concatenate(parts, axis=1)
        found = results["multi_stft_full"][b, : len(expected)]
        numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_initial_values_of_a_complex_projection(results):
    """All numbers of the kernel are 0.5 + 0.5i, so each filter has the sum of all numbers."""
    data = frames_of(batch_of(padding=ZEROS)["data"])
    total = (data[:, ::2] + 1j * data[:, 1::2]).sum(axis=1) * (0.5 + 0.5j)
    expected = numpy.repeat(numpy.log(numpy.abs(total))[:, None], 4, axis=1)
    numpy.testing.assert_allclose(frames_of(results["projection_init"]), expected, rtol=1e-4, atol=1e-4)


def test_long_segments_count_less_and_short_ones_not_at_all():
    net, batch = LayerNet({"long_lengths": CASES["long_lengths"]}), batch_of()
    batch["ids"] //= 3  # so that labels stay
    results, ids, counts = net.run(batch), batch["ids"], numpy.zeros(4)
    for row, length in zip(ids, LENGTHS, strict=True):
        for t in range(length):
            rest = row[t : min(t + 4, length)]
            counts[next((i for i, label in enumerate(rest) if label != rest[0]), len(rest)) - 1] += 1
    counts *= [0, 0.5, 0.25, 0.125]
    assert counts.any()
    expected = 0.9 * counts / counts.sum() + 0.1 / 4
    assert net.outputs["long_lengths"].dims_set == {batch_dim, net.outputs["long_lengths"].feature_dim}
    numpy.testing.assert_allclose(results["long_lengths"], [expected] * 3, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "of_source"),
    [("stft", "T"), ("istft", "T"), ("conv", "T"), ("transposed_conv", "T"), ("transposed_conv_of_static", "dim:4")],
)
def test_the_new_spatial_dim_can_be_given(results, name, of_source):
    new = Dim(7 if of_source == "dim:4" else None, name="given")
    names = [*{"stft": ["sample"], "istft": ["sample", "stft"]}.get(name, []), name]
    desc = {**CASES[name], "in_spatial_dims": [of_source], "out_spatial_dims": [new]}
    net = LayerNet({**{name: CASES[name] for name in names}, "given": desc})
    found = net.run(batch_of())
    assert new in net.outputs["given"].dims
    assert (net.outputs["given"].time_dim_axis == net.outputs["given"].dims.index(new)) == (of_source == "T")
    assert found["given"].shape == results[name].shape
    if name in ("stft", "istft"):
        numpy.testing.assert_array_equal(found["given"], results[name])


def test_feature_dim_of_a_constant(net):
    assert net.outputs["filled_features"].feature_dim is FEATURES


@pytest.mark.parametrize("in_loop", [False, True])
def test_dropout_of_a_subnetwork(in_loop):
    """With a noise shape, it is the same in all frames outside of a loop; inside, each frame has its own."""
    desc = CASES["subnetwork_dropout"]
    layer = {**desc, "dropout_noise_shape": {"*": None}, "from": "data:source"}
    loop = {"class": "rec", "from": "data", "unit": {"output": layer}, "optimize_move_layers_out": False}
    out = LayerNet({"output": loop if in_loop else desc}, train_flag=True).run(batch_of(seed=3))["output"]
    is_dropped = [row[:length] == 0 for row, length in zip(out, LENGTHS, strict=True)]
    assert 0.1 < numpy.concatenate(is_dropped).mean() < 0.9
    assert all((row == row[0]).all() for row in is_dropped) != in_loop
    assert (is_dropped[0][0] != is_dropped[1][0]).any()
    kept, data = numpy.concatenate(is_dropped) == 0, frames_of(batch_of(seed=3)["data"])
    numpy.testing.assert_allclose(frames_of(out)[kept], data[kept] * 2, rtol=1e-6)


def test_dot_shows_its_dims(capsys):
    LayerNet({"dot_debug": CASES["dot_debug"]})
    text = capsys.readouterr().out
    assert "layer 'dot_debug' (class 'dot'): 'data' [B, T|time:data[B], F|feature:data(6)], 'data:vec'" in text


def test_print_shows_more(capfd):
    layer = {"class": "print", "summarize": 1, "extra_print_args": ["and more", 7], "from": "data"}
    LayerNet({"printed": layer}, fetch=("printed",)).run(batch_of())
    text = capfd.readouterr().err
    assert "layer 'printed'" in text
    assert "and more" in text
