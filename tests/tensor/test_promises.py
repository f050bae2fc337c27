"""Promises about dims, parts of a batch axis, and the contexts of loops."""

from __future__ import annotations

import numpy
import pytest

import returnn.frontend  # noqa: F401 - operations on lengths
from returnn.tensor import ControlFlowContext, Dim, Tensor, VerifyOutShapeException, batch_dim
from returnn.tensor.batch_info import BatchInfo, SearchBeam
from returnn.tensor.marked_dim import ImplicitDim, ImplicitDynSizeDim, ImplicitSparseDim, OptionalDim

time = Dim(Tensor("lengths", [batch_dim], "int32"), name="time", kind=Dim.Types.Spatial)
feature = Dim(5, name="feature", kind=Dim.Types.Feature)
classes = Dim(7, name="classes", kind=Dim.Types.Feature)
x = Tensor("x", [batch_dim, time, feature], "float32")
labels = Tensor("labels", [batch_dim, time], "int32", sparse_dim=classes)
frames = Tensor("frames", [time], "float32")


@pytest.mark.parametrize(
    ("tensor", "out_shape"),
    [
        (x, {batch_dim, time, feature}),
        (x, [feature, time, batch_dim]),
        (x, {batch_dim, time, feature, OptionalDim(classes)}),
        (x, {batch_dim, time, OptionalDim(feature)}),
        (labels, {batch_dim, time, ImplicitSparseDim(classes)}),
        (labels, {batch_dim, time, ImplicitDim(classes)}),
        (frames, {time, ImplicitDynSizeDim(batch_dim)}),
    ],
)
def test_out_shape_that_fits(tensor: Tensor, out_shape: object) -> None:
    tensor.verify_out_shape(out_shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tensor", "out_shape", "text"),
    [
        (x, {batch_dim, time}, r"Missing: none. Not expected: feature\(5\)\."),
        (x, {batch_dim, time, feature, classes}, r"Missing: classes\(7\). Not expected: none\."),
        (labels, {batch_dim, time}, r"Not expected: ImplicitDim\(Dim\{classes\(7\)\}\)"),
        (x, {batch_dim, time, feature, ImplicitSparseDim(classes)}, r"Missing: ImplicitDim\(Dim\{classes\(7\)\}\)"),
        (frames, {time}, r"Not expected: ImplicitDim\(Dim\{batch\}\)"),
    ],
)
def test_out_shape_that_does_not_fit(tensor: Tensor, out_shape: set[Dim], text: str) -> None:
    with pytest.raises(VerifyOutShapeException, match="the dims are not those of out_shape") as caught:
        tensor.verify_out_shape(out_shape)
    with pytest.raises(VerifyOutShapeException, match=text):
        raise caught.value


def test_implicit_dims_may_be_left_out_if_allowed() -> None:
    labels.verify_out_shape({batch_dim, time}, allow_missing_implicit_dims=True)
    assert labels.dim_tags_set_implicit_only == {classes}
    assert frames.dim_tags_set_implicit == {time, batch_dim}


def test_marked_dims_are_values() -> None:
    assert ImplicitDim(time) == ImplicitDim(time)
    assert ImplicitDim(time) != OptionalDim(time)
    assert ImplicitDim(time) != time
    assert len({ImplicitDim(time), ImplicitDim(time), ImplicitSparseDim(time)}) == 2
    assert sorted([OptionalDim(time), ImplicitDim(time)])[0] == ImplicitDim(time)


def test_parts_of_a_batch() -> None:
    batch = BatchInfo.make_global_batch_info(4)
    beam = SearchBeam(3, name="output")
    with_beam = batch.copy_extend_with_beam(beam)
    assert (batch.dim, with_beam.dim, with_beam.static_dim) == (4, 12, 12)
    assert with_beam.beam == beam
    assert with_beam is batch.copy_extend_with_beam(beam)
    assert with_beam.get_global_base() is batch
    assert with_beam.copy_remove_beam().dim == 4
    assert with_beam.copy_set_beam(SearchBeam(5, name="other")).dim == 20
    assert (batch.is_global_batch(), with_beam.is_global_batch(), with_beam.is_broadcast()) == (True, False, False)
    assert BatchInfo.make_global_broadcast_batch_info().dim == 1
    assert batch.copy_extend_with_padded_or_fixed_dim_tag(feature).dim == 20
    assert BatchInfo.get_common_batch_info([None, batch, with_beam]) is with_beam


def test_batch_of_merged_dims() -> None:
    batch, beam = Dim(4, name="b", kind=Dim.Types.Batch), Dim(3, name="beam", kind=Dim.Types.Beam)
    merged = Tensor("merged", [batch * beam, feature], "float32")
    assert merged.batch is not None
    assert merged.batch.dim == 12
    assert merged.beam == SearchBeam(3, name="beam")
    assert Tensor("apart", [batch, beam], "float32").beam == SearchBeam(3, name="beam")
    assert Tensor("no batch", [feature], "float32").batch is None


def test_the_latest_beam_counts() -> None:
    first = SearchBeam(3, name="output")
    previous = first.copy_as_prev_frame()
    second = SearchBeam(4, dependency=first, name="again")
    assert SearchBeam.get_combined_beam(None, first) == first
    assert SearchBeam.get_combined_beam(first, second) == second
    assert SearchBeam.get_combined_beam(second, first) == second
    assert SearchBeam.get_combined_beam(previous, first) == first
    assert SearchBeam.get_combined_beam(first, previous) == first


def test_beam_copies_repeat_the_values_of_each_sequence() -> None:
    batch = Dim(2, name="b", kind=Dim.Types.Batch)
    value = numpy.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    tensor = Tensor("t", [batch, Dim(2, name="f")], "float32", raw_tensor=value)
    new = tensor.copy_extend_with_beam(SearchBeam(3, name="output"))
    assert new.raw_tensor.tolist() == numpy.repeat(value, 3, axis=0).tolist()
    assert new.beam == SearchBeam(3, name="output")
    assert new.copy_extend_with_beam(new.beam).raw_tensor is new.raw_tensor


def test_contexts_of_loops() -> None:
    outer = ControlFlowContext(kind=ControlFlowContext.Types.Loop, identifier="outer")
    inner = ControlFlowContext(kind=ControlFlowContext.Types.Cond, identifier="inner", outer_ctx=outer)
    outer.loop_spatial_dim = time
    assert repr(inner) == "ControlFlowContext{loop(outer)/cond(inner)}"
    assert (outer.is_loop(), inner.is_loop(), inner.is_cond()) == (True, False, True)
    assert ControlFlowContext.abs_ctx_stack_with_root(inner) == [None, outer, inner]
    assert ControlFlowContext.is_parent_or_same(outer, inner)
    assert ControlFlowContext.is_parent_or_same(None, outer)
    assert not ControlFlowContext.is_parent_or_same(inner, outer)
    assert ControlFlowContext.collect_parent_dims(inner) == [time]
