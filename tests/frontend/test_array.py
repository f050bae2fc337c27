"""What the array operations mean, for each sequence alone. The properties are in `test_op_properties.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError

LENGTHS = [4, 2, 0, 3]
OTHER_LENGTHS = [1, 3, 2, 0]


@pytest.fixture(autouse=True)
def _numpy_backend() -> Iterator[None]:
    with rf.backend_ctx("numpy"):
        yield


class Batch:
    """Sequences [B, T, F] and [B, U, F] of random numbers, with NaN behind their ends."""

    def __init__(self) -> None:
        self.batch = Dim(len(LENGTHS), name="batch", kind=Dim.Types.Batch)
        self.time, self.other_time = self.dim("time", LENGTHS), self.dim("other", OTHER_LENGTHS)
        self.feature = Dim(3, name="feature", kind=Dim.Types.Feature)
        self.random = numpy.random.RandomState(1)
        self.x, self.y = self.floats(self.time, LENGTHS), self.floats(self.other_time, OTHER_LENGTHS)

    def dim(self, name: str, lengths: list[int]) -> Dim:
        return Dim(self.per_sequence(lengths), name=name, kind=Dim.Types.Spatial)

    def per_sequence(self, values: list[int]) -> Tensor:
        return Tensor("values", [self.batch], "int32", raw_tensor=numpy.array(values, "int32"))

    def floats(self, time: Dim, lengths: list[int]) -> Tensor:
        value = self.random.normal(size=(len(lengths), max(lengths), 3)).astype("float32")
        for entry, length in zip(value, lengths, strict=True):
            entry[length:] = numpy.nan
        return Tensor("floats", [self.batch, time, self.feature], "float32", raw_tensor=value)

    def ints(self, rows: list[list[int]]) -> Tensor:
        value = numpy.full((len(rows), max(map(len, rows))), 77, "int32")
        for entry, row in zip(value, rows, strict=True):
            entry[: len(row)] = row
        return Tensor("ints", [self.batch, self.time], "int32", raw_tensor=value)

    def sequences(self, x: Tensor, *axes: Dim) -> list[numpy.ndarray]:
        """:return: for each entry of the batch, its valid frames along the axes, which come first"""
        rest = [dim for dim in x.dims if dim != self.batch and dim not in axes]
        array = x.copy_compatible_to_dims([self.batch, *axes, *rest]).raw_tensor
        result = []
        for entry in range(len(LENGTHS)):
            lengths = [numpy.broadcast_to(axis.get_size_tensor().raw_tensor, len(LENGTHS))[entry] for axis in axes]
            result.append(array[entry][tuple(slice(0, length) for length in lengths)])
        return result


def check(got: list[numpy.ndarray], expected: list[Any]) -> None:
    for a, b in zip(got, expected, strict=True):
        numpy.testing.assert_array_equal(a, b)


def per_sequence(data: Batch, func: Callable[..., Any]) -> list[Any]:
    pairs = zip(data.sequences(data.x, data.time), data.sequences(data.y, data.other_time), strict=True)
    return [func(*pair) for pair in pairs]


def test_concat_puts_sequences_behind_each_other() -> None:
    data = Batch()
    out, dim = rf.concat((data.x, data.time), (data.y, data.other_time), (data.x, data.time))
    check(data.sequences(out, dim), per_sequence(data, lambda x, y: numpy.concatenate([x, y, x])))
    assert dim == data.time + data.other_time + data.time


def test_concat_in_memory_counts_padded_frames() -> None:
    data = Batch()
    out, dim = rf.concat((data.x, data.time), (data.y, data.other_time), handle_dynamic_dims=False)
    numpy.testing.assert_array_equal(dim.dyn_size, [length + 4 for length in OTHER_LENGTHS])
    check([out.raw_tensor], [numpy.concatenate([data.x.raw_tensor, data.y.raw_tensor], axis=1)])


def test_split_is_the_inverse_of_concat() -> None:
    data = Batch()
    out, dim = rf.concat((data.x, data.time), (data.y, data.other_time))
    x, y = rf.split(out, axis=dim, out_dims=[data.time, data.other_time])
    check(data.sequences(x, data.time), per_sequence(data, lambda x, y: x))
    check(data.sequences(y, data.other_time), per_sequence(data, lambda x, y: y))


def test_merge_dims_leaves_out_padded_frames_between_others() -> None:
    data = Batch()
    out, dim = rf.merge_dims(data.x, dims=[data.feature, data.time])
    check(data.sequences(out, dim), per_sequence(data, lambda x, y: x.T.reshape(-1)))
    assert dim == data.feature * data.time
    back = rf.split_dims(out, axis=dim, dims=[data.feature, data.time])
    check(data.sequences(back, data.time), per_sequence(data, lambda x, y: x))


def test_merge_dims_of_batch_and_time_keeps_all_frames_in_memory() -> None:
    data = Batch()
    out, dim = rf.merge_dims(data.x, dims=[data.batch, data.time])
    assert dim.get_dim_value() == 16
    assert not dim.need_masking()
    numpy.testing.assert_array_equal(out.raw_tensor, data.x.raw_tensor.reshape(16, 3))


@pytest.mark.parametrize("chunk_is_inner", [True, False])
def test_split_dims_pads_each_sequence(chunk_is_inner: bool) -> None:
    data = Batch()
    chunk, rest = Dim(2, name="chunk"), Dim(None, name="rest")
    dims = [rest, chunk] if chunk_is_inner else [chunk, rest]
    out = rf.split_dims(data.x, axis=data.time, dims=dims, pad_value=5.0)
    numpy.testing.assert_array_equal(rest.dyn_size, [2, 1, 0, 2])
    shape = (-1, 2, 3) if chunk_is_inner else (2, -1, 3)

    def expected(x: numpy.ndarray, _: numpy.ndarray) -> numpy.ndarray:
        x = numpy.concatenate([x, numpy.full((len(x) % 2, 3), 5.0)])
        return x.reshape((len(x) // 2, 2, 3) if shape[0] == -1 else (2, len(x) // 2, 3))

    check(data.sequences(out, *dims), per_sequence(data, expected))


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(1, None, None), (None, -1, None), (None, 2, None), (1, 3, None), (-2, None, None), (-3, -1, None), (1, -1, 2),
     (None, None, 3), (0, -5, None)],
)  # fmt: skip
def test_slice_is_that_of_a_python_list(start: int | None, end: int | None, step: int | None) -> None:
    data = Batch()
    out, dim = rf.slice(data.x, axis=data.time, start=start, end=end, step=step)
    check(data.sequences(out, dim), per_sequence(data, lambda x, y: x[start:end:step]))
    out, dim = rf.slice(data.x, axis=data.feature, start=start, end=end, step=step)
    check([out.raw_tensor], [data.x.raw_tensor[:, :, start:end:step]])


def test_slice_from_a_start_per_sequence_is_0_outside_of_the_sequence() -> None:
    data = Batch()
    window = Dim(3, name="window")
    out, _ = rf.slice(data.x, axis=data.time, start=data.per_sequence([-1, 1, 0, 2]), size=window)
    x = data.sequences(data.x, data.time)
    zero = numpy.zeros((1, 3))
    expected = [
        numpy.concatenate([zero, x[0][:2]]), numpy.concatenate([x[1][1:], zero, zero]),
        numpy.concatenate([zero] * 3), numpy.concatenate([x[3][2:], zero, zero]),
    ]  # fmt: skip
    check(data.sequences(out, window), expected)


@pytest.mark.parametrize(
    ("mode", "numpy_mode"),
    [("reflect", "reflect"), ("symmetric", "symmetric"), ("replicate", "edge"), ("circular", "wrap")],
)
def test_pad_continues_each_sequence(mode: str, numpy_mode: Any) -> None:
    data = Batch()
    out, (dim,) = rf.pad(data.x, axes=[data.time], padding=[(1, 2)], mode=mode)
    got = data.sequences(out, dim)
    for i, x in enumerate(data.sequences(data.x, data.time)):
        if len(x):
            numpy.testing.assert_array_equal(got[i], numpy.pad(x, [(1, 2), (0, 0)], mode=numpy_mode))


def test_pad_with_a_value_for_each_sequence() -> None:
    data = Batch()
    value = rf.cast(data.per_sequence([5, 6, 7, 8]), "float32")
    out, (dim,) = rf.pad(data.x, axes=[data.time], padding=[(0, 1)], value=value)
    x = data.sequences(data.x, data.time)
    check(data.sequences(out, dim), [numpy.concatenate([x[i], numpy.full((1, 3), 5 + i)]) for i in range(4)])


def test_shift() -> None:
    data = Batch()
    fill = numpy.full((1, 3), 9.0)
    right = rf.shift_right(data.x, axis=data.time, pad_value=9.0)
    check(data.sequences(right, data.time), per_sequence(data, lambda x, y: numpy.concatenate([fill, x])[: len(x)]))
    left = rf.shift_left(data.x, axis=data.time, pad_value=9.0)
    check(data.sequences(left, data.time), per_sequence(data, lambda x, y: numpy.concatenate([x, fill])[1:][: len(x)]))


def test_reverse_sequence() -> None:
    data = Batch()
    out = rf.reverse_sequence(data.x, axis=data.time)
    check(data.sequences(out, data.time), per_sequence(data, lambda x, y: x[::-1]))


def test_repeat() -> None:
    data = Batch()
    out, dim = rf.repeat(data.x, in_spatial_dim=data.time, repeats=2)
    check(data.sequences(out, dim), per_sequence(data, lambda x, y: numpy.repeat(x, 2, axis=0)))
    assert dim == data.time * 2
    x = data.sequences(data.x, data.time)
    out, dim = rf.repeat(data.x, in_spatial_dim=data.time, repeats=data.per_sequence([2, 0, 3, 1]))
    check(data.sequences(out, dim), [numpy.repeat(x[i], n, axis=0) for i, n in enumerate([2, 0, 3, 1])])
    repeats = [[2, 0, 1, 3], [0, 2], [], [1, 1, 0]]
    out, dim = rf.repeat(data.x, in_spatial_dim=data.time, repeats=data.ints(repeats))
    check(data.sequences(out, dim), [numpy.repeat(x[i], n, axis=0) for i, n in enumerate(repeats)])


@pytest.mark.parametrize(("options", "left"), [({}, 1), ({"window_right": 0}, 3), ({"window_left": 0}, 0)])
def test_window(options: dict[str, int], left: int) -> None:
    data = Batch()
    window = Dim(4, name="window")
    out, dim = rf.window(data.x, spatial_dim=data.time, window_dim=window, **options)

    def expected(x: numpy.ndarray, _: numpy.ndarray) -> numpy.ndarray:
        padded = numpy.pad(x, [(left, 3 - left), (0, 0)])
        return numpy.stack([padded[t : t + 4] for t in range(len(x))]) if len(x) else numpy.zeros((0, 4, 3))

    check(data.sequences(out, dim, window), per_sequence(data, expected))


def test_window_of_valid_frames_with_stride() -> None:
    data = Batch()
    window = Dim(2, name="window")
    out, dim = rf.window(data.x, spatial_dim=data.time, window_dim=window, padding="valid", stride=2)
    starts = [[0, 2], [0], [], [0]]
    x = data.sequences(data.x, data.time)
    got = data.sequences(out, dim, window)
    for i, rows in enumerate(starts):
        check([got[i]], [numpy.array([x[i][t : t + 2] for t in rows]).reshape(-1, 2, 3)])


def test_masked_select_in_each_sequence_and_back() -> None:
    data = Batch()
    keep = data.ints([[1, 0, 1, 1], [0, 1], [], [0, 0, 0]])
    out, dim = rf.masked_select(data.x, mask=keep == 1, dims=[data.time])
    x = data.sequences(data.x, data.time)
    selected = [x[0][[0, 2, 3]], x[1][[1]], x[2], x[3][:0]]
    check(data.sequences(out, dim), selected)
    back = rf.masked_scatter(out, mask=keep == 1, dims=[data.time], in_dim=dim)
    masks = [numpy.array(row, bool).reshape(-1, 1) for row in ([1, 0, 1, 1], [0, 1], [], [0, 0, 0])]
    check(data.sequences(back, data.time), [numpy.where(m, s, 0) for m, s in zip(masks, x, strict=True)])


def test_pack_padded() -> None:
    data = Batch()
    out, dim = rf.pack_padded(data.x, dims=[data.batch, data.time])
    x = data.sequences(data.x, data.time)
    assert dim.get_dim_value() == sum(LENGTHS)
    check([out.raw_tensor], [numpy.concatenate(x)])
    out, dim = rf.pack_padded(data.x, dims=[data.batch, data.time], enforce_sorted=True)
    check([out.raw_tensor], [numpy.concatenate([x[0], x[3], x[1], x[2]])])


def test_sort_leaves_padded_frames_at_the_end() -> None:
    data = Batch()
    out, indices = rf.sort(data.x, axis=data.time, descending=True)
    check(data.sequences(out, data.time), per_sequence(data, lambda x, y: -numpy.sort(-x, axis=0)))
    expected = per_sequence(data, lambda x, y: numpy.argsort(-x, axis=0, kind="stable"))
    check(data.sequences(indices, data.time), expected)
    assert indices.sparse_dim == data.time


def test_search_sorted() -> None:
    data = Batch()
    rows = [[1, 3, 3, 9], [2, 4], [], [3, 3, 3]]
    for side in ("left", "right"):
        got = rf.search_sorted(data.ints(rows), data.per_sequence([3, 5, 1, 3]), axis=data.time, side=side)
        expected = [numpy.searchsorted(row, v, side=side) for row, v in zip(rows, [3, 5, 1, 3], strict=True)]
        numpy.testing.assert_array_equal(got.raw_tensor, expected)


def test_top_k_over_two_dims_has_indices_into_both() -> None:
    data = Batch()
    values, (frames, features), k_dim = rf.top_k(data.x, axis=[data.time, data.feature], k=2)
    assert (frames.sparse_dim, features.sparse_dim, k_dim.size) == (data.time, data.feature, 2)
    for i, x in enumerate(data.sequences(data.x, data.time)):
        if len(x):
            numpy.testing.assert_array_equal(values.raw_tensor[i], -numpy.sort(-x.reshape(-1))[:2])
            numpy.testing.assert_array_equal(x[frames.raw_tensor[i], features.raw_tensor[i]], values.raw_tensor[i])


def test_top_p_mask_keeps_the_smallest_set_which_reaches_p() -> None:
    labels = Dim(5, name="labels")
    probs = Tensor("probs", [labels], "float32", raw_tensor=numpy.array([0.1, 0.4, 0.05, 0.25, 0.2], "float32"))

    def kept(p: float, **options: Any) -> list[int]:
        return numpy.flatnonzero(rf.top_p_mask(probs, axis=labels, p=p, **options).raw_tensor).tolist()

    assert kept(0.6) == [1, 3]
    assert kept(0.7) == [1, 3, 4]
    assert kept(0.7, one_more=False) == [1, 3]
    assert kept(0.1, one_more=False) == [1]
    assert kept(0.0, min_tokens_to_keep=0) == []
    assert kept(1.0) == [0, 1, 2, 3, 4]


def test_scatter_reduces_values_with_the_same_index() -> None:
    data = Batch()
    out = Dim(3, name="out")
    rows = [[2, 0, 2, 0], [1, 1], [], [2, 2, 0]]
    options: dict[str, Any] = {"indices": data.ints(rows), "indices_dim": data.time, "out_dim": out}
    x = data.sequences(data.x, data.time)
    functions: dict[str, Callable[[numpy.ndarray], Any]] = {
        "sum": lambda v: v.sum(0) if len(v) else numpy.zeros(3),
        "max": lambda v: v.max(0) if len(v) else numpy.full(3, -numpy.inf),
        "min": lambda v: v.min(0) if len(v) else numpy.full(3, 8.0),
    }
    for mode, func in functions.items():
        got = rf.scatter(data.x, mode=mode, fill_value=8.0 if mode == "min" else None, **options)
        expected = [[func(x[i][numpy.array(row) == k]) if row else func(x[i]) for k in range(3)]
                    for i, row in enumerate(rows)]  # fmt: skip
        numpy.testing.assert_allclose(got.raw_tensor, expected, rtol=1e-6)
    numpy.testing.assert_array_equal(
        rf.scatter_count(**options).raw_tensor, [[2, 0, 2], [0, 2, 0], [0, 0, 0], [1, 0, 2]]
    )


def test_scatter_statistics() -> None:
    axis, out = Dim(5, name="axis"), Dim(3, name="out")
    x = Tensor("x", [axis], "float32", raw_tensor=numpy.array([1.0, 5.0, 2.0, 5.0, 3.0], "float32"))
    indices = Tensor("indices", [axis], "int32", sparse_dim=out, raw_tensor=numpy.array([0, 2, 0, 2, 0], "int32"))
    options: dict[str, Any] = {"indices": indices, "indices_dim": axis}
    log_sum = numpy.log(numpy.exp([1.0, 2.0, 3.0]).sum())
    numpy.testing.assert_allclose(rf.scatter_mean(x, **options).raw_tensor, [2, 0, 5])
    numpy.testing.assert_array_equal(rf.scatter_argmax(x, **options).raw_tensor, [4, -1, 1])
    numpy.testing.assert_allclose(
        rf.scatter_logsumexp(x, **options).raw_tensor, [log_sum, -numpy.inf, 5 + numpy.log(2)], rtol=1e-6
    )
    numpy.testing.assert_allclose(
        rf.scatter_logmeanexp(x, fill_value=7.0, **options).raw_tensor, [log_sum - numpy.log(3), 7, 5], rtol=1e-6
    )


def test_number_of_elements_of_a_shape() -> None:
    data = Batch()
    batch, time, other, feature = data.batch, data.time, data.other_time, data.feature
    products = [a * b for a, b in zip(LENGTHS, OTHER_LENGTHS, strict=True)]
    assert rf.num_elements_of_shape([batch, feature]) == 12
    assert int(rf.num_elements_of_shape([batch, time]).raw_tensor) == sum(LENGTHS)
    assert int(rf.num_elements_of_shape([batch, time, other, feature]).raw_tensor) == 3 * sum(products)
    assert int(rf.num_elements_of_shape([batch, time], use_mask=False).raw_tensor) == 16
    numpy.testing.assert_array_equal(rf.num_elements_of_shape([time, feature]).raw_tensor, [3 * n for n in LENGTHS])
    numpy.testing.assert_allclose(rf.masked_fraction_of_shape([batch, time]).raw_tensor, sum(LENGTHS) / 16)


def test_reduce_logmeanexp_does_not_count_padded_frames() -> None:
    data = Batch()
    got = rf.reduce_logmeanexp(data.x, axis=[data.time, data.feature]).raw_tensor
    for i, x in enumerate(data.sequences(data.x, data.time)):
        expected = numpy.log(numpy.mean(numpy.exp(x))) if len(x) else -numpy.inf
        numpy.testing.assert_allclose(got[i], expected, rtol=1e-5, atol=1e-6)


def test_templates_made_twice_have_the_same_dims() -> None:
    data = Batch()
    x = data.x.copy_template()
    operations: list[Callable[[], Any]] = [
        lambda: rf.merge_dims(x, dims=[data.batch, data.time]),
        lambda: rf.merge_dims(x, dims=[data.feature, data.time]),
        lambda: rf.slice(x, axis=data.time, end=2),
        lambda: rf.slice(x, axis=data.time, start=1, end=-1, step=2),
        lambda: rf.concat((x, data.time), (x, data.time)),
        lambda: rf.pad(x, axes=[data.time], padding=1),
        lambda: rf.expand_make_non_empty(x, axis=data.time),
        lambda: rf.repeat(x, in_spatial_dim=data.time, repeats=2),
    ]
    for operation in operations:
        assert operation()[1] == operation()[1]


def test_all_axes_of_a_dim_that_is_there_twice():
    """As in the sum of squares of a matrix whose rows and columns are the same features."""
    dim = Dim(3, name="square")
    for other in (dim, dim.copy(match_priority=1)):
        x = Tensor("x", [dim, other], "float32", raw_tensor=numpy.arange(9.0).reshape(3, 3).astype("float32"))
        assert float(rf.reduce_sum(x, axis=x.dims).raw_tensor) == 36.0
        assert rf.reduce_sum(x, axis=[dim, dim]).dims == ()
    x = Tensor("x", [dim, dim], "float32", raw_tensor=numpy.zeros((3, 3), "float32"))
    with pytest.raises(DimError, match="is ambiguous"):
        rf.reduce_sum(x, axis=dim)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("index", [-1, 3])
@pytest.mark.parametrize("is_batched", [False, True])
def test_an_index_that_is_not_there_is_named(backend, index, is_batched):
    pytest.importorskip(backend)
    batch, classes = Dim(2, name="batch", kind=Dim.Types.Batch), Dim(3, name="classes")
    dims = [batch, classes] if is_batched else [classes]
    with rf.backend_ctx(backend):
        table = rf.convert_to_tensor(numpy.ones([dim.size for dim in dims], "float32"), dims=dims)
        indices = rf.convert_to_tensor(numpy.array([1, index], "int32"), dims=[batch])
        with pytest.raises(DimError, match=rf"there is no index {index} in classes\(3\).\n  Possible are 0 to 2"):
            rf.gather(table, indices=indices, axis=classes)
