"""Dims that a layer makes are other ones than those beside them, although they can have the same size."""

import numpy
import pytest

from returnn.tf.util.data import FeatureDim
from tests.tf.layers.layer_net import LayerNet, batch_of

SQUARE = {"class": "slice", "axis": "F", "slice_end": 4, "from": "data:image"}  # [B, T, 4, 4]
DOT = {"class": "dot", "red1": "F", "red2": "static:0", "from": ["square", "square"]}
KEPT = {"class": "reduce", "mode": "sum", "axis": ["dim:4", "F"], "keep_dims": True}
CASES = {
    "expand_dims": ({"class": "expand_dims", "axis": "spatial", "dim": 4}, [4, 4, 6]),
    "window": ({"class": "window", "window_size": 4}, [4, 4, 6]),
    "stack": ({"class": "stack", "from": ["data:image"] * 4}, [4, 4, 6]),
    "split_dims": ({"class": "split_dims", "axis": "dim:4", "dims": (2, 2)}, [2, 2, 6]),
    "split_dims_rest": ({"class": "split_dims", "axis": "F", "dims": (-1, 1, 1, 2)}, [4, 3, 1, 1, 2]),
    "gather": ({"class": "gather", "axis": "T", "position": "numbers"}, [4, 4, 6]),
    "top_k": ({"class": "top_k", "axis": "F", "k": 4}, [4, 4]),
    "slice_nd": ({"class": "slice_nd", "start": 0, "size": 4}, [4, 4, 6]),
    "pad": ({"class": "pad", "axes": "T", "padding": 1, "from": "square"}, [4, 4]),
    "linear": ({"class": "linear", "n_out": 6, "activation": None, "from": "height_as_feature"}, [6, 6]),
    "keep_dims": ({**KEPT, "from": "one"}, [1, 1, 1]),
    "eval": ({"class": "eval", "eval": "source(0)[..., None, :]", "out_type": {"shape": (None, 4, 1, 6)}}, [4, 1, 6]),
    "variable": ({"class": "variable", "shape": (4, 4, 4)}, [4, 4, 4]),
    "constant": ({"class": "constant", "value": numpy.zeros((2, 2, 2))}, [2, 2, 2]),
    "random": ({"class": "random", "distribution": "normal", "shape": (3, 3)}, [3, 3]),
    "window_strided": (
        {"class": "window", "axis": "dim:4", "window_size": 2, "stride": 2, "from": "split"},
        [2, 2, 2, 3],
    ),
    "window_valid": (
        {"class": "window", "axis": "dim:4", "window_size": 3, "padding": "valid", "from": "split"},
        [2, 3, 2, 3],
    ),
    "repeat": ({"class": "repeat", "axis": "dim:2", "repetitions": 2, "from": "split"}, [4, 4, 3]),
    "resize": ({"class": "resize", "axis": "dim:2", "factor": 2, "from": "split"}, [4, 4, 3]),
    "weighted_sum": ({"class": "weighted_sum", "axes": "dim:4", "size": 3, "from": "split"}, [2, 2, 3]),
    "dot": ({**DOT, "var1": "static:0", "var2": "F"}, [4, 4]),
}  # fmt: skip
HELPERS = {
    "split": {"class": "split_dims", "axis": "F", "dims": (2, 3), "from": "data:image"},
    "square": SQUARE,
    "numbers": {"class": "range", "limit": 4},
    "height_as_feature": {"class": "reinterpret_data", "set_axes": {"F": "dim:4"}, "from": "data:image"},
    "one": {"class": "expand_dims", "axis": "spatial", "from": "data:image"},
}


@pytest.fixture(scope="module")
def net():
    layers = {name: {"from": "data:image", **desc} for name, (desc, _) in CASES.items()}
    for name in ("variable", "constant", "random"):
        del layers[name]["from"]
    return LayerNet({**HELPERS, **layers}, fetch=tuple(CASES))


@pytest.mark.parametrize("name", CASES)
def test_all_dims_of_the_output_are_different(net, name):
    dims = net.outputs[name].dims
    assert sorted(dim.size for dim in dims if dim.size is not None) == sorted(CASES[name][1])
    assert len(set(dims)) == len(dims)


def test_values_are_right_although_the_sizes_are_the_same(net):
    batch = batch_of((4, 4), padding={"float32": 0, "int32": 0})
    result, image = net.run(batch, (4, 4)), batch["image"]
    four_times = numpy.repeat(image[:, :, :, None], 4, axis=3)
    for name in ("expand_dims", "stack"):
        numpy.testing.assert_array_equal(result[name], four_times)
    numpy.testing.assert_array_equal(result["slice_nd"], image)
    square = image[..., :4]
    numpy.testing.assert_allclose(result["dot"], square @ square, rtol=1e-5)
    split = image.reshape((2, 4, 4, 2, 3))
    numpy.testing.assert_array_equal(result["window_strided"], split.reshape((2, 4, 2, 2, 2, 3)))
    numpy.testing.assert_array_equal(result["window_valid"], numpy.stack([split[:, :, :3], split[:, :, 1:]], axis=2))
    for name in ("repeat", "resize"):
        numpy.testing.assert_array_equal(result[name], numpy.repeat(split, 2, axis=3))
    mean = numpy.stack([split[:, :, i : i + 3].mean(axis=2) for i in range(2)], axis=2)
    numpy.testing.assert_allclose(result["weighted_sum"], mean, rtol=1e-5, atol=1e-6)


NEEDING_OTHERS = {
    "prefix": {"class": "prefix_in_time", "prefix": "other_vec", "from": "named"},
    "postfix": {"class": "postfix_in_time", "postfix": "other_vec", "from": "named"},
    "synthetic_gradient": {"class": "synthetic_gradient", "gradient": "other", "from": "named"},
    "scaled_grad": {"class": "scaled_grad", "scale": "other_vec", "from": "named"},
}


@pytest.mark.parametrize("options", [{"n_out": 6}, {"out_dim": FeatureDim("own", 6)}], ids=["size", "dim"])
def test_a_dim_of_the_config_fits_to_others_of_its_size(options):
    linear, named = {"class": "linear", "activation": None}, FeatureDim("named", 6)
    layers = {
        "other": {**linear, **options, "from": "data"},
        "other_vec": {**linear, **options, "from": "data:vec"},
        "named": {**linear, "out_dim": named, "from": "data"},
    }
    net = LayerNet({**layers, **NEEDING_OTHERS}, fetch=tuple(NEEDING_OTHERS))
    assert {output.feature_dim for output in net.outputs.values()} == {named}
