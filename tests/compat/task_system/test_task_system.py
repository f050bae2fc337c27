"""Functions, classes and arrays go to another process, also those which cannot be imported there."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import textwrap
from types import ModuleType

import numpy
import pytest

from returnn.util import task_system
from returnn.util.task_system import Pickler, SharedMem, SharedNumpyArray, Unpickler

READ = """
import sys
from returnn.util.task_system import Unpickler
f = Unpickler(sys.stdin.buffer).load()
print(f(5))
"""
with_shared_memory = pytest.mark.skipif(not SharedMem.is_shmget_functioning(), reason="no System V shared memory")


def pickled(obj):
    out = io.BytesIO()
    Pickler(out).dump(obj)
    return out.getvalue()


def again(obj):
    return Unpickler(io.BytesIO(pickled(obj))).load()


def functions_of_a_config():
    names = {}
    code = """
        import numpy
        from collections import OrderedDict

        factor = 3

        def scaled(x, *, plus=1):
            return factor * x + plus + int(numpy.sum([1, 2]))

        def factorial(x):
            return 1 if x <= 1 else x * factorial(x - 1)

        def closure(x):
            total = [10]

            def inner(y):
                return total[0] + x + (inner(y - 1) if y else 0)

            return inner

        class Base:
            factor = 2

        class Derived(Base):
            def __init__(self, x):
                self.x = x

            @classmethod
            def make(cls, x):
                return cls(x)

            @property
            def twice(self):
                return self.x * self.factor
        """
    exec(textwrap.dedent(code), names)
    return names


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda names: names["scaled"], 19),
        (lambda names: names["factorial"], 120),
        (lambda names: names["closure"](2), 72),
        (lambda names: names["Derived"](5).make, None),
        (lambda names: lambda x: names["Derived"].make(x).twice, 10),
    ],
)
def test_functions_of_a_config_run_in_another_process(make, expected):
    function = make(functions_of_a_config())
    command = [sys.executable, "-c", READ]
    result = subprocess.run(command, input=pickled(function), capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()
    if expected is not None:
        assert int(result.stdout) == expected


def test_what_can_be_imported_is_the_same_object_again():
    for obj in (numpy.sum, textwrap.dedent, textwrap, pickle.Pickler, vars(textwrap), int, len):
        assert again(obj) is obj
    assert again(pickle.Pickler(io.BytesIO()).dump.__name__) == "dump"


def test_modules_of_the_user_and_streams():
    module = ModuleType("my_own_module", "text")
    module.number = 4
    other = again(module)
    assert (other.__name__, other.__doc__, other.number) == ("my_own_module", "text", 4)
    assert again([sys.__stdout__, 1]) == [None, 1]


def test_arrays_and_cells():
    array = numpy.arange(6, dtype="float32").reshape(2, 3)
    numpy.testing.assert_array_equal(again(array), array)
    assert again(numpy.array([None, "a"], dtype=object)).tolist() == [None, "a"]
    assert again(task_system.makeFuncCell(3)).cell_contents == 3
    with pytest.raises(pickle.PicklingError, match="cannot be pickled"):
        pickled(Pickler(io.BytesIO()))


def test_parts_of_functions_and_objects():
    def add(x, y=2):
        return x + y

    code, names, name, defaults, closure = task_system.get_func_tuple(add)
    assert type(add)(code, names, name, defaults, closure)(1) == 3
    assert task_system.get_func_closure(add) is None
    assert task_system.attrChain(numpy, "linalg", "norm") is numpy.linalg.norm
    assert task_system.attrChain(numpy, "nothing", default=3) == 3
    with pytest.raises(AttributeError):
        task_system.attrChain(numpy, "nothing")
    assert task_system.funcCall((numpy, "linalg", "norm"), ([3.0, 4.0],)) == 5.0
    assert task_system.getModuleDict("textwrap") is vars(textwrap)
    assert task_system.getModNameForModDict(vars(textwrap)) == "textwrap"
    assert task_system.getModNameForModDict({"__name__": "textwrap"}) is None
    assert "__dict__" not in task_system.getNormalDict(vars(type("C", (), {"x": 1})))
    assert task_system.assign_obj_attribs(ModuleType("m"), {"x": 1}).x == 1
    assert [task_system.next_power_of_two(n) for n in (1, 2, 3, 8, 9)] == [1, 2, 4, 8, 16]


@with_shared_memory
def test_arrays_in_shared_memory(monkeypatch):
    monkeypatch.setitem(task_system.SharedMemNumpyConfig, "enabled", True)
    monkeypatch.setitem(task_system.SharedMemNumpyConfig, "auto_pickling_min_size", 100)
    array = numpy.arange(600, dtype="float32").reshape(20, 30)
    data = pickled(lambda x: float(array[x, 1]))
    assert len(data) < array.nbytes
    result = subprocess.run([sys.executable, "-c", READ], input=data, capture_output=True, check=True)
    assert float(result.stdout) == 151.0
    assert not any(instance.is_in_use() for instance in SharedNumpyArray.ServerInstances)  # the reader has ended
    alone = task_system.numpy_alloc([20, 30], "float32", fortran_for_shared=True)  # takes the memory of the one before
    assert alone.strides == (4, 80)
    assert len(SharedNumpyArray.ServerInstances) == 1
    shared = SharedNumpyArray.as_shared(alone)
    assert shared.get_numpy_array_data_ptr() == alone.ctypes.data
    alone[...] = array
    copy = task_system.numpy_copy_and_set_unused(alone)
    assert not shared.is_in_use()
    numpy.testing.assert_array_equal(copy, array)


@with_shared_memory
def test_shared_memory_that_is_gone_is_an_error():
    memory = SharedMem(100)
    data = pickle.dumps(memory)
    other = pickle.loads(data)
    assert other.ptr != memory.ptr
    assert not other.is_creator
    memory.remove()
    other.remove()
    with pytest.raises(SharedMem.ShmException, match="shmat has failed"):
        pickle.loads(data)
