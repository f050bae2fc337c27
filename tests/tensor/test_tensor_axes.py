"""Axis descriptions, by table."""

from __future__ import annotations

from typing import Any

import pytest

from returnn.tensor import Dim, Tensor, batch_dim, single_step_dim
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import DimError

time = Dim(None, name="time", kind=Dim.Types.Spatial)
enc = Dim(None, name="enc-time", kind=Dim.Types.Spatial)
width = Dim(3, name="width", kind=Dim.Types.Spatial)
feature = Dim(512, name="feature", kind=Dim.Types.Feature)

btf = Tensor("btf", [batch_dim, time, feature], "float32", feature_dim=feature, time_dim_axis=1)
tbf = Tensor("tbf", [time, batch_dim, feature], "float32", feature_dim=feature, time_dim_axis=0)
four = Tensor("four", [time, batch_dim, width, enc, feature], "float32", feature_dim=feature, time_dim_axis=0)
sparse = Tensor("sparse", [batch_dim, time], "int32", sparse_dim=feature, time_dim_axis=1)
energies = Tensor("energies", [batch_dim, time, enc], "float32", feature_dim=enc, time_dim_axis=1)
time_is_feature = Tensor("time_is_feature", [batch_dim, width], "float32", feature_dim=width, time_dim_axis=1)
other = Dim(None, name="time:var:extern_data:other", kind=Dim.Types.Spatial)
data = Tensor("data", [batch_dim, other, feature], "float32", feature_dim=feature, time_dim_axis=1)
no_batch = Tensor("no_batch", [width, feature], "float32", feature_dim=feature)


@pytest.mark.parametrize(
    ("tensor", "description", "axes"),
    [
        (btf, "B", [0]),
        (btf, "batch", [0]),
        (btf, "b", [0]),
        (tbf, "B", [1]),
        (no_batch, "B", []),
        (btf, "T", [1]),
        (btf, "time", [1]),
        (tbf, "T", [0]),
        (tbf, "T?", [0]),
        (no_batch, "T?", [0]),
        (Tensor("only_feature", [feature], "float32"), "T?", []),
        (btf, "F", [2]),
        (btf, "feature", [2]),
        (sparse, "F", []),
        (btf, "spatial", [1]),
        (energies, "spatial", [1, 2]),
        (energies, "stag:enc", [2]),
        (energies, "F", [2]),
        (time_is_feature, "spatial", [1]),
        (data, "stag:time:other", [1]),
        (data, "stag:time:var:extern_data:other", [1]),
        (four, "spatial", [0, 2, 3]),
        (four, "spatial:0", [0]),
        (four, "spatial:1", [2]),
        (four, "spatial:-1", [3]),
        (four, "spatial:7", []),
        (four, "spatial_except:T", [2, 3]),
        (four, "spatial_except_time", [2, 3]),
        (four, "spatial_except:stag:enc", [0, 2]),
        (four, "dyn", [0, 3]),
        (four, "dynamic", [0, 3]),
        (four, "dyn:0", [0]),
        (four, "dyn:-1", [3]),
        (four, "static", [2, 4]),
        (four, "static:0", [2]),
        (four, "static:-1", [4]),
        (four, "dim:512", [4]),
        (four, "dim:3", [2]),
        (four, "dim:4", []),
        (four, "stag:enc", [3]),
        (four, "stag:enc-time", [3]),
        (four, "STAG:Enc", [3]),
        (four, "stag:time", [0, 3]),
        (four, "stag-single:0:time", [0]),
        (four, "stag-single:-1:time", [3]),
        (four, "stag-single:2:time", []),
        (four, "tag:feature", [4]),
        (four, "stag:feature", []),
        (four, "except_batch", [0, 2, 3, 4]),
        (four, "except_batch:-1", [4]),
        (four, "except_batch:0", [0]),
        (four, "except_batch:7", []),
        (four, "s:-1", [3]),
        (four, "D:0", [0]),
        (four, "except_time", [2, 3, 4]),
        (four, "except_feature", [0, 1, 2, 3]),
        (four, "*", [0, 1, 2, 3, 4]),
        (four, "all", [0, 1, 2, 3, 4]),
        (four, "B+T", [1, 0]),
        (four, ["T", "F"], [0, 4]),
        (four, ["spatial", "T"], [0, 2, 3]),
        (four, ("B", width), [1, 2]),
        (four, enc, [3]),
        (four, Dim(512, name="feature"), []),
        (four, "", []),
        (four, None, []),
        (four, [], []),
    ],
    ids=str,
)
def test_axes_from_description(tensor: Tensor, description: Any, axes: list[int]) -> None:
    assert tensor.get_axes_from_description(description) == axes
    assert tensor.has_axis(description) == bool(axes)
    if len(axes) == 1:
        assert tensor.get_axis_from_description(description) == axes[0]
        assert tensor.get_dim_tag_from_description(description) == tensor.dims[axes[0]]


def test_dim_that_is_there_twice_is_found_by_priority() -> None:
    x = Tensor("x", [feature, feature.copy(match_priority=1)], "float32")
    assert x.get_axis_from_description(feature) == 1
    assert x.get_axis_from_description(x.dims[1]) == 1
    assert x.get_axis_from_description(feature.copy(match_priority=-1)) == 1
    assert x.get_axes_from_description(feature) == [1]
    assert x.get_axes_from_description([feature]) == [1]
    same = Tensor("x", [feature, feature], "float32")
    assert same.get_axes_from_description(feature) == [0, 1]


def test_numbers_are_allowed_in_old_configs_alone() -> None:
    before = BehaviorVersion.get()
    assert btf.get_axes_from_description(-1, allow_int=True) == [2]
    with pytest.raises(DimError, match="the axis is given as the number 1"):
        btf.get_axes_from_description(1, allow_int=False)
    assert BehaviorVersion.get() == before


def test_description_from_axis_finds_the_axis_in_other_layouts() -> None:
    for axis, dim in enumerate(four.dims):
        description = four.get_description_from_axis(axis)
        assert four.copy_transpose([4, 3, 2, 1, 0]).get_dim_tag_from_description(description) == dim


B, F = "'four' [time[?], B, width(3), enc-time[?], F|feature(512)]", "'btf' [B, time[?], F|feature(512)]"


def test_labels_of_another_dim_are_told() -> None:
    labels = Tensor("labels", dims=[batch_dim, time], sparse_dim=Dim(7, name="of-data"), dtype="int32")
    with pytest.raises(DimError) as caught:
        labels.get_axis_from_description(Dim(7, name="words"))
    assert str(caught.value).endswith(
        "\n  Its labels are of of-data(7), another dim of that size. For labels of words(7), it has to be the "
        "'sparse_dim', which `extern_data` sets for data."
    )
    with pytest.raises(DimError, match="It has just these dims"):
        labels.get_axis_from_description(Dim(8, name="words"))


@pytest.mark.parametrize(
    ("tensor", "description", "text"),
    [
        (four, "spacial", f"{B}: 'spacial' does not describe an axis.\n  Did you mean 'spatial' or 'spatial:0'?"),
        (four, "stag:widht", f"{B}: there is no axis 'stag:widht'.\n  Did you mean width(3)?"),
        (btf, "spatial:1", f"{F}: there is no axis 'spatial:1'.\n  It has just these dims."),
        (btf, enc, f"{F}: there is no axis enc-time[?].\n  Did you mean time[?]?"),
        (
            btf,
            Dim(7, name="feature"),
            f"{F}: there is no axis feature(7).\n  A dim of the tensor is named 'feature' too, but it is another one.",
        ),
        (
            four,
            "stag:time",
            f"{B}: the axis 'stag:time' is ambiguous, it could be time[?], enc-time[?].\n  Give the dim itself.",
        ),
        (btf, 1.5, f"{F}: an axis is described by a text or a dim, not by 1.5."),
        (btf, single_step_dim, f"{F}: single-step[?] means a single step of a loop, it is no axis of a tensor."),
    ],
    ids=str,
)
def test_text_of_error(tensor: Tensor, description: Any, text: str) -> None:
    with pytest.raises(DimError) as caught:
        tensor.get_axis_from_description(description)
    assert str(caught.value) == text


def test_unknown_description_lists_what_is_possible() -> None:
    with pytest.raises(DimError, match=r"'xyzzy' does not describe an axis.\n  Possible: B, batch, T, "):
        btf.get_axes_from_description("xyzzy")


def test_axes_counted_without_batch() -> None:
    assert four.get_spatial_batch_axes() == [0, 2, 3]
    assert four.get_spatial_axes() == [0, 1, 2]
    assert four.get_feature_axes() == [3]
    assert [four.get_batch_axis(i) for i in range(4)] == [0, 2, 3, 4]
    assert [four.get_batch_axis_excluding_batch(i) for i in range(5)] == [0, None, 1, 2, 3]
    assert four.get_axes(exclude_batch=True, exclude_time=True) == [2, 3, 4]


def test_find_matching_dim_map() -> None:
    assert btf.find_matching_dim_map(tbf, [0, 1, 2]) == {0: 1, 1: 0, 2: 2}
    other = Tensor("other", [batch_dim, Dim(512, name="f", kind=Dim.Types.Feature)], "float32")
    assert btf.find_matching_dim_map(other, [1]) == {1: 2}
    with pytest.raises(DimError, match="matches none of the dims"):
        btf.find_matching_dim_map(four, [2])


def test_remaining_dims() -> None:
    assert four.remaining_dims([time, enc]) == [batch_dim, width, feature]
    assert btf.remaining_dims(time) == [batch_dim, feature]
    assert btf.remaining_dims() == [batch_dim, time, feature]


def test_have_dim_tag_looks_at_what_lengths_and_labels_depend_on() -> None:
    assert btf.have_dim_tag(time, unique=True)
    assert sparse.have_dim_tag(feature)
    assert not sparse.have_dim_tag(feature, include_implicit=False)


def test_a_dim_with_lengths_whose_kind_is_not_said_is_time_where_no_other_is():
    unsaid, other = Dim(None, name="unsaid"), Dim(3, name="other")
    assert Tensor("x", [batch_dim, other, unsaid], "float32").time_dim_axis == 2
    assert Tensor("x", [batch_dim, unsaid, time], "float32").time_dim_axis == 2
    heads = Dim(2, name="heads", kind=Dim.Types.Spatial)  # without lengths
    assert Tensor("x", [batch_dim, heads, unsaid], "float32").time_dim_axis == 2
    assert Tensor("x", [batch_dim, heads, other], "float32").time_dim_axis == 1
    assert Tensor("x", [batch_dim, other], "float32").time_dim_axis is None


def test_vocabulary_by_its_options():
    labels = Dim(2, name="labels", kind=Dim.Types.Feature)
    options = {"class": "CharacterTargets", "labels": ["a", "b"], "unknown_label": None}
    tensor = Tensor("labels", [batch_dim, time], "int32", sparse_dim=labels, vocab=options)
    assert tensor.vocab.get_seq("ba") == [1, 0]
    assert labels.vocab is tensor.vocab
