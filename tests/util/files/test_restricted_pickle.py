"""Pickles with plain data are read, and no other ones."""

import collections
import os
import pickle
import subprocess
import sys

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.util.files.restricted_pickle import PickleDataError, load_plain_pickle
from tests.patience import PATIENCE_S

DTYPES = ["?", "i1", "<i8", ">i4", "u2", "f2", "<f4", ">f8", "c8", "c16", "S3", "U5", ">U2"]
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class RunsCode:
    """Its pickle calls a function with arguments."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def load(value, protocol=pickle.HIGHEST_PROTOCOL):
    return load_plain_pickle(pickle.dumps(value, protocol=protocol), where="file 'x.pkl'")


def plain():
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
    keys = st.text() | st.integers() | st.tuples(st.text(), st.integers())
    return st.recursive(leaves, lambda x: st.lists(x) | st.dictionaries(keys, x) | st.tuples(x, x) | st.sets(st.text()))


@given(plain(), st.sampled_from(PROTOCOLS))
def test_plain_data_is_as_it_was(value, protocol):
    assert load(value, protocol) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_is_as_it_was(dtype, protocol):
    rng = numpy.random.default_rng(1)
    array = rng.integers(0, 9, (2, 3, 4)).astype(dtype)
    values = [array, array[0, 0, 0], array.dtype, array[:, 1], numpy.asfortranarray(array), array[:0], array[0, 0, :1]]
    for value, read in zip(values, load(values, protocol), strict=True):
        assert type(value) is type(read)
        assert getattr(value, "dtype", None) == getattr(read, "dtype", None)
        assert numpy.array_equal(value, read)


def test_shared_and_old_containers():
    part = [1, numpy.float32(2.0)]
    assert load({"a": part, "b": (part, part)}) == {"a": part, "b": (part, part)}
    assert load(collections.OrderedDict(a=1), 2) == {"a": 1}
    assert load(bytearray(b"x"), 2) == bytearray(b"x")
    huge = []
    for _ in range(100):  # 2 to the power of 100 entries, if it was copied
        huge = [huge, huge]
    assert len(load(huge)) == 2


FORGED = {
    "function": (RunsCode(os.system, "touch planted"), "it contains an object of posix.system"),
    "eval": (RunsCode(eval, "1"), "it contains an object of builtins.eval"),
    "getattr": (RunsCode(getattr, "", "join"), "it contains an object of builtins.getattr"),
    "object": (collections.Counter("a"), "it contains an object of collections.Counter"),
    "object array": (numpy.array([1, "a"], dtype=object), "the dtype 'O8', which holds neither numbers nor text"),
    "fields": (numpy.zeros(2, "i4,f4"), "the dtype 'V8', which holds neither numbers nor text"),
    "memory": (RunsCode(bytearray, 10**15), "it contains damaged bytes"),
}


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("name", FORGED)
def test_anything_else_is_refused(name, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    value, reason = FORGED[name]
    with pytest.raises(PickleDataError) as info:
        load([value], protocol)
    assert str(info.value).startswith("file 'x.pkl': it is no pickle of plain data: ")
    assert reason in str(info.value).replace("__builtin__", "builtins")
    assert not os.listdir(tmp_path)


def test_forged_numpy_dtype():
    """The real class of numpy takes this, and crashes the process when the array is used."""
    good = pickle.dumps(numpy.zeros(3, "<f8"), protocol=2)
    for state in [(3, "<", None, None, None, 8, 2**40, 0), (3, "<", (1, 2), None, None, -1, -1, 0), (3, "x"), (), 3]:
        forged = numpy.dtype("f8").__reduce__()
        content = pickle.dumps(RunsState(forged[0], forged[1], state), protocol=2)
        try:
            read = load_plain_pickle(content, where="x")
        except PickleDataError:
            continue
        assert read == numpy.dtype("f8")
    assert load_plain_pickle(good, where="x").tolist() == [0.0, 0.0, 0.0]


class RunsState:
    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


def test_array_that_is_larger_than_its_bytes():
    function, args, state = numpy.zeros(3).__reduce__()
    for shape in [(10**9,), (-1,), (3, "a"), (2**62, 4), 7]:
        with pytest.raises(PickleDataError):
            load(RunsState(function, args, (state[0], shape, *state[2:])), 2)


def test_list_that_contains_itself():
    value = [1]
    value.append(value)
    with pytest.raises(PickleDataError, match="it contains a list or dict that contains itself"):
        load(value)


FUZZ = """
import pickle, random, sys
import numpy
from returnn.util.files.restricted_pickle import PickleDataError, load_plain_pickle
values = {"a": [1, 2.5, "x"], 3: numpy.arange(6).reshape(2, 3), "d": numpy.float32(1), "s": {1}}
values["t"] = numpy.dtype(">U3")
rng = random.Random(1)
num_refused = 0
for i in range(2000):
    content = bytearray(pickle.dumps(values, protocol=i % 6))
    for _ in range(rng.randint(1, 4)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    try:
        repr(load_plain_pickle(bytes(content), where="x"))
    except PickleDataError:
        num_refused += 1
print(num_refused)
"""


def test_damaged_pickles_neither_crash_nor_raise_other_errors():
    root = os.path.abspath(__file__).rpartition("/tests/")[0]
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FUZZ],
        cwd=root,
        timeout=PATIENCE_S,
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert 500 < int(result.stdout) < 2000
