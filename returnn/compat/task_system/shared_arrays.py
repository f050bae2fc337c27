"""
Arrays in memory which several processes see.

The process that makes an array keeps its memory (a server instance). When nobody reads it any more, which the reader
says by a flag in front of the data, the memory is taken for the next array.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy

from returnn.compat.task_system.shared_mem import SharedMem
from returnn.util.errors import UserError

_MAX_INSTANCES = 100

SharedMemNumpyConfig: dict[str, Any] = {
    "enabled": False,  # whether arrays are put into shared memory without being asked
    "auto_pickling_min_size": 8 * 1024 * 1024,  # in bytes, when they are pickled
    "min_shared_size": 0,  # in bytes, in any case
}


class TooMuchInstances(UserError):
    """There are very many arrays which nobody has said to be unused."""


class SharedNumpyArray:
    """Memory for an array, see `create_numpy_array`. By pickle, another process gets the same memory."""

    ExtraSpaceBytes: ClassVar[int] = 4096  # in front of the data: a flag, and so that the data is aligned
    ServerLock: ClassVar[Any] = threading.Lock()
    ServerInstances: ClassVar[set[SharedNumpyArray]] = set()
    ServerArrayId: ClassVar[int] = 0
    TooMuchInstances = TooMuchInstances
    is_server: bool = False
    mem: SharedMem | None = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    typestr: str | None = None

    def __init__(
        self,
        shape: Sequence[int],
        strides: Sequence[int] | None,
        typestr: str,
        mem: SharedMem | None = None,
        array_id: int | None = None,
    ) -> None:
        """
        :param shape: of the array
        :param strides: in bytes; None: the last axis is contiguous
        :param typestr: such as "<f4"
        :param mem: memory that is there already. None: make some
        :param array_id: number of the array, with `mem`
        :raises TooMuchInstances: if this process has too many
        """
        self.shape = tuple(shape)
        self.typestr = typestr
        self.strides = tuple(strides or self.numpy_strides_for_c_contiguous(self.shape, typestr))
        self.is_server = mem is None
        cls = SharedNumpyArray
        if mem is None:
            with cls.ServerLock:
                if len(cls.ServerInstances) >= _MAX_INSTANCES:
                    raise TooMuchInstances(f"there are {len(cls.ServerInstances)} shared arrays in use: set_unused")
                cls.ServerArrayId += 1
                array_id = cls.ServerArrayId
                mem = SharedMem(self.needed_mem_size(self.shape, typestr))
                cls.ServerInstances.add(self)
            self.mem = mem
            self._flag().value = 1
        self.mem = mem
        self.array_id = array_id

    @staticmethod
    def numpy_strides_for_c_contiguous(shape: Sequence[int], typestr: str) -> tuple[int, ...]:
        """:return: in bytes, if the last axis is contiguous"""
        return _strides(shape, typestr)

    @staticmethod
    def numpy_strides_for_fortran(shape: Sequence[int], typestr: str) -> tuple[int, ...]:
        """:return: in bytes, if the first axis is contiguous"""
        return _strides(shape[::-1], typestr)[::-1]

    @classmethod
    def needed_mem_size(cls, shape: Sequence[int], typestr: str) -> int:
        """:return: in bytes"""
        return cls.ExtraSpaceBytes + int(numpy.prod(shape, dtype="int64")) * numpy.dtype(typestr).itemsize

    @classmethod
    def create_new(cls, shape: Sequence[int], strides: Sequence[int] | None, typestr: str) -> SharedNumpyArray:
        """:return: an array without values, in memory that is not used any more if there is such"""
        needed = cls.needed_mem_size(shape, typestr)
        with cls.ServerLock:
            unused = [x for x in cls.ServerInstances if x.mem and x.mem.size >= needed and not x.is_in_use()]
            for instance in sorted(unused, key=lambda x: x.mem.size)[:1]:
                cls.ServerInstances.discard(instance)
                new = cls(shape, strides, typestr, mem=instance.mem, array_id=instance.array_id)
                new.is_server = True
                cls.ServerInstances.add(new)
                new._flag().value = 1
                return new
        return cls(shape, strides, typestr)

    @classmethod
    def create_copy(cls, array: numpy.ndarray) -> SharedNumpyArray:
        """:return: a new array with the same values, contiguous as it is or else along the last axis"""
        is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        strides_of = cls.numpy_strides_for_fortran if is_fortran else cls.numpy_strides_for_c_contiguous
        typestr = array.dtype.str
        shared = cls.create_new(array.shape, strides_of(array.shape, typestr), typestr)
        shared._view()[...] = array
        return shared

    @classmethod
    def as_shared(cls, array: numpy.ndarray) -> SharedNumpyArray:
        """:return: the shared array whose data this is; a copy if it is none"""
        owner = _owner_of(array)
        if owner is not None and owner.shared.shape == array.shape and owner.shared.strides == array.strides:
            return owner.shared
        return cls.create_copy(array)

    def create_numpy_array(self) -> numpy.ndarray:
        """:return: the array. When it is not referenced any more, the memory can be used for another one"""
        return numpy.asarray(_Owner(self))

    def get_numpy_array_data_ptr(self) -> int:
        """:return: address of the first value in this process"""
        assert self.mem is not None
        assert self.mem.ptr is not None
        return self.mem.ptr + self.ExtraSpaceBytes

    def is_in_use(self) -> bool:
        """:return: whether somebody may still read it"""
        return bool(self._flag().value)

    def set_unused(self) -> None:
        """From now on, the memory can be used for another array."""
        if self.mem is not None and self.mem.ptr is not None:
            self._flag().value = 0
            if not self.is_server:
                self.mem.remove()

    def _flag(self) -> ctypes.c_uint64:
        assert self.mem is not None
        return ctypes.c_uint64.from_address(self.mem.ptr)

    def _view(self) -> numpy.ndarray:
        return numpy.asarray(_View(self))

    def __getstate__(self) -> dict[str, Any]:
        names = ("shape", "strides", "typestr", "mem", "array_id")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.array_id} {self.typestr} {self.shape}>"


class _View:
    """Gives numpy the memory."""

    def __init__(self, shared: SharedNumpyArray) -> None:
        self.shared = shared
        self.__array_interface__ = {
            "shape": shared.shape,
            "strides": shared.strides,
            "typestr": shared.typestr,
            "data": (shared.get_numpy_array_data_ptr(), False),
            "version": 3,
        }


class _Owner(_View):
    """The same, for the reader: the memory is not used any more when all arrays are gone that refer to it."""

    def __del__(self) -> None:
        self.shared.set_unused()


def _owner_of(array: Any) -> _Owner | None:
    while isinstance(array, numpy.ndarray):
        array = array.base
    return array if isinstance(array, _Owner) else None


def next_power_of_two(n: int) -> int:
    """:return: the least power of two that is not less"""
    return 1 if n <= 1 else 1 << (n - 1).bit_length()


def use_shared_mem_for_numpy_array(obj: numpy.ndarray) -> bool:
    """:return: whether an array is to be in shared memory"""
    if not SharedMemNumpyConfig["enabled"] or obj.dtype.hasobject:
        return False
    return obj.nbytes >= SharedMemNumpyConfig["min_shared_size"]


def numpy_alloc(shape: Sequence[int], dtype: Any, fortran_for_shared: bool = False) -> numpy.ndarray:
    """
    :param shape: of the array
    :param dtype: of the array
    :param fortran_for_shared: in shared memory, the first axis is contiguous
    :return: array without values, in shared memory if `SharedMemNumpyConfig` wants it
    """
    array = numpy.empty(shape, dtype)
    if not use_shared_mem_for_numpy_array(array):
        return array
    typestr = array.dtype.str
    strides = SharedNumpyArray.numpy_strides_for_fortran(array.shape, typestr) if fortran_for_shared else None
    return SharedNumpyArray.create_new(array.shape, strides, typestr).create_numpy_array()


def numpy_set_unused(v: Any) -> None:
    """Says that nobody uses this array any more. Has no effect if it is not in shared memory."""
    owner = _owner_of(v)
    if owner is not None:
        owner.shared.set_unused()


def numpy_copy_and_set_unused(v: Any) -> Any:
    """:return: a copy in plain memory of an array in shared memory, which is not used then; any other value as it is"""
    if _owner_of(v) is None:
        return v
    copy = numpy.array(v)
    numpy_set_unused(v)
    return copy


def _strides(shape: Sequence[int], typestr: str) -> tuple[int, ...]:
    strides = [numpy.dtype(typestr).itemsize]
    for size in reversed(shape):
        strides.insert(0, strides[0] * size)
    return tuple(strides[1:])


def _remove_all() -> None:
    for instance in SharedNumpyArray.ServerInstances:
        if instance.mem is not None:
            instance.mem.remove()


atexit.register(_remove_all)
