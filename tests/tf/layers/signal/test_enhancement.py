"""Beamformers, against NumPy."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, construct

CHANNELS, BINS = 3, 2
SPECTRA = {"class": "alternating_real_to_complex", "from": "wide"}
WIDE = {"class": "linear", "n_out": 2 * CHANNELS * BINS, "activation": None, "from": "data"}
NOISE = {"class": "linear", "n_out": BINS, "activation": "sigmoid", "from": "data"}
BOTH = {"class": "linear", "n_out": 2 * BINS, "activation": "sigmoid", "from": "data"}
SOURCES = {"wide": WIDE, "spectra": SPECTRA, "noise": NOISE, "both": BOTH}
MVDR = {
    "class": "mask_based_mvdrbeamforming", "nr_of_channels": CHANNELS, "diag_loading_coeff": 0.1,
    "from": ["spectra", "noise"],
}  # fmt: skip
GEV = {"class": "mask_based_gevbeamforming", "nr_of_channels": CHANNELS, "from": ["spectra", "both"]}
LAYERS = {"mvdr": MVDR, "gev": GEV, "gev_postfilter": {**GEV, "postfilter_id": 1}}


@pytest.fixture(scope="module")
def results():
    steps = {f"{name}_{n}": {**desc, "qralgorithm_steps": n} for name, desc in LAYERS.items() for n in (1, 3, 200)}
    return LayerNet({**SOURCES, **LAYERS, **steps}).run(batch_of())


def by_bin(results, b):
    """:return: (T, C, F), (T, F), (T, 2, F)"""
    t = LENGTHS[b]
    spectra = results["spectra"][b, :t].reshape(t, CHANNELS, BINS)
    return spectra, results["noise"][b, :t], results["both"][b, :t].reshape(t, 2, BINS)


def covariance(x, mask):
    return numpy.einsum("t,tc,td->cd", mask, x, x.conj()) / mask.sum()


def loaded(x, part):
    return x + numpy.eye(CHANNELS) * part * numpy.trace(x).real / CHANNELS


def principal(x, steps):
    """:return: eigenvector; exactly, or by the QR algorithm"""
    if steps is None:
        vector = numpy.linalg.eigh(x)[1][:, -1]
    else:
        q_all = numpy.eye(CHANNELS)
        for _ in range(steps):
            q, r = numpy.linalg.qr(x)
            q_all, x = q_all @ q, r @ q
        vector = q_all[:, 0]
    return vector * numpy.exp(-1j * numpy.angle(vector[0]))


def mvdr(x, noise_mask, steps):
    noise, direction = covariance(x, noise_mask), principal(covariance(x, 1 - noise_mask), steps)
    weights = numpy.linalg.solve(loaded(noise, 0.1), direction)
    return x @ (weights / (direction.conj() @ weights) * direction[0].conj()).conj()


def gev(x, masks, steps):
    noise, speech = (covariance(x, mask) for mask in masks.T)
    inverse = numpy.linalg.inv(numpy.linalg.cholesky(loaded(noise, 1e-6)))
    return x @ (inverse.conj().T @ principal(inverse @ speech @ inverse.conj().T, steps)).conj()


@pytest.mark.parametrize("steps", [None, 1, 3])
def test_principal_eigenvector_gives_the_filter(results, steps):
    suffix = "" if steps is None else f"_{steps}"
    for b, length in enumerate(LENGTHS):
        spectra, noise, both = by_bin(results, b)
        for f in range(BINS):
            x = spectra[:, :, f]
            actual = {name: results[name + suffix][b, :length, f] for name in LAYERS}
            numpy.testing.assert_allclose(actual["mvdr"], mvdr(x, noise[:, f], steps), rtol=1e-3, atol=1e-4)
            if length > CHANNELS:  # with less frames, the covariance of the noise has no inverse
                numpy.testing.assert_allclose(actual["gev"], gev(x, both[:, :, f], steps), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", LAYERS)
def test_many_steps_of_the_qr_algorithm_are_exact(results, name):
    assert results[name].any()
    numpy.testing.assert_allclose(results[f"{name}_200"], results[name], rtol=1e-3, atol=1e-4)
    assert not numpy.allclose(results[f"{name}_1"], results[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("name", ["mvdr", "gev"])
def test_nan_stays_in_its_bin_and_its_sequence_or_is_zero(results, name, steps):
    """And the gradient is finite then."""
    replaced = {"class": "switch", "condition": "is_first", "true_from": float("nan"), "false_from": "wide"}
    layer = {**LAYERS[name], "from": ["spectra", LAYERS[name]["from"][1]], "qralgorithm_steps": steps}
    net = {
        **SOURCES,
        "number": {"class": "range_in_axis", "axis": "T", "from": "wide"},
        "entry": {"class": "range_in_axis", "axis": "F", "from": "wide"},
        "is_first": {
            "class": "eval", "eval": "tf.equal(source(0) + source(1), 0) & tf.equal(source(2), 2)",
            "from": ["number", "entry", "data:number"], "out_type": {"dtype": "bool"},
        },
        "replaced": replaced,
        "spectra": {**SPECTRA, "from": "replaced"},
        "nan": layer,
        "zero": {**layer, "output_nan_filter": True},
    }  # fmt: skip
    net = LayerNet(net)
    with net.graph.as_default():
        out = net.fetches["zero"]
        total, params = tf.reduce_sum(tf.abs(out) ** 2), net.net.get_trainable_params()
        net.fetches["slopes"] = tf.gradients(total, params, unconnected_gradients="zero")
    found = net.run(batch_of(padding={"float32": 0.0, "int32": 0}))
    where_nan = numpy.zeros(found["nan"].shape, bool)
    where_nan[1, : LENGTHS[1], 0] = True
    numpy.testing.assert_array_equal(numpy.isnan(found["nan"]), where_nan)
    assert not found["zero"][where_nan].any()
    numpy.testing.assert_array_equal(found["zero"][~where_nan], found["nan"][~where_nan])
    assert found["zero"][1, :, 1].any()
    assert all(numpy.isfinite(slope).all() for slope in found["slopes"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qralgorithm_steps": 0}, "option 'qralgorithm_steps': 0. Possible: from 1 on."),
        ({"nr_of_channels": 4}, "cannot be divided into 4 channels."),
        ({"from": ["spectra", "wide"]}, "but 2 or 6 are needed."),
    ],
)
def test_errors(options, message):
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({**SOURCES, "output": {**MVDR, **options}})
    assert str(info.value).startswith("layer 'output' (class 'mask_based_mvdrbeamforming'): ")
    assert message in str(info.value)
