import collections
import itertools
import pickle
from io import BytesIO

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.compat.util.collect_outputs_dict import CollectOutputsDict, is_key_allowed_in_collect_outputs_dict
from returnn.util.basic import (
    CollectionReadCheckCovered,
    DictAsObj,
    DictRefKeys,
    Entity,
    FrozenDict,
    InfiniteRecursionDetected,
    ObjAsDict,
    RefIdEq,
    attr_chain,
    binary_search_any,
    collect_class_init_kwargs,
    collect_mandatory_class_init_kwargs,
    deep_update_dict_values,
    deepcopy,
    dict_joined,
    dict_zip,
    ensure_list_of_type,
    find_ranges,
    guard_infinite_recursion,
    help_on_type_error_wrong_args,
    make_hashable,
    make_seq_of_type,
    obj_diff_str,
    prod,
    read_pickled_object,
    simple_obj_repr,
    sorted_values_from_dict,
    to_bool,
    try_run,
    type_attrib_mro_chain,
    uniq,
    uniq_generic,
    write_pickled_object,
)
from returnn.util.errors import ConfigError

Point = collections.namedtuple("Point", ["x", "y"])
constant = Entity("a constant", global_base=globals(), global_name="constant")


def test_nested():
    obj = object()
    value = {"a": [1, (obj, Point(1, [2]))], "b": {3}}
    copied = deepcopy(value)
    assert copied == value
    assert copied["a"] is not value["a"]
    assert copied["a"][1][0] is obj
    assert deepcopy(value, stop_types=[list])["a"] is value["a"]
    assert hash(make_hashable({"a": [1, {2}]})) == hash(make_hashable({"a": [1, {2}]}))
    with pytest.raises(TypeError):
        make_hashable([bytearray()])
    assert make_seq_of_type(Point, [1, 2]) == Point(1, 2)
    d = {"x": 1, "sub": {"x": 2, "y": 3}}
    deep_update_dict_values(d, "x", 0)
    assert d == {"x": 0, "sub": {"x": 0, "y": 3}}


def test_sequences():
    assert prod([]) == 1
    assert prod([2, 3]) == 6
    assert list(uniq(numpy.array([1, 1, 2, 2, 1]))) == uniq_generic([1, 1, 2, 2, 1]) == [1, 2, 1]
    assert len(uniq([])) == 0
    assert dict_zip("ab", [1, 2]) == {"a": 1, "b": 2}
    assert dict_joined({"a": 1}, {"a": 2}) == {"a": 2}
    assert sorted_values_from_dict({2: "b", 1: "a"}) == ["a", "b"]
    with pytest.raises(ConfigError, match=r"expected a list of int, but there is 'a'\."):
        ensure_list_of_type([1, "a"], int)


@given(st.sets(st.integers(0, 30)))
def test_ranges_have_the_same_numbers(numbers):
    ranges = find_ranges(sorted(numbers))
    assert sorted(numbers) == [number for start, end in ranges for number in range(start, end)]
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))


@given(st.sets(st.integers(0, 100)), st.integers(0, 100))
def test_binary_search(numbers, wanted):
    ls = sorted(numbers)
    index = binary_search_any(lambda i: ls[i] - wanted, 0, len(ls))
    assert index == (ls.index(wanted) if wanted in ls else None)


def test_dict_classes():
    assert DictAsObj({"a": 1}).a == 1
    assert dict(ObjAsDict(DictAsObj({"a": 1}))) == {"a": 1}
    with pytest.raises(KeyError):
        ObjAsDict(object())["a"]
    frozen = FrozenDict(a=1)
    assert {frozen: 2}[FrozenDict(a=1)] == 2
    with pytest.raises(TypeError, match="FrozenDict cannot be changed"):
        frozen["a"] = 2
    key, other = [], []
    refs = DictRefKeys([(key, 1)])
    refs[other] = 2
    assert refs[key] == 1
    assert [] not in refs
    assert refs.values() == [1, 2]
    assert RefIdEq(key) != RefIdEq(other)


def test_options_that_nobody_reads():
    opts = CollectionReadCheckCovered.from_bool_or_dict({"size": 1, "szie": 2})
    assert opts
    assert opts["size"] == 1
    with pytest.raises(ConfigError, match=r"there is no option 'szie'\.\n  Did you mean 'size'\?"):
        opts.assert_all_read()
    assert opts.get("szie") == 2
    opts.assert_all_read()
    assert not CollectionReadCheckCovered.from_bool_or_dict(False)
    assert CollectionReadCheckCovered.from_bool_or_dict(True)


def test_collect_outputs():
    outputs = CollectOutputsDict({"layer_1": 1, "other": 2}, allowed_key_patterns=["layer_*"])
    outputs["x"] = 3
    assert outputs == {"layer_1": 1}
    assert outputs.setdefault("layer_2", 5) == outputs["layer_2"] == 5
    assert is_key_allowed_in_collect_outputs_dict({}, "x")
    assert not is_key_allowed_in_collect_outputs_dict(outputs, "x")
    assert not is_key_allowed_in_collect_outputs_dict(None, "x")


def test_entity_is_one_object():
    assert pickle.loads(pickle.dumps(constant)) is constant
    assert repr(constant) == "<a constant>"
    with pytest.raises(TypeError, match="cannot pickle <x>"):
        pickle.dumps(Entity("x"))


def test_recursion_guard():
    def visit(*objs):
        if objs:
            with guard_infinite_recursion(visit, objs[0]):
                visit(*objs[1:])

    a, b = object(), object()
    visit(a, b)
    visit(a)
    with pytest.raises(InfiniteRecursionDetected):
        visit(a, b, a)


class _Base:
    name = "base"

    def __init__(self, a, b=2):
        self.a, self.b = a, b


class _Derived(_Base):
    name = "derived"

    def __init__(self, c, *, d=4, **kwargs):
        super().__init__(**kwargs)
        self.c, self.d = c, d


def test_introspection():
    assert collect_class_init_kwargs(_Derived) == ["c", "d", "a", "b"]
    assert collect_class_init_kwargs(_Derived, only_with_default=True) == {"d": 4, "b": 2}
    assert collect_mandatory_class_init_kwargs(_Derived) == ["c", "a"]
    assert help_on_type_error_wrong_args(_Derived, ["c", "x"]) == "Missing: a. Unknown: x."
    assert simple_obj_repr(_Base(1)) == "_Base(a=1, b=2)"
    assert type_attrib_mro_chain(_Derived, "name") == ["derived", "base"]
    assert attr_chain(_Base(_Base(3)), "a.a") == 3
    assert try_run(int, ["x"], default=5) == 5
    assert obj_diff_str({"a": [1, _Base(1)]}, {"a": [1, _Base(2)]}) == "self['a'][1].a: 1 != 2"
    assert obj_diff_str({"a": 1}, {}) == "self['a']: is only in one"
    assert obj_diff_str(1, 1) == "No diff."
    assert obj_diff_str({"a": 1}, {}, name="mine") == "mine['a']: is only in one"


def test_pickled_objects_in_a_pipe():
    stream = BytesIO()
    for value in (1, {"a": [2]}):
        write_pickled_object(stream, value)
    stream.seek(0)
    assert read_pickled_object(stream) == 1
    assert read_pickled_object(stream) == {"a": [2]}
    with pytest.raises(EOFError, match="expected 4 bytes, got 0"):
        read_pickled_object(stream)


def test_truth_values():
    for value in ("True", "yes", "1", 1, True, "on"):
        assert to_bool(value) is True
    for value in ("False", "no", "0", 0, False, "off", "None"):
        assert to_bool(value) is False
    with pytest.raises(ValueError, match="'perhaps' is no truth value"):
        to_bool("perhaps")
