"""Properties of the layers which change dims or pick values."""

import numpy
import pytest

from returnn.tensor import Dim
from returnn.tf.layers.options.registry import get_layer_class
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, one_of
from tests.tf.layers.shape_cases import ALL_CASES, CASES, CASES_WITH_OTHER_BATCH

ZEROS = {"float32": 0.0, "int32": 0}
HAS_NO_BATCH = ("range", "range_kept", "range_from_length", "range_of_data")


@pytest.fixture(scope="module")
def net():
    return LayerNet(ALL_CASES)


@pytest.fixture(scope="module")
def results(net):
    return net.run(batch_of())


@pytest.fixture(scope="module")
def results_of_single_sequences(net):
    batch = batch_of()
    return [net.run(one_of(batch, i), [length]) for i, length in enumerate(LENGTHS)]


@pytest.fixture(scope="module")
def results_padded_with_zeros(net):
    return net.run(batch_of(padding=ZEROS))


@pytest.mark.parametrize("name", ALL_CASES)
def test_template_is_like_the_output(net, name):
    layer = net.net.get_layer(name)
    options = {k: v for k, v in layer.kwargs.items() if k not in ("name", "network", "output")}
    layer_class = get_layer_class(ALL_CASES[name]["class"])
    with net.graph.as_default():
        template = layer_class.get_out_data_from_opts(name=name, network=net.net, **options)
    out = net.outputs[name]
    assert template.raw_tensor is None
    for attribute in ("dims", "dtype", "sparse_dim", "feature_dim_axis", "time_dim_axis"):
        assert getattr(template, attribute) == getattr(out, attribute)


@pytest.mark.parametrize("name", [*CASES, "unflat", "unflat_time_major", "split_again", "unchunked", "selected"])
def test_padding_does_not_matter(results, results_padded_with_zeros, name):
    numpy.testing.assert_array_equal(results[name], results_padded_with_zeros[name])
    assert numpy.isfinite(results[name]).all()


@pytest.mark.parametrize("name", [name for name in CASES if name not in HAS_NO_BATCH])
def test_a_batch_is_its_sequences(results, results_of_single_sequences, name):
    for i, single in enumerate(results_of_single_sequences):
        actual, expected = numpy.array(results[name][i]), single[name][0]
        assert actual.ndim == expected.ndim
        cropped = tuple(slice(size) for size in expected.shape)
        numpy.testing.assert_allclose(actual[cropped], expected, rtol=1e-5, atol=1e-6)
        actual[cropped] = 0
        assert not actual.any()


@pytest.mark.parametrize(
    "name", ["unflat", "unflat_time_major", "split_again", "unchunked", "unmerged", "reinterpret_cut"]
)
def test_what_was_put_elsewhere_comes_back(results, name):
    expected = batch_of(padding=ZEROS)["data"]
    numpy.testing.assert_allclose(results[name], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["unflat_static", "unmerged_static", "unflat_twice", "unmerged_twice", "unmerged_all"])
def test_dims_of_an_image_that_were_put_into_the_batch_come_back(net, results, name):
    out, image = net.outputs[name], net.net.get_layer("data:image").output
    assert out.dims_set == image.dims_set
    axes = [out.copy_template().copy_as_batch_major().dims.index(dim) for dim in image.dims]
    numpy.testing.assert_array_equal(results[name].transpose(axes), batch_of(padding=ZEROS)["image"])


def test_batches_of_the_same_parts_come_back_each_to_its_own():
    layers = {
        "one": {"class": "flatten_batch", "axis": "dim:4", "from": "data:image"},
        "two": {"class": "flatten_batch", "axis": "T", "from": "one"},
        "other": {"class": "merge_dims", "axes": ["B", "dim:4"], "from": "data:image"},
        "back": {"class": "unflatten_batch", "from": "two"},
        "all": {"class": "unflatten_batch", "from": "back"},
        "other_back": {"class": "unflatten_batch", "from": "other"},
    }
    result = LayerNet(layers, fetch=("all", "other_back")).run(batch_of())
    numpy.testing.assert_array_equal(result["all"].swapaxes(1, 2), batch_of(padding=ZEROS)["image"])
    numpy.testing.assert_array_equal(result["other_back"].swapaxes(1, 2), batch_of(padding=ZEROS)["image"])


def test_dim_is_found_although_its_lengths_are_over_a_merged_batch_by_now():
    time = Dim(None, name="time", kind=Dim.Types.Spatial)
    heads = Dim(4, name="heads", kind=Dim.Types.Spatial)
    net = {
        "named": {"class": "reinterpret_data", "set_dim_tags": {"T": time, "dim:4": heads}, "from": "data:image"},
        "merged": {"class": "merge_dims", "axes": ["B", heads], "from": "named"},
        "sum": {"class": "reduce", "mode": "sum", "axis": time, "from": "merged"},
    }
    result = LayerNet(net, fetch=("sum",)).run(batch_of())["sum"]
    expected = batch_of(padding=ZEROS)["image"].sum(axis=1).reshape(12, 6)
    numpy.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["merged", "merged_static", "flat", "flat_time_major", "flat_static"])
def test_batch_dim_is_not_the_time_dim_although_frames_were_merged_into_it(name):
    layers = {name: ALL_CASES[name]}
    for net in (LayerNet(layers, fetch=(name,)), LayerNet(layers, fetch=(name,), time_major=True)):
        out = net.outputs[name]
        assert out.time_dim_axis is None or not out.dims[out.time_dim_axis].is_batch_dim()


def test_batch_dim_is_not_the_feature_dim_although_features_were_merged_into_it(net):
    assert net.outputs["merged_feature"].feature_dim.dimension == 4
    with_role = {"class": "reinterpret_data", "set_axes": {"F": "F"}, "from": "data"}
    merged = {"class": "merge_dims", "axes": ["B", "F"], "from": "with_role"}
    layers = LayerNet({"with_role": with_role, "merged": merged}, fetch=("merged",))
    assert layers.outputs["merged"].feature_dim_axis is None


@pytest.mark.parametrize("name", ["combine_kept", "eval_kept"])
def test_a_kept_dim_stands_for_the_one_that_was_reduced(net, name):
    assert net.outputs[name].dims_set == net.net.get_layer("data").output.dims_set


def test_every_case_is_of_one_kind():
    assert not set(CASES) & set(CASES_WITH_OTHER_BATCH)
