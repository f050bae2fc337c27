"""Copies in other layouts, against numpy transposes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy
import pytest

import returnn.frontend as rf  # noqa: F401 - layout changes are its operations
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError

LENGTHS = numpy.array([4, 2], "int32")
batch = Dim(2, name="batch", kind=Dim.Types.Batch)
time = Dim(Tensor("lengths", [batch], "int32", raw_tensor=LENGTHS), name="time", kind=Dim.Types.Spatial)
feature = Dim(3, name="feature", kind=Dim.Types.Feature)
other = Dim(5, name="other", kind=Dim.Types.Spatial)
SIZES = {batch: 2, time: 4, feature: 3, other: 5}
VALUE = numpy.arange(120, dtype="float32").reshape([2, 4, 3, 5])
DIMS = (batch, time, feature, other)


def tensor_of(*dims: Dim) -> Tensor:
    axes = [DIMS.index(d) for d in dims]
    missing = tuple(i for i in range(4) if i not in axes)
    value = VALUE[tuple(0 if i in missing else slice(None) for i in range(4))]
    rest = [i for i in range(4) if i in axes]
    x = Tensor("x", dims, "float32", raw_tensor=value.transpose([rest.index(i) for i in axes]))
    if feature in dims:
        x.feature_dim = feature
    if time in dims:
        x.time_dim_axis = dims.index(time)
    return x


def assert_same_content(new: Tensor, old: Tensor) -> None:
    new.sanity_check()
    assert sorted(new.dims) == sorted(old.dims)
    order = [new.dims.index(d) for d in old.dims]
    numpy.testing.assert_array_equal(new.raw_tensor.transpose(order), old.raw_tensor)
    assert new.feature_dim == old.feature_dim
    assert new.time_dim_axis is None or new.dims[new.time_dim_axis] == time


all_orders = pytest.mark.parametrize("dims", list(itertools.permutations(DIMS)), ids=lambda d: "-".join(map(str, d)))


@all_orders
@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (lambda x: x.copy_as_batch_major(), {0: batch}),
        (lambda x: x.copy_as_time_major(), {0: time}),
        (lambda x: x.copy_as_time_batch_major(), {0: time, 1: batch}),
        (lambda x: x.copy_with_feature_last(), {3: feature}),
        (lambda x: x.copy_as_batch_feature_major(), {0: batch, 1: feature}),
        (lambda x: x.copy_as_batch_spatial_major(), {0: batch, 3: feature}),
        (lambda x: x.copy_with_time_dim_axis(2), {2: time}),
        (lambda x: x.copy_with_feature_dim_axis(1), {1: feature}),
        (lambda x: x.copy_with_batch_dim_axis(-1), {3: batch}),
        (lambda x: x.copy(), {}),
        (lambda x: x.copy_move_axis(0, -1), {}),
        (lambda x: x.copy_swap_axes(0, 2), {}),
    ],
)
def test_copies_in_another_order(
    dims: tuple[Dim, ...], copy: Callable[[Tensor], Tensor], expected: dict[int, Dim]
) -> None:
    x = tensor_of(*dims)
    new = copy(x)
    assert_same_content(new, x)
    for axis, dim in expected.items():
        assert new.dims[axis] == dim


@all_orders
def test_bt_or_tb_major(dims: tuple[Dim, ...]) -> None:
    x = tensor_of(*dims)
    new = x.copy_as_bt_or_tb_major()
    assert_same_content(new, x)
    assert set(new.dims[:2]) == {batch, time}
    if set(dims[:2]) == {batch, time}:
        assert new.dims == x.dims


@all_orders
def test_transpose_by_dims_and_by_numbers(dims: tuple[Dim, ...]) -> None:
    x = tensor_of(*DIMS)
    new = x.copy_transpose(dims)
    assert new.dims == dims
    assert_same_content(new, x)
    assert x.copy_transpose([DIMS.index(d) for d in dims]).dims == dims


def test_a_transpose_needs_each_axis_once() -> None:
    with pytest.raises(DimError, match="is not an order of its axes"):
        tensor_of(batch, time).copy_transpose([0, 0])
    with pytest.raises(DimError, match="there is no axis feature"):
        tensor_of(batch, time).copy_transpose([batch, feature])


@all_orders
def test_copy_compatible_to_dims(dims: tuple[Dim, ...]) -> None:
    x = tensor_of(time, batch)
    new = x.copy_compatible_to_dims(dims)
    assert [d.size for d in new.dims] == [d.size if d in x.dims else 1 for d in dims]
    assert new.raw_tensor.shape == tuple(SIZES[d] if d in x.dims else 1 for d in dims)
    full = x.copy_compatible_to_dims(dims, unbroadcast=True)
    assert full.dims == dims
    numpy.testing.assert_array_equal(full.raw_tensor, numpy.broadcast_to(new.raw_tensor, full.raw_tensor.shape))
    with pytest.raises(DimError, match="are missing"):
        x.copy_compatible_to_dims(dims, add_dims=False)


def test_copy_compatible_to_dims_needs_all_own_dims() -> None:
    with pytest.raises(DimError, match=r"its dim feature\(3\) is not among batch\(2\)"):
        tensor_of(batch, feature).copy_compatible_to_dims([batch])


def test_copy_compatible_to() -> None:
    x, template = tensor_of(time, batch, feature), tensor_of(batch, time, other, feature)
    new = x.copy_compatible_to(template)
    assert new.batch_shape == (2, None, 1, 3)
    assert new.feature_dim == feature
    labels = Tensor("labels", [batch, time], "int32", sparse_dim=feature)
    with pytest.raises(DimError, match="one is sparse, the other is not"):
        labels.copy_compatible_to(template)
    with pytest.raises(DimError, match="the dtypes int32 and float32 differ"):
        labels.copy_compatible_to(template, check_sparse=False)
    assert labels.copy_compatible_to(template, check_sparse=False, check_dtype=False).batch_ndim == 4


def test_copy_compatible_to_template_whose_lengths_nobody_knows() -> None:
    x = tensor_of(time, batch, feature)
    new = x.copy_compatible_to(Tensor("by_hand", shape=(None, None, 3), dtype="float32"), except_feature=True)
    assert new.batch_shape == (2, None, 1, 3)
    assert new.dims[1] is time
    with pytest.raises(DimError, match="its dim time"):
        x.copy_compatible_to(tensor_of(batch, other, feature))  # of a known size


def test_raw_compatible_to_dims_is_the_same_object_if_it_fits() -> None:
    x = tensor_of(batch, time)
    assert x.copy_compatible_to_dims_raw([batch, time]) is x.raw_tensor


def test_add_dims() -> None:
    x = tensor_of(time, feature)
    assert x.copy_add_batch_dim(0).batch_shape == (None, None, 3)
    assert x.copy_add_dim_by_tag(other, unbroadcast=True).dims == (time, other, feature)
    assert x.copy_add_dim_by_tag(other, axis=-1).batch_shape == (None, 3, 1)
    assert x.copy_add_spatial_dim().batch_shape == (None, 1, 3)
    assert tensor_of(batch).copy_add_spatial_dim(0).time_dim_axis == 0
    added = tensor_of(batch, time).copy_add_feature_dim()
    assert (added.feature_dim_axis, added.raw_tensor.shape) == (2, (2, 4, 1))
    with pytest.raises(DimError, match="has a batch axis already"):
        tensor_of(batch, time).copy_add_batch_dim(0)


def test_squeeze_axes() -> None:
    x = tensor_of(batch, time).copy_add_feature_dim()
    assert_same_content(x.copy_squeeze_axes([-1]), tensor_of(batch, time))
    with pytest.raises(DimError, match="only axes of size 1 can be removed"):
        x.copy_squeeze_axes([0])


def test_feature_and_time_go_with_their_axes_in_templates() -> None:
    x = tensor_of(batch, time, other, feature)
    assert x.copy_template_excluding_axis(0).feature_dim == feature
    assert x.copy_template_excluding_axis(0).time_dim_axis == 0
    without_time = x.copy_template_excluding_time_dim()
    assert (without_time.dims, without_time.time_dim_axis) == ((batch, other, feature), None)
    with_time = without_time.copy_template_adding_time_dim(time_dim_axis=0)
    assert (with_time.time_dim_axis, with_time.feature_dim_axis, with_time.batch_ndim) == (0, 3, 4)
    time_last = without_time.copy_template_adding_time_dim(time_dim_axis=-1)
    assert (time_last.time_dim_axis, time_last.feature_dim_axis, time_last.batch_ndim) == (3, 2, 4)
    assert x.copy_template_excluding_spatial_dim(1).dims == (batch, time, feature)
    new_feature = Dim(7, name="new", kind=Dim.Types.Feature)
    replaced = x.copy_template_replace_dim_tag(3, new_feature)
    assert (replaced.feature_dim, replaced.dims[:3]) == (new_feature, (batch, time, other))
    assert x.copy_template_replace_dim(3, 11).dim == 11
    assert x.copy_template_new_dim_tags([feature, batch]).feature_dim_axis == 0
    assert x.copy_template_new_dim_tags([other, time, batch, feature], keep_special_axes=True).time_dim_axis == 1
    assert x.copy_template(dtype="int32").dtype == "int32"


def test_dense_template_of_sparse_data() -> None:
    labels = Tensor("labels", [batch, time], "int32", sparse_dim=feature)
    dense = labels.copy_template_dense()
    assert (dense.dims, dense.dtype, dense.sparse, dense.feature_dim) == (
        (batch, time, feature), "float32", False, feature,
    )  # fmt: skip


def test_get_common_data() -> None:
    a, b = tensor_of(batch, feature), tensor_of(time, batch)
    common = Tensor.get_common_data([a, b])
    assert common is not None
    assert set(common.dims) == {batch, time, feature}
    with pytest.raises(DimError, match="has all of the dims"):
        Tensor.get_common_data([a, b], allow_broadcast_all_sources=False)
    ignored = Tensor.get_common_data([a, b], ignore_feature_dim=True)
    assert ignored is not None
    assert ignored.dims == (time, batch)
    assert Tensor.get_common_data([]) is None


def test_masked_copy() -> None:
    x = tensor_of(feature, time, batch)
    masked = x.copy_masked(0)
    assert_same_content(masked.copy_masked(0), masked)
    mask = numpy.arange(4)[:, None] < LENGTHS
    numpy.testing.assert_array_equal(
        masked.copy_transpose(x.dims).raw_tensor, numpy.where(mask, x.raw_tensor, 0).astype("float32")
    )
    assert x.copy_masked(0, dims=[feature]) is x


def test_operators() -> None:
    x, y = tensor_of(batch, time), tensor_of(batch, time)
    numpy.testing.assert_array_equal((x + y).raw_tensor, 2 * x.raw_tensor)
    numpy.testing.assert_array_equal((1 - x).raw_tensor, 1 - x.raw_tensor)
    numpy.testing.assert_array_equal((x**2).raw_tensor, x.raw_tensor**2)
    numpy.testing.assert_array_equal((-abs(x)).raw_tensor, -x.raw_tensor)
    numpy.testing.assert_array_equal(((x > 3) & ~(x >= 9)).raw_tensor, (x.raw_tensor > 3) & (x.raw_tensor < 9))
    numpy.testing.assert_array_equal((x // 2 % 3).raw_tensor, x.raw_tensor // 2 % 3)
    assert x in [x]
    assert (x == None) is False  # noqa: E711


def test_roles_of_a_copy_are_its_own() -> None:
    time, feature, labels = Dim(3, name="time"), Dim(4, name="feature"), Dim(5, name="labels")
    x = Tensor("x", [time, feature], "int32", feature_dim=feature, raw_tensor=numpy.zeros((3, 4), "int32"))
    y = x.copy_with_roles(feature_dim=time, time_dim=feature, sparse_dim=labels)
    assert (y.feature_dim, y.time_dim_axis, y.sparse_dim) == (time, 1, labels)
    assert y.raw_tensor is x.raw_tensor
    assert (x.feature_dim, x.sparse_dim) == (feature, None)
    without = y.copy_with_roles(feature_dim=None, time_dim=None, sparse_dim=None)
    assert (without.feature_dim, without.time_dim_axis, without.sparse_dim) == (None, None, None)
    assert y.copy_with_roles().get_kwargs() == y.get_kwargs()
    with pytest.raises(DimError, match="cannot be the feature dim"):
        x.copy_with_roles(feature_dim=labels)
    with pytest.raises(DimError, match="there is no axis labels"):
        x.copy_with_roles(time_dim=labels)


@pytest.mark.parametrize("dims", [(batch, time), (batch, time, feature), (batch, time, feature, other)])
def test_flattened_frames_are_in_the_same_order_for_all_orders_of_axes(dims: tuple[Dim, ...]) -> None:
    values = tensor_of(*dims).raw_tensor
    flat = numpy.concatenate([values[i, :length] for i, length in enumerate(LENGTHS)])
    for order in itertools.permutations(dims):
        rest = [DIMS.index(dim) for dim in order if dim not in (batch, time)]
        expected = flat.transpose([0, *(1 + sorted(rest).index(i) for i in rest)])
        assert numpy.array_equal(tensor_of(*order).get_placeholder_flattened(), expected)
