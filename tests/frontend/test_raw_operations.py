"""Operations of the backends on raw tensors, which are documented as such. Others use those of them that compute."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.frontend._backend import Backend, get_backend_by_name
from returnn.frontend._ops.operands import OperandOps
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError, UserError

batch, time = Dim(2, name="batch", kind=Dim.Types.Batch), Dim(3, name="time")
VALUE = numpy.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], "float32")


@dataclass
class Raw:
    """A backend, and how its raw tensors are made and read."""

    backend: type[Backend[Any]]
    make: Callable[[Any], Any]
    read: Callable[[Any], Any]

    @property
    def is_graph(self) -> bool:
        return self.backend.is_tensorflow


@pytest.fixture(params=["numpy", "torch", "tf"])
def raw(request: pytest.FixtureRequest) -> Iterator[Raw]:
    with rf.backend_ctx(request.param), contextlib.ExitStack() as stack:
        if request.param == "tf":
            stack.enter_context(tf.Graph().as_default())
            session = stack.enter_context(tf.compat.v1.Session())
            make, read = tf.constant, session.run
        else:
            make = torch.tensor if request.param == "torch" else numpy.asarray
            read = numpy.asarray
        yield Raw(get_backend_by_name(request.param), make, read)


def test_dtypes(raw: Raw) -> None:
    x = raw.make(VALUE)
    assert raw.backend.get_dtype_name_raw(x) == "float32"
    assert raw.backend.as_dtype_raw("float32") == x.dtype
    cast = raw.backend.cast_raw(x, "int64")
    assert raw.backend.get_dtype_name_raw(cast) == "int64"
    assert raw.read(cast).tolist() == VALUE.astype("int64").tolist()


def test_shapes(raw: Raw) -> None:
    x = raw.make(VALUE)
    assert raw.backend.get_ndim_raw(x) == 2
    assert list(raw.read(raw.backend.get_shape_raw(x))) == [2, 3]
    assert raw.backend.get_shape_tuple_raw(x) == (2, 3)
    assert raw.backend.get_known_shape_raw(x) == (2, 3)
    raw.backend.set_known_shape_raw(x, (2, None))
    with pytest.raises((DimError, ValueError)):
        raw.backend.set_known_shape_raw(x, (5, None))
    dim = raw.backend.get_new_dim_raw(x, 1, name="new")
    assert (dim.size, dim.name) == (3, "new")


def test_shapes_that_only_the_value_knows() -> None:
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder("float32", [None, 3])
        backend = get_backend_by_name("tf")
        assert backend.get_known_shape_raw(x) == (None, 3)
        dim = backend.get_new_dim_raw(x, 0, name="new")
        assert dim.size is None
        assert session.run(dim.get_dim_value(), {x: VALUE}) == 2
        backend.set_known_shape_raw(x, (2, 3))
        assert backend.get_known_shape_raw(x) == (2, 3)


def test_layout(raw: Raw) -> None:
    x = raw.make(VALUE)
    one = raw.backend.expand_dims_raw(x, 1)
    assert raw.backend.get_known_shape_raw(one) == (2, 1, 3)
    assert raw.read(raw.backend.expand_raw(one, 1, 4)).tolist() == VALUE[:, None].repeat(4, axis=1).tolist()
    assert raw.read(raw.backend.squeeze_raw(one, [1])).tolist() == VALUE.tolist()
    assert raw.read(raw.backend.transpose_raw(x, [1, 0])).tolist() == VALUE.T.tolist()
    assert raw.read(raw.backend.reshape_raw(x, [3, 2])).tolist() == VALUE.reshape(3, 2).tolist()
    full = raw.backend.fill_raw([2, 1], raw.make(numpy.float32(0.5)))
    assert raw.read(full).tolist() == [[0.5], [0.5]]


def test_functions(raw: Raw) -> None:
    x = raw.make(VALUE)
    numpy.testing.assert_allclose(raw.read(raw.backend.activation_raw(x, "tanh")), numpy.tanh(VALUE), rtol=1e-6)
    assert raw.read(raw.backend.combine_raw(x, "mul", x)).tolist() == (VALUE * VALUE).tolist()
    assert raw.read(raw.backend.compare_raw(x, "less", raw.backend.combine_raw(x, "mul", x))).tolist() == (
        (VALUE * VALUE > VALUE).tolist()
    )
    assert raw.backend.raw_to_numpy(x).tolist() == VALUE.tolist()
    spectrum = raw.read(raw.backend.rfft_raw(x, 4))
    numpy.testing.assert_allclose(spectrum, numpy.fft.rfft(VALUE, n=4), rtol=1e-5, atol=1e-6)


def test_dropout(raw: Raw) -> None:
    values = numpy.ones([100, 50], "float32")
    dropped = raw.backend.dropout_raw(raw.make(values), 0.4, 3.0)
    if not raw.is_graph:
        assert dropped is None  # other operations do it
    elif dropped is not None:  # there is a compiler for the kernel
        read = raw.read(dropped)
        assert set(read.flatten().tolist()) == {0.0, 3.0}
        assert 0.35 < numpy.mean(read == 0.0) < 0.45


@pytest.mark.parametrize("lengths", [[2, 0, 3], [0, 0], []])
def test_sequence_mask(raw: Raw, lengths: list[int]) -> None:
    assert raw.backend.have_sequence_mask_raw()
    expected = numpy.arange(max(lengths, default=0)) < numpy.array(lengths, "int32").reshape(-1, 1)
    raw_lengths = raw.make(numpy.array(lengths, "int32"))
    assert raw.read(raw.backend.sequence_mask_raw(raw_lengths)).tolist() == expected.tolist()
    assert raw.read(raw.backend.sequence_mask_raw(raw_lengths, batch_major=False)).tolist() == expected.T.tolist()


def test_softmax_of_an_empty_sequence_is_zero(raw: Raw) -> None:
    batch = Dim(3, name="batch", kind=Dim.Types.Batch)
    lengths = raw.make(numpy.array([2, 0, 3], "int32"))
    time = Dim(Tensor("lengths", [batch], "int32", raw_tensor=lengths), name="time")
    values = raw.make(numpy.full([3, 3, 2], 0.5, "float32"))
    x = Tensor("x", [batch, time, Dim(2, name="feature")], "float32", raw_tensor=values)
    log = raw.backend.log_softmax(x, axis=time)
    for out, expected in (
        (raw.backend.softmax(x, axis=time), [[0.5, 0.5, 0.0], [0.0] * 3, [1 / 3] * 3]),
        (raw.backend.activation(log, "exp"), [[0.5, 0.5, 0.0], [0.0] * 3, [1 / 3] * 3]),
    ):
        numpy.testing.assert_allclose(raw.read(out.raw_tensor)[..., 1], expected, rtol=1e-5)


def test_order_and_names(raw: Raw) -> None:
    x = raw.make(VALUE)
    with raw.backend.name_scope_raw("inner"), raw.backend.control_dependencies_raw([x]):
        y = raw.backend.combine_raw(x, "add", x)
    assert raw.read(raw.backend.identity_with_control_dependencies_raw(y, [x])).tolist() == (2 * VALUE).tolist()
    if raw.is_graph:
        assert y.op.name.startswith("inner/")
        assert y.op.control_inputs == [x.op] or x.op in [i.op for i in y.op.inputs]


def test_graph(raw: Raw) -> None:
    x = Tensor("x", [batch, time], "float32", raw_tensor=raw.make(VALUE))
    y = rf.tanh(x)
    assert raw.backend.executing_eagerly() is not raw.is_graph
    assert raw.backend.is_valid_in_current_graph(y)
    assert raw.backend.should_pickle_tensor(y.raw_tensor) is not raw.is_graph
    assert raw.backend.is_backend_raw_tensor_dim_tag_independent
    assert raw.backend.dispatch_priority >= 0
    with raw.backend.graph_of_value(y):
        assert raw.backend.is_valid_in_current_graph(y)
    text = raw.backend.format_graph_output(y.raw_tensor, max_depth=3)
    if not raw.is_graph:
        assert text is None
    else:
        assert text == "Tanh = Tanh -> float32[2, 3]\n  Const = Const -> float32[2, 3]"
        with tf.Graph().as_default():
            assert not raw.backend.is_valid_in_current_graph(y)


def test_sanity_checks(raw: Raw) -> None:
    good = Tensor("x", [batch, time], "float32", raw_tensor=raw.make(VALUE))
    bad = good.copy_template()
    bad._raw_tensor = raw.make(VALUE.T.copy())
    result = raw.backend.runtime_sanity_checks(good)
    if raw.is_graph:
        raw.read(result)
    with pytest.raises((DimError, tf.errors.InvalidArgumentError), match=r"the shape|the value has the shape"):
        raw.read(raw.backend.runtime_sanity_checks(bad))


def test_frame_behind_those_before(raw: Raw) -> None:
    """`Backend.cum_concat_step`, also where sequences have different lengths."""
    frame = Tensor("frame", [batch], "float32", raw_tensor=raw.make(numpy.array([8.0, 9.0], "float32")))
    before = Tensor("before", [batch, time], "float32", raw_tensor=raw.make(VALUE))
    out = raw.backend.cum_concat_step(frame, prev_accum=before, axis=time, out_spatial_dim=time + 1)
    assert out.dims == (batch, time + 1)
    assert raw.read(out.raw_tensor).tolist() == [[1, -2, 3, 8], [4, 5, -6, 9]]

    lengths = Tensor("lengths", [batch], "int32", raw_tensor=raw.make(numpy.array([3, 1], "int32")))
    varying = Dim(lengths, name="varying")
    before = Tensor("before", [batch, varying], "float32", raw_tensor=raw.make(VALUE))
    out = raw.backend.cum_concat_step(frame, prev_accum=before, axis=varying, out_spatial_dim=varying + 1)
    first, second = raw.read(out.raw_tensor).tolist()
    assert first == [1, -2, 3, 8]
    assert second[:2] == [4, 9]


def test_merged_dim_that_is_not_given(raw: Raw) -> None:
    x = Tensor("x", [batch, time], "float32", raw_tensor=raw.make(VALUE))
    out, dim = raw.backend.merge_dims(x, dims=[time, batch])
    assert out.dims == (dim,)
    assert dim == time * batch
    assert raw.read(out.raw_tensor).tolist() == VALUE.T.reshape(-1).tolist()

    lengths = Tensor("lengths", [batch], "int32", raw_tensor=raw.make(numpy.array([3, 1], "int32")))
    varying, both = Dim(lengths, name="varying"), Dim(2, name="both")
    x = Tensor("x", [batch, varying], "float32", raw_tensor=raw.make(VALUE))
    out, _ = raw.backend.merge_dims(raw.backend.expand_dim(x, both), dims=[both, varying])
    assert raw.read(out.raw_tensor).shape == (2, 6)  # padded frames in between count


def test_placeholder() -> None:
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
        template = Tensor("x", [batch, time], "float32")
        x = get_backend_by_name("tf").create_placeholder_raw(template)
        assert x.shape.as_list() == [2, 3]
        assert session.run(x * 2.0, {x: VALUE}).tolist() == (2 * VALUE).tolist()


def test_each_raw_operation_is_here_or_part_of_an_operation() -> None:
    names = {name for name, _ in inspect.getmembers(Backend, callable) if name.endswith("_raw")}
    operations = Path(inspect.getfile(OperandOps)).parent
    paths = [Path(__file__), operations.parent / "_packed_backend.py", *operations.rglob("*.py")]
    texts = [path.read_text("utf8") for path in paths]
    names -= {"create_parameter_raw"}  # has a case of its own
    assert not [name for name in sorted(names) if not any(f".{name}" in text for text in texts)]


def test_raw_operation_that_a_backend_lacks() -> None:
    template = Tensor("x", [batch, time], "float32")
    with pytest.raises(UserError, match=r"^create_placeholder_raw: the backend 'numpy' has no such operation\.$"):
        get_backend_by_name("numpy").create_placeholder_raw(template)


def test_what_is_computed_from_own_input() -> None:
    """A tensor that somebody made, and not the network."""
    batch = Dim(None, name="batch")
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        own = tf.compat.v1.placeholder(tf.float32, [None]) * 2.0
        with tf.name_scope("extern_data/placeholders"):
            fed = tf.compat.v1.placeholder(tf.float32, [None])
        constant = tf.zeros([3]) + 1.0
        for raw, expected in ((own, (True, False)), (fed * 2.0, (False, False)), (constant, (True, True))):
            x = Tensor("x", [batch], "float32", raw_tensor=raw)
            backend = rf.get_backend_by_tensor(x)
            assert (backend.is_computed_from_own_input(x), backend.is_computed_from_constants(x)) == expected
