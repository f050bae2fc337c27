"""Properties of the layers which compute with features: normalization, convolution, spectra, alignments, ..."""

import numpy
import pytest

from returnn.tf.layers.options.registry import get_layer_class
from tests.tf.layers.feature_cases import CASES, NOT_PER_SEQUENCE
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
