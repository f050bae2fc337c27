"""Dim arithmetic against a brute-force model: random expressions, evaluated on random lengths."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import returnn.frontend  # noqa: F401 - lengths are computed with its operations
from returnn.tensor import Dim, Tensor, batch_dim, dim_math, single_step_dim
from returnn.util.errors import DimError

LENGTHS = ([1, 2, 3, 5], [4, 1, 7, 2], [6, 6, 2, 1])
ATOMS = tuple(
    Dim(Tensor(f"{name}:lengths", [batch_dim], "int32", raw_tensor=numpy.array(lengths, "int32")), name=name)
    for name, lengths in zip("abc", LENGTHS, strict=True)
)
STATIC = Dim(3, name="static")
NUM_SEQS = len(LENGTHS[0])

few = settings(derandomize=True, max_examples=200, deadline=None, database=None)


@dataclass(frozen=True)
class Example:
    """A dim, and its size for each sequence as computed with plain numbers."""

    dim: Any  # Dim or int
    sizes: tuple[int, ...]


def _leaves() -> st.SearchStrategy[Example]:
    numbers = st.integers(0, 5).map(lambda n: Example(n, (n,) * NUM_SEQS))
    atoms = st.sampled_from([Example(d, tuple(n)) for d, n in zip(ATOMS, LENGTHS, strict=True)])
    return st.one_of(numbers, atoms, atoms, st.just(Example(STATIC, (3,) * NUM_SEQS)))


OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "floordiv": (lambda a, b: a // b, lambda a, b: a // b),
    "ceildiv": (lambda a, b: a.ceildiv_right(b), lambda a, b: -(-a // b)),
}


@st.composite
def _combined(draw: Any, operands: st.SearchStrategy[Example], operations: tuple[str, ...] = ()) -> Example:
    operation = draw(st.sampled_from(operations or list(OPERATIONS)))
    a, b = draw(operands), draw(operands)
    assume(isinstance(a.dim, Dim) or (isinstance(b.dim, Dim) and operation in ("add", "mul")))
    on_dims, on_numbers = OPERATIONS[operation]
    if operation in ("floordiv", "ceildiv"):
        assume(all(n > 0 for n in b.sizes))
    sizes = tuple(on_numbers(x, y) for x, y in zip(a.sizes, b.sizes, strict=True))
    assume(all(n >= 0 for n in sizes))  # there are no negative lengths
    return Example(on_dims(a.dim, b.dim), sizes)


examples = st.recursive(_leaves(), _combined, max_leaves=6)
dims = examples.filter(lambda x: isinstance(x.dim, Dim))
sums = st.recursive(_leaves(), lambda x: _combined(x, ("add",)), max_leaves=6).filter(lambda x: isinstance(x.dim, Dim))
products = st.recursive(_leaves(), lambda x: _combined(x, ("mul",)), max_leaves=4).filter(
    lambda x: isinstance(x.dim, Dim)
)


def sizes_of(dim: Dim) -> tuple[int, ...]:
    lengths = dim.get_size_tensor()
    return tuple(int(n) for n in numpy.broadcast_to(lengths.raw_tensor, [NUM_SEQS]))


@few
@given(dims)
def test_lengths_are_those_of_the_expression(example: Example) -> None:
    assert sizes_of(example.dim) == example.sizes
    if example.dim.size is not None:
        assert set(example.sizes) == {example.dim.size}


@few
@given(dims, dims)
def test_equal_dims_have_equal_lengths(a: Example, b: Example) -> None:
    if a.dim == b.dim:
        assert a.sizes == b.sizes
        assert hash(a.dim) == hash(b.dim)


@few
@given(dims)
def test_substituting_dims_by_themselves_changes_nothing(example: Example) -> None:
    expression = example.dim.expression
    assert dim_math.substitute(expression, lambda dim: None) == expression


@few
@given(dims, sums)
def test_adding_and_subtracting_is_identity(a: Example, b: Example) -> None:
    assert (a.dim + b.dim) - b.dim == a.dim


@few
@given(sums, sums)
def test_adding_and_subtracting_at_the_left_is_identity(a: Example, b: Example) -> None:
    assert (a.dim + b.dim).sub_left(a.dim) == b.dim


@pytest.mark.parametrize("a", ATOMS)
@pytest.mark.parametrize("b", [*ATOMS, STATIC, 2])
def test_subtracting_and_adding_is_identity(a: Dim, b: Dim | int) -> None:
    assert (a - b) + b == a


@few
@given(sums, sums, sums)
def test_sums_are_associative(a: Example, b: Example, c: Example) -> None:
    assert (a.dim + b.dim) + c.dim == a.dim + (b.dim + c.dim)


@few
@given(products, products, products)
def test_products_are_associative(a: Example, b: Example, c: Example) -> None:
    assert (a.dim * b.dim) * c.dim == a.dim * (b.dim * c.dim)


@few
@given(sums, st.integers(1, 6), st.integers(1, 6))
def test_divisions_by_numbers_have_one_form(example: Example, n: int, m: int) -> None:
    x = example.dim
    assert (x // n) // m == x // (n * m)
    assert x.ceildiv_right(n).ceildiv_right(m) == x.ceildiv_right(n * m)
    assert x.ceildiv_right(n) == (x + (n - 1)) // n
    assert (x * n) // n == x
    assert (x * n).div_right(n) == x
    assert x.div_right(n) * n == x
    assert (x + n) // n == x // n + 1


@few
@given(dims, st.integers(0, 4))
def test_numbers_commute_with_dims_in_products(example: Example, n: int) -> None:
    assert example.dim * n == n * example.dim


@few
@given(dims)
def test_the_same_expression_is_the_same_object(example: Example) -> None:
    assert example.dim + 1 is example.dim + 1
    assert (example.dim * 2) // 3 is (example.dim * 2) // 3


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda a, b: (a + b) - b, lambda a, b: a),
        (lambda a, b: a + 0, lambda a, b: a),
        (lambda a, b: a * 1, lambda a, b: a),
        (lambda a, b: 2 * a, lambda a, b: a + a),
        (lambda a, b: (a // 2) // 3, lambda a, b: a // 6),
        (lambda a, b: (2 * a) // 2, lambda a, b: a),
        (lambda a, b: (4 * a + 2) // 2, lambda a, b: 2 * a + 1),
        (lambda a, b: a.ceildiv_right(3), lambda a, b: (a + 2) // 3),
        (lambda a, b: (a * b).div_right(b), lambda a, b: a),
        (lambda a, b: (a * b).div_left(a), lambda a, b: b),
        (lambda a, b: (a * b) // b, lambda a, b: a),
        (lambda a, b: 1 + a - 1, lambda a, b: a),
        (lambda a, b: 1 + a + 1 - 2, lambda a, b: a),
        (lambda a, b: (a - 3) + 3, lambda a, b: a),
        (lambda a, b: (1 + a + b).sub_left(1 + a), lambda a, b: b),
        (lambda a, b: a - (b + 1), lambda a, b: a - b - 1),
        (lambda a, b: (a + 3 - 3) * 2, lambda a, b: a * 2),
        (lambda a, b: (a - 1) + 1, lambda a, b: a),
        (lambda a, b: (-a).__neg__(), lambda a, b: a),
        (lambda a, b: (a + b) * 2, lambda a, b: a * 2 + b * 2),
    ],
)
def test_documented_identities(left: Callable[[Dim, Dim], Dim], right: Callable[[Dim, Dim], Dim]) -> None:
    a, b = ATOMS[:2]
    assert left(a, b) == right(a, b)
    assert hash(left(a, b)) == hash(right(a, b))


@pytest.mark.parametrize(
    "pair",
    [
        lambda a, b: (a + b, b + a),  # the frames are in another order
        lambda a, b: (a * b, b * a),  # the other dim is the outer one
        lambda a, b: (a + 1, 1 + a),
        lambda a, b: (a, b),
        lambda a, b: ((a // 2) * 2, a),
        lambda a, b: (a // 2, a.ceildiv_right(2)),
    ],
)
def test_different_expressions_are_different_dims(pair: Callable[[Dim, Dim], tuple[Dim, Dim]]) -> None:
    left, right = pair(*ATOMS[:2])
    assert left != right


def test_static_dims_have_the_size_at_once() -> None:
    a, b = Dim(5, name="a"), Dim(7, name="b")
    assert ((a + b) * 2 - 1).size == 23
    assert (a * b).size == 35
    assert (b // 2).size == 3
    assert b.ceildiv_right(2).size == 4


def test_arithmetic_on_dims_made_from_numbers_gives_such_dims() -> None:
    four = Dim(4, name="four", auto_generated=True)
    assert four + 1 == Dim(5, name="five", auto_generated=True)
    assert Dim(4, name="x") + 1 != Dim(5, name="five", auto_generated=True)


def test_kinds_of_results() -> None:
    feature, time = Dim(5, name="f", kind=Dim.Types.Feature), Dim(None, name="t", kind=Dim.Types.Spatial)
    assert (batch_dim * time).is_batch_dim()
    assert (feature + 1).is_feature_dim()
    assert (time // 2).is_spatial_dim()


def test_lengths_are_clipped_at_zero() -> None:
    dim = ATOMS[0] - 3
    assert sizes_of(dim) == (0, 0, 0, 2)


def test_operands_are_checked() -> None:
    a = ATOMS[0]
    with pytest.raises(DimError, match="expected a dim or a number, got 'x' of type str"):
        _ = a + "x"  # type: ignore[operator]
    with pytest.raises(DimError, match="got True of type bool"):
        _ = a + True
    with pytest.raises(DimError, match=r"single-step.* is a marker, not an axis with a size"):
        _ = a + single_step_dim


def test_division_by_zero_or_less_is_an_error() -> None:
    for n in (0, -1):
        with pytest.raises(DimError, match=f"cannot be divided by {n}"):
            _ = ATOMS[0] // n
        with pytest.raises(DimError, match=f"cannot be divided by {n}"):
            ATOMS[0].ceildiv_right(n)
        with pytest.raises(DimError, match=f"cannot be divided by {n}"):
            ATOMS[0].div_right(n)


def _declared(order: int, pairs: list[tuple[Dim, Dim]]) -> None:
    for i in numpy.random.RandomState(order).permutation(len(pairs)):
        a, b = pairs[i]
        a.declare_same_as(b) if numpy.random.RandomState(order + i).randint(2) else b.declare_same_as(a)


@pytest.mark.parametrize("order", range(12))
def test_declare_same_as_in_all_orders(order: int) -> None:
    a, b, c = (Dim(None, name=name, kind=Dim.Types.Spatial) for name in "abc")
    out = a // 2 + 1
    _declared(order, [(a, b), (b, c)])
    a.dyn_size_ext = Tensor("lengths", [batch_dim], "int32", raw_tensor=numpy.array([3, 4], "int32"))
    assert a == b == c
    assert len({a, b, c}) == 1
    assert out == b // 2 + 1 == c // 2 + 1
    assert hash(out) == hash(c // 2 + 1)
    for dim in (a, b, c):
        assert dim.dyn_size.tolist() == [3, 4]
        assert (dim // 2 + 1).dyn_size.tolist() == [2, 3]


@pytest.mark.parametrize("order", range(6))
def test_declare_a_dim_the_same_as_an_expression(order: int) -> None:
    time, out = Dim(None, name="time", kind=Dim.Types.Spatial), Dim(None, name="out")
    _declared(order, [(out, time.ceildiv_right(2))])
    time.dyn_size_ext = Tensor("lengths", [batch_dim], "int32", raw_tensor=numpy.array([3, 4], "int32"))
    assert out == time.ceildiv_right(2)
    assert out.is_spatial_dim()
    assert out.dyn_size.tolist() == [2, 2]
    assert (out + 1) == (time + 1) // 2 + 1


@pytest.mark.parametrize("is_first", [True, False])
def test_declare_a_dynamic_dim_the_same_as_a_static_one(is_first: bool) -> None:
    dynamic, static = Dim(None, name="dynamic"), Dim(7, name="static")
    (dynamic.declare_same_as(static) if is_first else static.declare_same_as(dynamic))
    assert dynamic == static
    assert dynamic.get_dim_value() == 7
    assert (dynamic + 1).size == 8
    assert dynamic.get_size_tensor().raw_tensor == 7


@pytest.mark.parametrize("is_first", [True, False])
def test_lengths_survive_declare_same_as(is_first: bool) -> None:
    known = Dim(Tensor("l", [batch_dim], "int32", raw_tensor=numpy.array([3, 4], "int32")), name="known")
    other = Dim(None, name="other")
    (known.declare_same_as(other) if is_first else other.declare_same_as(known))
    for dim in (known, other):
        assert dim.dyn_size.tolist() == [3, 4]
        assert dim.get_dim_value() == 4
        assert dim.get_mask().raw_tensor.sum() == 7


def test_declaring_different_sizes_the_same_is_an_error() -> None:
    with pytest.raises(DimError, match=r"dim a\(3\) cannot be the same as b\(4\): their sizes are 3 and 4"):
        Dim(3, name="a").declare_same_as(Dim(4, name="b"))


def test_a_dim_cannot_be_declared_the_same_as_something_longer_than_itself() -> None:
    time = Dim(None, name="time")
    with pytest.raises(DimError, match="time"):
        time.declare_same_as(time + 1)


def test_pickle_keeps_equality_and_markers() -> None:
    time, feature = Dim(None, name="time"), Dim(5, name="feature", kind=Dim.Types.Feature)
    half = time // 2 + 1
    new_time, new_half, new_feature, marker, batch = pickle.loads(
        pickle.dumps((time, half, feature, single_step_dim, batch_dim))
    )
    assert marker is single_step_dim
    assert batch is batch_dim
    assert new_half == new_time // 2 + 1
    assert new_half != half
    assert (new_feature.size, new_feature.kind, new_feature.name) == (5, Dim.Types.Feature, "feature")
    assert new_feature != feature


def test_pickle_in_one_go_keeps_declarations() -> None:
    a, b = Dim(None, name="a"), Dim(None, name="b")
    a.declare_same_as(b)
    new_a, new_b = pickle.loads(pickle.dumps((a, b)))
    assert new_a == new_b


def test_dims_in_sets_before_and_after_a_declaration() -> None:
    a, b = Dim(None, name="a"), Dim(None, name="b")
    a.declare_same_as(b)
    assert {a: 1}[b] == 1
    assert len({a, b, a + 1, b + 1}) == 2


def test_axis_split_info() -> None:
    time, feature = Dim(None, name="time"), Dim(5, name="feature")
    assert (batch_dim * time * feature).axis_split_info() == [batch_dim, time, feature]
    assert time.axis_split_info() == [time]


def test_names_of_expressions() -> None:
    time = Dim(None, name="time")
    assert (time // 2 + 1).short_repr() == "(time//2)+1"
    assert (2 * time - 3).short_repr() == "2*time-3"
    assert (time * Dim(5, name="f")).short_repr() == "time*f"


@pytest.mark.parametrize("is_first", [True, False])
def test_nothing_replaces_the_batch_dim(is_first: bool) -> None:
    own = Dim(3, name="own batch", kind=Dim.Types.Batch)
    (own.declare_same_as(batch_dim) if is_first else batch_dim.declare_same_as(own))
    assert own == batch_dim
    assert own.size == 3
    assert batch_dim.same_as is None
    assert batch_dim.size is None


def test_all_dims_that_are_the_same_learn_of_a_size() -> None:
    a, b, c = (Dim(None, name=name) for name in "abc")
    a.declare_same_as(b)
    b.declare_same_as(c)
    c.declare_same_as(Dim(7, name="seven", kind=Dim.Types.Feature))
    assert [(dim.size, dim.is_feature_dim(), dim.need_masking()) for dim in (a, b, c)] == [(7, True, False)] * 3


def test_what_is_declared_of_an_expression_holds_when_it_is_written_again() -> None:
    time, halved = Dim(None, name="time"), Dim(None, name="halved")
    ((time + 1) // 2).declare_same_as(halved)
    assert (time + 1) // 2 == halved
    upsampled = halved * 2
    upsampled.declare_same_as(time)
    assert ((time + 1) // 2) * 2 == time
