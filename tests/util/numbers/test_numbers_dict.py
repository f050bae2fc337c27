from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.util.numbers.numbers_dict import NumbersDict

KEYS = ["data", "classes", "x"]
numbers = st.integers(-5, 5)
numbers_dicts = st.builds(
    lambda items, value: NumbersDict(items, broadcast_value=value),
    st.dictionaries(st.sampled_from(KEYS), numbers),
    st.none() | numbers,
)


@given(numbers_dicts, numbers_dicts)
def test_sum_is_per_key(a, b):
    total = a + b
    for key in {*a, *b}:
        assert total[key] == (a.get(key) or 0) + (b.get(key) or 0)


@given(numbers_dicts, numbers_dicts)
def test_adding_and_subtracting_keeps_the_numbers(a, b):
    result = (a + b) - b
    assert all(result[key] == number for key, number in a.items())


@given(numbers_dicts, numbers_dicts)
def test_max_and_min_are_bounds(a, b):
    high, low = NumbersDict.max([a, b]), NumbersDict.min([a, b])
    for key in {*a, *b}:
        assert low[key] <= high[key]
        assert {low[key], high[key]} <= {a.get(key), b.get(key)}


@given(numbers_dicts)
def test_equality_and_copy(a):
    copy = a.copy()
    assert copy == a
    copy["y"] = 17
    assert "y" not in a
    assert copy != a


@given(numbers_dicts, numbers)
def test_a_number_counts_for_all_keys(a, number):
    result = a * number
    assert all(result[key] == a[key] * number for key in a)


def test_common_value_stands_for_all_other_keys():
    a = NumbersDict({"classes": 5}, broadcast_value=0)
    assert a["classes"] == 5
    assert a["anything"] == 0
    assert a.keys_set == {"classes"}
    assert a.has_value_for("x")
    with pytest.raises(KeyError):
        NumbersDict({"classes": 5})["x"]


def test_in_place_operators_change_the_object():
    a = b = NumbersDict({"data": 6})
    a += 1
    a -= {"data": 3}
    a *= 4
    a //= 3
    assert b.dict["data"] == 5


def test_comparison_of_any_key():
    a = NumbersDict({"data": 3, "classes": 10})
    assert a.any_compare(9, lambda x, y: x > y)
    assert not a.any_compare({"data": 3}, lambda x, y: x > y)
    assert not a.any_compare(NumbersDict(), lambda x, y: True)


def test_there_is_no_order():
    with pytest.raises(TypeError, match="have no order"):
        NumbersDict(1).__cmp__(NumbersDict(2))


def test_constant_like_and_copy_like():
    a = NumbersDict({"data": 3, "classes": 10})
    assert NumbersDict.constant_like(2, a) == NumbersDict({"data": 2, "classes": 2})
    assert NumbersDict(7).copy_like(a) == NumbersDict({"data": 7, "classes": 7})
