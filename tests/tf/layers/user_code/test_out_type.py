"""Option `out_type` of layers that run a user's own code."""

import pytest
import tensorflow as tf

import returnn.frontend as rf
from tests.tf.layers.layer_net import construct


def output_of(code, out_type, source="data"):
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        desc = {"class": "eval", "eval": code, "out_type": out_type, "from": source}
        return construct({"output": desc}).get_layer("output").output


@pytest.mark.parametrize(
    ("code", "out_type", "source", "sizes", "feature", "time"),
    [
        ("source(0)[..., 0]", {"shape": (None,), "dim": None}, "data", [None], None, 1),
        ("source(0)[..., None]", {"shape": (None, 6, 1), "dim": 1}, "data", [None, 6, 1], 3, 1),
        ("source(0)[:, 0]", {"shape": (6,), "time_dim_axis": None}, "data", [6], 1, None),
        ("tf.transpose(source(0)[:, 0], [0, 2, 1])", {"shape": (6, 4), "time_dim_axis": 1}, "image", [6, 4], 2, 1),
        ("tf.transpose(source(0), [0, 1, 3, 2])", {"shape": (None, 6, 4), "dim": 4}, "image", [None, 6, 4], 3, 1),
        ("tf.transpose(source(0), [0, 1, 3, 2])", {"shape": (None, 6, 4), "dim": 6}, "image", [None, 6, 4], 2, 1),
        ("source(0)[..., :3]", {"dim": 3}, "data", [None, 3], 2, 1),
        ("tf.one_hot(source(0), 5)", {"dim": 5, "dtype": "float32", "sparse": False}, "ids", [None, 5], 2, 1),
        ("tf.one_hot(source(0), 7)", {"dim": 7, "dtype": "float32"}, "ids", [None, 7], 2, 1),
        ("tf.cast(source(0), tf.float32)", {"dtype": "float32", "sparse": False}, "ids", [None], None, 1),
    ],
)
def test_dims_of_the_output(code, out_type, source, sizes, feature, time):
    output = output_of(code, out_type, f"data:{source}")
    assert [dim.size for dim in output.dims[1:]] == sizes
    assert (output.feature_dim_axis, output.time_dim_axis) == (feature, time)
    assert not output.sparse


@pytest.mark.parametrize(
    ("code", "shape", "batch_axis"),
    [("source(0)[..., 0]", (None,), 1), ("source(0)[..., :4]", (None, 4), 1), ("source(0)[0]", (6,), 0)],
)
def test_batch_axis_stays_behind_the_time_axis(code, shape, batch_axis):
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        by_time = {"class": "reinterpret_data", "enforce_time_major": True, "from": "data"}
        out_type = {"shape": shape, **({"dim": None} if shape == (None,) else {})}
        desc = {"class": "eval", "eval": code, "out_type": out_type, "from": "by_time"}
        output = construct({"by_time": by_time, "output": desc}).get_layer("output").output
    assert output.batch_dim_axis == batch_axis
    assert output.batch_shape[batch_axis] is None
    assert output.raw_tensor.shape.as_list() == list(output.batch_shape)


@pytest.mark.parametrize("source", ["data", "ids"])
def test_labels(source):
    code = "tf.zeros_like(source(0), tf.int32)[..., 0]" if source == "data" else "source(0) // 2"
    out_type = {"sparse": True, "dim": 3, "dtype": "int32"}
    output = output_of(code, out_type, f"data:{source}")
    assert [dim.size for dim in output.dims[1:]] == [None]
    assert (output.sparse_dim.size, output.feature_dim, output.dtype) == (3, None, "int32")


@pytest.mark.parametrize("out_type", [{"dim": 3}, {"dim": 3, "dtype": "int64"}])
def test_labels_stay_labels_if_only_their_number_changes(out_type):
    output = output_of(f"tf.cast(source(0) // 2, '{out_type.get('dtype', 'int32')}')", out_type, "data:ids")
    assert (output.sparse_dim.size, output.feature_dim, output.time_dim_axis) == (3, None, 1)


@pytest.mark.parametrize(
    ("code", "out_type", "kinds"),
    [
        ("tf.transpose(source(0), [1, 0, 2])", {"batch_dim_axis": 1, "time_dim_axis": 0}, "TBF"),
        ("tf.transpose(source(0), [1, 0, 2])[..., :3]", {"batch_dim_axis": 1, "time_dim_axis": 0, "dim": 3}, "TBF"),
        ("tf.reduce_sum(source(0), axis=0)", {"batch_dim_axis": None, "time_dim_axis": 0}, "TF"),
    ],
)
def test_batch_axis_stands_where_it_is_said(code, out_type, kinds):
    output = output_of(code, out_type)
    assert [output.get_axis_from_description(kind) for kind in kinds] == list(range(len(output.dims)))
