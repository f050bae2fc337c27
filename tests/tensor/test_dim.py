"""Single dims: options, copies, equality and its looser forms, names of old configs."""

from __future__ import annotations

import copy
from typing import Any

import numpy
import pytest

import returnn.frontend  # noqa: F401 - lengths are computed with its operations
from returnn.tensor import Dim, Tensor, batch_dim, single_step_dim
from returnn.util.errors import ConfigError, DimError

SPATIAL, FEATURE = Dim.Types.Spatial, Dim.Types.Feature


def _dynamic(name: str, lengths: list[int] | None = None, **options: Any) -> Dim:
    raw = None if lengths is None else numpy.array(lengths, "int32")
    ext = None if lengths is None else Tensor("lengths", [batch_dim], "int32", raw_tensor=raw)
    return Dim(None, name=name, kind=SPATIAL, dyn_size_ext=ext, **options)


def test_equal_is_the_same_object_or_declared_or_a_number() -> None:
    assert Dim(5, name="a") != Dim(5, name="a")
    assert Dim(5, name="a", auto_generated=True) == Dim(5, name="b", auto_generated=True)
    assert Dim(5, name="a", auto_generated=True, kind=FEATURE) != Dim(5, name="a", auto_generated=True)
    assert Dim(5, name="a", auto_generated=True) != Dim(5, name="a")
    assert batch_dim != 5
    dim = Dim(5, name="a")
    assert copy.copy(dim) is dim
    assert copy.deepcopy(dim) is dim


def test_unknown_option_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"dim 'a': there is no option 'match_prio'.\n  Did you mean 'match_priority'\?"
    ):
        Dim(5, name="a", match_prio=1)  # type: ignore[call-arg]


def test_size_can_be_a_tensor_with_lengths() -> None:
    batch_dim.dyn_size_ext = None  # of other tests
    dim = Dim(Tensor("lengths", [batch_dim], "int32", raw_tensor=numpy.array([3, 2], "int32")), name="time")
    assert (dim.size, dim.dyn_size.tolist()) == (None, [3, 2])
    assert Dim(numpy.int64(4), name="four").size == 4  # type: ignore[arg-type]
    assert Dim(None, name="raw", dyn_size=numpy.array([1, 2], "int32")).dyn_size_ext.dims == (batch_dim,)


def test_copies() -> None:
    dim = Dim(5, name="a", kind=FEATURE, vocab="labels")
    assert dim.copy() is dim
    other = dim.copy(match_priority=1)
    assert (other == dim, other is dim, other.match_priority, other.vocab) == (True, False, 1, "labels")
    apart = dim.copy(same_as_self=False, description="b", kind=SPATIAL)
    assert (apart == dim, apart.name, apart.size, apart.kind) == (False, "b", 5, SPATIAL)
    time = _dynamic("time", [3, 1])
    assert time.copy(same_as_self=False).dyn_size_ext is time.dyn_size_ext


FIVE, FIVE_TOO, SIX = (Dim(n, name=f"f{i}", kind=FEATURE) for i, n in enumerate((5, 5, 6)))
SPATIAL_FIVE, SPATIAL_FIVE_TOO, ONE = (Dim(n, name=f"s{i}", kind=SPATIAL) for i, n in enumerate((5, 5, 1)))
TIME, OTHER_TIME, UNKNOWN = _dynamic("time", [3, 1]), _dynamic("other", [2, 2]), _dynamic("unknown")
UNDEFINED = Dim(None, name="undefined", undefined=True)
DERIVED = TIME // 2


@pytest.mark.parametrize(
    ("a", "b", "options", "expected"),
    [
        (FIVE, FIVE_TOO, {}, False),
        (FIVE, FIVE_TOO, {"allow_same_feature_dim": True}, True),
        (FIVE, SIX, {"allow_same_feature_dim": True}, False),
        (FIVE, SIX, {"ignore_feature_dim": True}, True),
        (FIVE, SPATIAL_FIVE, {"allow_same_feature_dim": True}, False),
        (FIVE, SPATIAL_FIVE, {"allow_same_feature_dim": True, "treat_feature_as_spatial": True}, True),
        (SPATIAL_FIVE, SPATIAL_FIVE_TOO, {"allow_same_spatial_dim": True}, True),
        (SPATIAL_FIVE, SPATIAL_FIVE_TOO, {"allow_same_feature_dim": True}, True),
        (SPATIAL_FIVE, SPATIAL_FIVE_TOO, {"allow_same_feature_dim": True, "allow_same_spatial_dim": False}, False),
        (TIME, ONE, {"broadcast_matches": True}, True),
        (TIME, SPATIAL_FIVE, {"broadcast_matches": True}, False),
        (TIME, OTHER_TIME, {"unknown_spatial_matches": True}, False),
        (TIME, UNKNOWN, {"unknown_spatial_matches": True}, True),
        (TIME, UNKNOWN, {"allow_old_behavior": True}, True),
        (TIME, UNDEFINED, {"undefined_matches": True}, True),
        (TIME, OTHER_TIME, {"undefined_matches": True}, False),
        (TIME, DERIVED, {"derived_matches": True}, True),
        (OTHER_TIME, DERIVED, {"derived_matches": True}, False),
        (single_step_dim, TIME, {"unknown_spatial_matches": True, "undefined_matches": True}, False),
        (single_step_dim, single_step_dim, {}, True),
    ],
)
def test_is_equal_with_options(a: Dim, b: Dim, options: dict[str, bool], expected: bool) -> None:
    assert a.is_equal(b, **options) is expected
    assert b.is_equal(a, **options) is expected


def test_collections_of_dims() -> None:
    same = {"allow_same_feature_dim": True}
    assert Dim.get_existing_tag_from_collection(FIVE, [SIX, FIVE_TOO], same) is FIVE_TOO
    assert Dim.get_existing_tag_from_collection(FIVE, [FIVE_TOO, FIVE], same) is FIVE
    assert Dim.get_existing_tag_from_collection(FIVE, [SIX]) is None
    assert Dim.get_uniq_collection([FIVE, FIVE_TOO, SIX], same) == [FIVE, SIX]
    x, y = Tensor("x", [FIVE, SIX], "float32"), Tensor("y", [SIX, FIVE_TOO], "float32")
    dims, of_tensor = Dim.get_all_dimension_tags([x, y], same)
    assert dims == [FIVE, SIX]
    assert of_tensor[y] == [SIX, FIVE]


def test_dims_have_an_order_for_sorting() -> None:
    assert sorted([SIX, FIVE_TOO, FIVE]) == [FIVE, FIVE_TOO, SIX]
    assert FIVE < SIX
    assert FIVE >= FIVE
    assert SIX > FIVE


def test_where_a_dim_comes_from() -> None:
    derived = (TIME + 1) // 2
    assert derived.is_derived()
    assert not TIME.is_derived()
    assert TIME in derived.get_derived_bases_set()
    assert derived.get_same_derived_base() is TIME
    assert TIME.derived_from_op is None
    assert derived.derived_from_op == derived.expression
    new = _dynamic("new")
    new.derive_from(TIME)
    assert new.derived_from_tag is TIME
    assert new.dyn_size_ext.dims == (batch_dim,)


def test_kinds_and_properties() -> None:
    assert (FIVE.is_feature_dim(), TIME.is_spatial_dim(), batch_dim.is_batch_dim()) == (True, True, True)
    assert (FIVE.is_static(), TIME.is_dynamic(), TIME.is_dynamic_seq_length()) == (True, True, True)
    assert not batch_dim.is_dynamic_seq_length()
    assert not single_step_dim.can_be_used_as_dim()
    assert Dim(5, name="5", auto_generated=True).is_constant_static_dim()
    assert not FIVE.is_constant_static_dim()
    assert FIVE.dimension == 5
    assert FIVE.description == "f0"


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (FIVE, "f0(5)"),
        (TIME, "time[B]"),
        (UNKNOWN, "unknown[?]"),
        (batch_dim, "batch"),
        (FIVE.copy(match_priority=2), "f0(5)!2"),
        (TIME * 2 + 1, "2*time+1"),
        (Dim(7, name="7"), "7"),
    ],
)
def test_names_for_people(dim: Dim, text: str) -> None:
    assert str(dim) == text
    assert repr(dim) == f"Dim{{{text}}}"


def test_state_for_workflow_manager_is_plain() -> None:
    assert FIVE.__sis_state__() == {"dimension": 5, "name": "f0", "kind": "feature"}
    assert Dim(None, name="x").__sis_state__()["kind"] is None


def test_old_names_of_lengths() -> None:
    time = _dynamic("time", [3, 1])
    assert time.get_for_batch_ctx(None, None) is time
    assert time.get_dyn_size_ext_for_batch_ctx(None, None).raw_tensor.tolist() == [3, 1]
    assert time.get_dyn_size_ext_for_batch_ctx(None, None, template_only=True).raw_tensor is None
    assert time.is_dim_known_in_batch_ctx(None, None)
    time.transform_tensors(lambda lengths: lengths + 1)
    assert time.dyn_size.tolist() == [4, 2]
    other = _dynamic("other")
    other.copy_from(time)
    assert other.dyn_size.tolist() == [4, 2]
    time.complete_dyn_size()
    time.reset_eager()
    assert time.dyn_size is None
    time.set_dyn_size_ext_for_batch_ctx(None, None, other.dyn_size_ext)
    assert time.dyn_size.tolist() == [4, 2]
    assert not _dynamic("unknown").is_dim_known()


def test_a_dim_without_lengths_says_so() -> None:
    for ask in (Dim.get_dim_value, Dim.get_size_tensor, Dim.get_mask, Dim.get_dim_value_tensor):
        with pytest.raises(DimError) as caught:
            ask(UNKNOWN)
        assert str(caught.value) == (
            "dim unknown[?]: its lengths are not known.\n"
            "  Give them (dim.dyn_size_ext = lengths), or use the dim of a tensor that has them."
        )


def test_a_batch_without_a_run_says_how_it_gets_its_number_of_sequences() -> None:
    batch_dim.dyn_size_ext = None
    with pytest.raises(DimError) as caught:
        batch_dim.get_dim_value()
    assert str(caught.value) == (
        "dim batch: its lengths are not known.\n"
        "  A run says for each batch how many sequences it has. Without one: batch_dim.dyn_size_ext = "
        "rf.convert_to_tensor(2)."
    )


def test_dims_stay_keys_when_they_are_declared_to_be_the_same() -> None:
    a, b = Dim(None, name="a"), Dim(None, name="b")
    values = {a: "a", a // 2: "half", batch_dim: "batch"}
    a.declare_same_as(b)
    assert values[a] == values[b] == "a"
    assert values[b // 2] == "half"
    assert {a, b} == {a} == {b}
