"""The old ways to describe the axes of a tensor, by table."""

from __future__ import annotations

import pickle
from typing import Any

import numpy
import pytest

import returnn.frontend  # noqa: F401 - values need their backend
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.util.data import Data, DimensionTag, FeatureDim, SpatialDim
from returnn.util.errors import ConfigError, DimError

time = SpatialDim("time")
feature = FeatureDim("feature", 40)


@pytest.mark.parametrize(
    ("options", "shape", "special"),
    [
        # options -> sizes with batch; (batch, time, feature axis)
        ({"shape": (None, 40)}, (None, None, 40), (0, 1, 2)),
        ({"shape": (None, 40), "batch_dim_axis": 1}, (None, None, 40), (1, 0, 2)),
        ({"shape": (None, 40), "time_dim_axis": 0}, (None, None, 40), (1, 0, 2)),
        ({"shape": (40,)}, (None, 40), (0, None, 1)),
        ({"shape": (40,), "time_dim_axis": None}, (None, 40), (0, None, 1)),
        ({"shape": ()}, (None,), (0, None, None)),
        ({"shape": (), "batch_dim_axis": None}, (), (None, None, None)),
        ({"shape": (40,), "batch_dim_axis": None}, (40,), (None, None, 0)),
        ({"dim": 40}, (None, None, 40), (0, 1, 2)),
        ({"dim": 40, "time_dim_axis": None}, (None, 40), (0, None, 1)),
        ({"dim": 40, "sparse": True}, (None, None), (0, 1, None)),
        ({"shape": (None,), "dim": 40, "sparse": True}, (None, None), (0, 1, None)),
        ({"shape": (), "dim": 40, "sparse": True}, (None,), (0, None, None)),
        ({"shape": (None, None, 3)}, (None, None, None, 3), (0, 1, 3)),
        ({"shape": (None, 4, 3)}, (None, None, 4, 3), (0, 1, 3)),
        ({"shape": (4, None, 3), "time_dim_axis": 2}, (None, 4, None, 3), (0, 2, 3)),
        ({"shape": (40, None), "feature_dim_axis": 1}, (None, 40, None), (0, 2, 1)),
        ({"shape": (None, 40), "feature_dim_axis": -1}, (None, None, 40), (0, 1, 2)),
        ({"shape": (None, 40), "feature_dim_axis": None}, (None, None, 40), (0, 1, None)),
        ({"dim_tags": [batch_dim, time, feature]}, (None, None, 40), (0, 1, 2)),
        ({"dim_tags": [time, batch_dim, feature]}, (None, None, 40), (1, 0, 2)),
        ({"dim_tags": [time, feature]}, (None, 40), (None, 0, 1)),
        ({"dims": [batch_dim, time], "sparse_dim": feature, "version": 1}, (None, None), (0, 1, None)),
    ],
    ids=str,
)
def test_axes(options: dict[str, Any], shape: tuple[int | None, ...], special: tuple[int | None, ...]) -> None:
    x = Data(name="x", **options)
    assert x.batch_shape == shape
    assert (x.batch_dim_axis, x.time_dim_axis, x.feature_dim_axis) == special
    assert x.shape == tuple(size for i, size in enumerate(shape) if i != x.batch_dim_axis)
    again = Data(**x.get_kwargs())
    assert (again.dims, again.time_dim_axis, again.feature_dim_axis) == (x.dims, x.time_dim_axis, x.feature_dim_axis)
    assert (again.dtype, again.sparse_dim) == (x.dtype, x.sparse_dim)


@pytest.mark.parametrize(
    ("options", "dtype", "dim"),
    [
        ({"shape": (None, 40)}, "float32", 40),
        ({"dim": 40, "sparse": True}, "int32", 40),
        ({"dim": 40, "sparse": True, "dtype": "int64"}, "int64", 40),
        ({"dim": None, "sparse": True}, "int32", None),
        ({"shape": (None, 40), "dtype": "float64"}, "float64", 40),
        ({"dim_tags": [batch_dim, time], "sparse_dim": feature}, "int32", 40),
        ({"shape": (None,), "dim": feature, "sparse": True}, "int32", 40),
    ],
    ids=str,
)
def test_dtype_and_dim(options: dict[str, Any], dtype: str, dim: int | None) -> None:
    x = Data("x", **options)
    assert (x.dtype, x.dim) == (dtype, dim)
    assert x.sparse == (options.get("sparse", False) or "sparse_dim" in options)


def test_same_dim_tags_as() -> None:
    x = Data("x", shape=(None, 40), same_dim_tags_as={"T": time, "F": feature, "B": batch_dim})
    assert x.dims == (batch_dim, time, feature)
    y = Data("y", shape=(None,), sparse=True, dim=7, same_dim_tags_as={"t": time})
    assert y.dims == (batch_dim, time)
    with pytest.raises(DimError, match=r"same_dim_tags_as: unknown axis 'X'. Possible: 'B', 'T', 'F'"):
        Data("x", shape=(None, 40), same_dim_tags_as={"X": time})
    with pytest.raises(DimError, match="same_dim_tags_as: there is no axis 'T'"):
        Data("x", shape=(), same_dim_tags_as={"T": time})


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, DimError, "tensor 'x': one of 'dims', 'dim_tags', 'shape' or 'dim' is needed"),
        ({"shape": 40}, DimError, r"tensor 'x': shape must be a tuple such as \(None, 40\), got 40"),
        ({"shap": (None, 40)}, ConfigError, "tensor: there is no option 'shap'.\n  Did you mean 'shape'"),
        ({"dim_tags": [batch_dim, time], "shape": (None, 40)}, DimError, "does not fit the dims"),
        ({"dim_tags": [batch_dim, time], "batch_dim_axis": 1}, DimError, "batch_dim_axis is 1, but the dims are"),
        ({"shape": (None, 5), "dim": 6}, DimError, "option 'dim' is 6, but 'x' .* has no feature dim of this size"),
        (
            {"shape": (None,), "dim": 6},
            DimError,
            "'dim' is 6, but .*\n  For labels: 'sparse': True. Otherwise 'shape' has",
        ),
        ({"shape": (5, None), "dim": feature}, DimError, "'dim' is 40, but .* has no feature dim of this size"),
        ({"dim_tags": [batch_dim, time, feature], "dim": 6}, DimError, "'dim' is 6, but"),
        ({"dim_tags": [batch_dim, time], "sparse_dim": feature, "dim": 6}, DimError, "'dim' is 6, but"),
        ({"dims": [batch_dim, 5]}, DimError, "tensor 'x': expected dims, got 5 of type int"),
    ],
    ids=str,
)
def test_contradictions(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Data("x", **options)


def test_dims_of_one_tensor_are_different_although_they_have_the_same_size() -> None:
    x = Data("x", shape=(None, 4, 4, 4, 6))
    assert len(set(x.dims)) == len(x.dims)
    assert x.dims[2] == Data("y", shape=(None, 4, 3)).dims[2]


def test_shape_does_not_make_two_tensors_share_dims() -> None:
    x, y = Data("x", shape=(None, 40)), Data("y", shape=(None, 40))
    assert x.dims[1] != y.dims[1]  # other sequences
    assert x.dims[2] == y.dims[2]  # just a number
    assert x.dims[0] == y.dims[0] == batch_dim


def test_shape_needs_no_more_than_the_tensor_package() -> None:
    assert Data is Tensor


def test_dims_of_a_description_need_no_dimension() -> None:
    time = Dim(kind=Dim.Types.Spatial, description="time")
    assert (time.size, time.kind, time.name) == (None, Dim.Types.Spatial, "time")
    with pytest.raises(DimError, match=r"dim 'time': 'dimension' is missing.\n  A size, as in Dim\(512,"):
        Dim(name="time")


def test_a_batch_dim_of_its_own_is_the_batch_beside_that_of_others() -> None:
    own = DimensionTag(kind=DimensionTag.Types.Batch, description="batch:own", dimension=None)
    assert own == batch_dim
    own = Dim(None, name="batch:own", kind=Dim.Types.Batch)
    assert own != batch_dim  # one that a layer makes, say
    x, y = Data("x", dim_tags=[own, time, feature]), Data("y", dim_tags=[time, batch_dim])
    assert Data.get_common_data([x, y]).dims == (batch_dim, time, feature)
    assert y.copy_compatible_to(x).batch_shape == (None, None, 1)


def test_dims_can_be_made_with_their_old_name_and_arguments() -> None:
    time = DimensionTag(kind=DimensionTag.Types.Spatial, description="time")
    assert type(time) is Dim
    assert isinstance(time, DimensionTag)
    assert (time.size, time.kind, time.name) == (None, Dim.Types.Spatial, "time")
    assert DimensionTag(DimensionTag.Types.Feature, "feature", 5).size == 5


def test_value_has_to_fit() -> None:
    with pytest.raises(DimError, match=r"the value has the shape \(2, 41\), which does not fit"):
        Data("x", shape=(40,), placeholder=numpy.zeros((2, 41), "float32"))
    with pytest.raises(DimError, match="the value has the dtype int32, expected float32"):
        Data("x", shape=(40,), placeholder=numpy.zeros((2, 40), "int32"))


def test_vocab_goes_with_the_labels() -> None:
    class Vocab:
        num_labels = 7

    vocab = Vocab()
    x = Data("x", shape=(None,), sparse=True, vocab=vocab)
    assert (x.dim, x.vocab, x.sparse_dim.vocab) == (7, vocab, vocab)


def test_old_words() -> None:
    x = Data("x", dim_tags=[batch_dim, time, feature])
    assert x.dim_tags == x.dims
    assert (x.ndim, x.batch_ndim, x.is_batch_major, x.is_time_major) == (2, 3, True, False)
    assert x.get_bc_spatial_batch_shape() == (1, 1, 40)
    y = Data("y", dim_tags=[batch_dim, time], sparse_dim=feature)
    assert y.batch_shape_dense == (None, None, 40)
    assert y.shape_sparse == Data("x", shape=(None, 40)).shape_sparse == (None,)
    assert y.dim_tags_set == {batch_dim, time}
    assert x.get_scope_name() == "x"
    assert x.get_compare_key() < Data("z", dim_tags=[batch_dim, time], sparse_dim=feature).get_compare_key()
    assert x.matches_var_dim_pattern(Data("z", shape=(None, 3)))
    assert repr(x) == "'x' [B, T|time[?], F|feature(40)]"


def test_pickle() -> None:
    x = Data("x", dim_tags=[batch_dim, time, feature])
    new = pickle.loads(pickle.dumps(x))
    assert new.batch_shape == x.batch_shape
    assert new.dims[0] is batch_dim
    assert new.feature_dim_axis == 2
    value = Tensor("v", [Dim(3, name="d")], "float32", raw_tensor=numpy.arange(3, dtype="float32"))
    assert pickle.loads(pickle.dumps(value)).raw_tensor.tolist() == [0, 1, 2]


def test_sizes_by_axis() -> None:
    x = Data("x", shape=(None, 40), size_placeholder={0: numpy.array([3, 2], "int32")})
    assert x.get_sequence_lengths().tolist() == [3, 2]
    assert x.dims[1].dyn_size.tolist() == [3, 2]
    assert {axis: value.tolist() for axis, value in x.size_placeholder.items()} == {0: [3, 2]}


def test_other_lengths_for_an_axis_are_those_of_this_tensor_alone() -> None:
    x = Data("x", shape=(None, 4))
    x.size_placeholder = {0: numpy.array([3, 2], dtype="int32")}
    y = x.copy_template()
    y.size_placeholder = {0: numpy.array([2, 1], dtype="int32")}
    assert [list(data.get_sequence_lengths()) for data in (x, y)] == [[3, 2], [2, 1]]
    assert x.dims[1] != y.dims[1]
    assert x.dims[2] == y.dims[2]


def test_lengths_that_are_set_for_one_axis_are_those_of_the_tensor() -> None:
    x = Data("x", shape=(None, 4))
    assert x.size_placeholder == {}
    x.size_placeholder[0] = numpy.array([3, 2], dtype="int32")
    y = x.copy_template()
    y.size_placeholder.update({0: numpy.array([2, 1], dtype="int32")})
    assert [list(data.get_sequence_lengths()) for data in (x, y)] == [[3, 2], [2, 1]]
    copy = x.size_placeholder.copy()
    copy[0] = numpy.array([1, 1], dtype="int32")
    assert list(x.get_sequence_lengths()) == [3, 2]
    with pytest.raises(DimError, match="has a fixed size"):
        x.size_placeholder[1] = copy[0]


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (3, "int32", ()),
        (2.5, "float32", ()),
        (True, "bool", ()),
        ("text", "string", ()),
        ([1.0, 2.0], "float32", (2,)),
        (numpy.zeros((2, 3), dtype="int64"), "int64", (2, 3)),
        (numpy.float64(1), "float64", ()),
    ],
    ids=str,
)
def test_template_of_a_constant(value: Any, dtype: str, shape: tuple[int, ...]) -> None:
    template = Data.template_from_constant(value, name="c")
    assert (template.dtype, template.batch_shape) == (dtype, shape)
    with_batch = Data.template_from_constant(value, name="c", with_batch_dim=True)
    assert with_batch.dims[0] == batch_dim
    assert with_batch.batch_ndim == len(shape) + 1
