"""
Pickles with plain data alone: reading one runs no code of its author, and gives no object but these:

None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict (also for `OrderedDict`), set, frozenset, and
arrays, scalars and dtypes of numpy that hold numbers or text.

A pickle is a program that calls functions by name. Here, all names lead to functions of this module, which check their
arguments: those of numpy take a description of memory from the pickle, and a forged one crashes the process.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy

from returnn.util.errors import UserError

_WRONG_CONTENT = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    AttributeError,
    TypeError,
    OverflowError,
    MemoryError,
    RecursionError,
    ImportError,
)
_DTYPE = re.compile(r"[|<>=]?(\?|b1|[iu][1248]|f[248]|c(8|16)|[SU]\d{1,9})")
_BYTE_ORDERS = ("<", ">", "|", "=")


class PickleDataError(UserError):
    """A pickle that is damaged, or has more than plain data."""


def load_plain_pickle(content: bytes, *, where: str) -> Any:
    """
    :param content: of a pickle
    :param where: for errors, such as the name of the file
    :return: the plain data in it
    :raises PickleDataError: if there is anything else in it
    """
    try:
        return _Resolver().resolve(_PlainUnpickler(io.BytesIO(content), encoding="utf-8").load())
    except _WRONG_CONTENT as exc:
        reason = str(exc).partition("\n")[0] or type(exc).__name__
        raise PickleDataError(f"{where}: it is no pickle of plain data: {reason}.") from exc


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        current_name = module_name.replace("numpy._core", "numpy.core")
        function = _FUNCTIONS.get((_MODULES_OF_PYTHON_2.get(module_name, current_name), global_name))
        if function is None:
            raise pickle.UnpicklingError(f"it contains an object of {module_name}.{global_name}")
        return _Callable(function)


class _Callable:
    """What a name leads to. The pickle can call it, and cannot change it."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it changes a function")


class _Dtype:
    """A dtype of numpy, which gets its byte order after it was made."""

    __slots__ = ("value",)

    def __init__(self, name: Any, *_align_and_copy: Any) -> None:
        if isinstance(name, bytes):
            name = name.decode("ascii")
        if not isinstance(name, str) or not _DTYPE.fullmatch(name):
            raise pickle.UnpicklingError(f"it contains the dtype {name!r}, which holds neither numbers nor text")
        self.value = numpy.dtype(name)

    def __setstate__(self, state: Any) -> None:
        order, *rest = state[1:5]
        order = order.decode("ascii") if isinstance(order, bytes) else order
        if order not in _BYTE_ORDERS or any(part is not None for part in rest):
            raise pickle.UnpicklingError("it contains a dtype with fields, or a damaged one")
        self.value = numpy.dtype(f"{order}{self.value.str[1:]}")


class _Array:
    """An array of numpy, which gets its content after it was made."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, is_fortran, data = state
        self.value = _array_of(data, dtype, shape, "F" if is_fortran else "C")


def _array_of(data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    """:return: an array of its own, of that many bytes"""
    if isinstance(data, str):  # bytes of Python 2
        data = data.encode("latin1")
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes | bytearray) or order not in ("C", "F", "A"):
        raise pickle.UnpicklingError("it contains a damaged array")
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise pickle.UnpicklingError(f"it contains an array of the shape {shape!r}")
    size = math.prod(shape)
    if size * dtype.value.itemsize != len(data):
        raise pickle.UnpicklingError(f"it contains an array with {len(data)} bytes, which do not fit to its shape")
    if not len(data):
        return numpy.zeros(shape, dtype.value)
    return numpy.frombuffer(bytes(data), dtype.value).reshape(shape, order="F" if order == "F" else "C").copy()


def _scalar(dtype: Any, data: Any) -> Any:
    return _array_of(data, dtype, (), "C")[()]


def _new_array(*_type_shape_and_code: Any) -> _Array:
    return _Array()


def _ndarray(*_args: Any) -> Any:
    raise pickle.UnpicklingError("it makes an array without content")


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):  # how old protocols write bytes
        raise pickle.UnpicklingError("it contains damaged bytes")
    return text.encode("latin1")


def _bytes() -> bytes:
    return b""


def _bytearray(data: Any = b"", encoding: Any = "latin-1") -> bytearray:
    return bytearray(data if isinstance(data, bytes) else _encode(data, encoding))


def _ordered_dict(items: Any = ()) -> dict[Any, Any]:
    return {key: value for key, value in items}  # noqa: C416 (a dict is no list of pairs)


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("_codecs", "encode"): _encode,
    ("builtins", "bytearray"): _bytearray,
    ("builtins", "bytes"): _bytes,
    ("builtins", "complex"): complex,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "set"): set,
    ("collections", "OrderedDict"): _ordered_dict,
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _ndarray,
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _array_of,
}
_MODULES_OF_PYTHON_2 = {"__builtin__": "builtins"}
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, numpy.ndarray, numpy.generic, type(None))


class _Resolver:
    """Puts the arrays and dtypes that are complete now in the place of our own objects."""

    def __init__(self) -> None:
        self._done: dict[int, Any] = {}  # by id
        self._kept: list[Any] = []  # so that no id is used twice
        self._current: set[int] = set()

    def resolve(self, value: Any) -> Any:
        """
        :param value: as the unpickler gave it
        :return: the same with plain data alone
        """
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, _Dtype | _Array):
            if value.value is None:
                raise pickle.UnpicklingError("it contains an array without content")
            return value.value
        if id(value) in self._done:
            return self._done[id(value)]
        if id(value) in self._current:
            raise pickle.UnpicklingError("it contains a list or dict that contains itself")
        self._current.add(id(value))
        result = self._container(value)
        self._current.remove(id(value))
        self._kept.append(value)
        self._done[id(value)] = result
        return result

    def _container(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.resolve(key): self.resolve(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return type(value)(map(self.resolve, value))
        raise pickle.UnpicklingError(f"it contains a {type(value).__name__.lstrip('_').lower()} that is no data")
