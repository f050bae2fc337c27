"""Properties of the layers which change dims or pick values."""

import numpy
import pytest

from returnn.tensor import Dim
from returnn.tf.layers.options.registry import get_layer_class
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, one_of
from tests.tf.layers.shape_cases import ALL_CASES, CASES, CASES_WITH_OTHER_BATCH, NUMBERS

ZEROS = {"float32": 0.0, "int32": 0}
HAS_NO_BATCH = ("range", "range_kept", "range_from_length", "range_of_data", "range_sparse")


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


def test_given_dims_are_those_of_the_output():
    """They are the same as those that come out of sources and options, with the same lengths."""
    dims = {name: Dim(None, name=name) for name in ("padded", "tiled", "height", "width")}
    wide, wider = (Dim(size, name="wide", kind=Dim.Types.Feature) for size in (7, 18))
    tile = {"class": "tile", "multiples": {"T": 2, "F": 3}, "from": "data"}
    pad = {"class": "pad", "axes": ["T", "F"], "padding": [(2, 1), (0, 1)], "value": 2, "from": "data"}
    pad_time = {"class": "pad", "axes": "T", "padding": (2, 1), "from": "data"}
    unflatten = {"class": "unflatten_nd", "sizes": "data:sizes", "num_axes": 2, "from": "data"}
    unflatten_dims = {"declare_same_sizes_as": {0: "data"}, "out_dims": [dims["height"], dims["width"]]}
    net = LayerNet(
        {
            "tile": tile,
            "tile_dims": {**tile, "out_dims": {"F": wider, "T": dims["tiled"]}},
            "pad": pad,
            "pad_dims": {**pad, "out_dims": [dims["padded"], wide]},
            "pad_time": pad_time,
            "pad_time_dims": {**pad_time, "out_dims": dims["padded"]},
            "unflatten": unflatten,
            "unflatten_dims": {**unflatten, **unflatten_dims},
        }
    )
    result = net.run(batch_of())
    for name in ("tile", "pad", "pad_time", "unflatten"):
        numpy.testing.assert_array_equal(result[f"{name}_dims"], result[name])
    assert {dims["tiled"], wider} < net.outputs["tile_dims"].dims_set
    assert {dims["padded"], wide} < net.outputs["pad_dims"].dims_set
    assert dims["padded"] in net.outputs["pad_time"].dims_set
    assert {dims["height"], dims["width"]} < net.outputs["unflatten_dims"].dims_set
    assert dims["height"] in net.net.get_layer("data").output.dims


def test_values_where_options_say_how_dims_change(net, results):
    data, image, vec = (batch_of(padding=ZEROS)[key] for key in ("data", "image", "vec"))
    mask = numpy.arange(5)[None, :, None] < numpy.array(LENGTHS)[:, None, None]
    numpy.testing.assert_array_equal(results["stack_last"], numpy.stack([data, vec[:, None] * mask], axis=-1))
    threes = numpy.full((3, 5, 1, 6), 3.0) * mask[..., None]
    numpy.testing.assert_array_equal(results["prefix_static"], numpy.concatenate([threes, image], axis=2))
    last = numpy.broadcast_to(vec[:, None, None], threes.shape) * mask[..., None]
    numpy.testing.assert_array_equal(results["postfix_static"], numpy.concatenate([image, last], axis=2))
    zeros = numpy.zeros((3, 5, 2))
    numpy.testing.assert_array_equal(results["prefix_features"], numpy.concatenate([zeros, data], axis=2))
    numpy.testing.assert_array_equal(results["postfix_features"], numpy.concatenate([data, zeros], axis=2))
    assert net.outputs["prefix_size_base"].dims_set == net.outputs["postfix"].dims_set
    numpy.testing.assert_array_equal(numpy.sort(results["top_k_unsorted"])[..., ::-1], -numpy.sort(-data)[..., :2])
    numpy.testing.assert_array_equal(results["range_sparse"], [0, 1])
    assert net.outputs["range_sparse"].sparse_dim is NUMBERS
    frames_of_windows = numpy.stack([data[:, i : i + 3] for i in range(3)])  # weights are one third, all of them
    numpy.testing.assert_allclose(results["weighted_frames"], frames_of_windows.mean(axis=0) * mask[:, 2:], rtol=1e-5)
    numpy.testing.assert_array_equal(results["reshape_deps"], image.reshape(3, 5, 2, 2, 6))


def test_frames_belong_to_the_sequences_of_another_batch_dim(net, results):
    batch = net.outputs["chunks"].get_batch_dim_tag()
    for name in ("same_batch", "same_batch_and_frames"):
        assert net.outputs[name].get_batch_dim_tag() == batch
        numpy.testing.assert_array_equal(results[name], results["chunks_again"])
    assert net.outputs["chunks"].dims_set - net.outputs["same_batch_and_frames"].dims_set <= {
        net.outputs["chunks"].feature_dim
    }
    numpy.testing.assert_array_equal(results["mean_of_same_batch"], results["mean_of_chunks"])


@pytest.mark.parametrize(("name", "frames"), [("fold_left", (0, 1, 2)), ("fold_right", (0,))])
def test_a_fold_puts_frames_where_the_window_had_them(results, name, frames):
    """Of the sum, each frame is in as many windows as end behind it. The mean is the frame itself."""
    data = batch_of(padding=ZEROS)["data"]
    for b, length in enumerate(LENGTHS):
        number = numpy.minimum(length - numpy.arange(length), len(frames))[:, None]
        numpy.testing.assert_allclose(results[name][b, :length], number * data[b, :length], rtol=1e-5)


@pytest.mark.parametrize(("place", "lengths"), [(None, False), (0, False), (1, True), (2, True)])
def test_numbers_count_the_axes_with_the_batch_axis_at_the_given_place(place, lengths):
    """Old configs give axes by number."""
    option = {} if place is None else {"enforce_batch_dim_axis": place}
    one = {"class": "expand_dims", "axis": "spatial", "from": "data:vec"}
    number = 0 if lengths else 1
    layers = {
        "one": one,
        "squeeze": {"class": "squeeze", "axis": number, **option, "from": "one"},
        "sum": {"class": "reduce", "mode": "sum", "axis": number, **option, "from": "data"},
        "mean": {"class": "reduce", "mode": "mean", "axes": "T", **option, "from": "data"},
    }
    result = LayerNet(layers, behavior_version=1).run(batch_of())
    batch = batch_of(padding=ZEROS)
    numpy.testing.assert_array_equal(result["squeeze"], batch["vec"])
    numpy.testing.assert_allclose(result["sum"], batch["data"].sum(axis=1), rtol=1e-5, atol=1e-5)
    mean = batch["data"].sum(axis=1) / numpy.array(LENGTHS)[:, None]
    numpy.testing.assert_allclose(result["mean"], mean, rtol=1e-5, atol=1e-5)
