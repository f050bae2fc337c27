"""
`Pickler`: also pickles functions and classes which cannot be imported by name, such as lambdas, closures, and what a
config or an interactive session defines; and modules. It is read by `pickle.load`.

Such a function is sent as its code, with those global names that it uses. Where the globals are those of a module that
can be imported, it gets the module's own ones.
"""

from __future__ import annotations

import builtins
import importlib
import io
import marshal
import pickle
import sys
import types
from typing import Any, ClassVar

import numpy

from returnn.compat.task_system.functions import (
    getModNameForModDict,
    getModuleDict,
    getNormalDict,
    make_numpy_ndarray_fromstring,
    used_names,
)
from returnn.compat.task_system.shared_arrays import (
    SharedMemNumpyConfig,
    SharedNumpyArray,
    use_shared_mem_for_numpy_array,
)

Unpickler = pickle.Unpickler

# They say that they are in `builtins`, and are not.
_TYPES = {value: name for name, value in vars(types).items() if isinstance(value, type)}


class Pickler(pickle._Pickler):  # the one in Python, as that in C has no methods for types
    """See the head of this module."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)
    module_name_black_list: ClassVar[set[str]] = set()  # modules that the other side does not have
    use_whichmodule = True  # look for functions without a module in all modules

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """
        :param args: see `pickle.Pickler`
        :param kwargs: see there
        """
        super().__init__(*args, **kwargs)

    def __getstate__(self) -> Any:
        raise pickle.PicklingError("a Pickler cannot be pickled: it has a file and a memory of its own")

    def __setstate__(self, state: Any) -> None:
        raise pickle.PicklingError("a Pickler cannot be pickled: it has a file and a memory of its own")

    def save_func(self, obj: types.FunctionType) -> None:
        """Saves a function."""
        if self._is_found(obj, obj.__qualname__):
            self.save_global(obj)
            return
        module = getModNameForModDict(obj.__globals__)
        names: dict[str, Any] = {}
        if module is None or not self._can_import(module):
            used = {*used_names(obj.__code__), "__name__"}
            names = {name: value for name, value in obj.__globals__.items() if name in used}
            module = None
        args = (obj.__code__, obj.__name__, obj.__closure__, module)
        state = (names, obj.__defaults__, obj.__kwdefaults__, obj.__dict__, obj.__qualname__)
        self.save_reduce(_make_function, args, state, state_setter=_fill_function, obj=obj)

    dispatch[types.FunctionType] = save_func

    def save_method(self, obj: types.MethodType) -> None:
        """Saves a method with its object."""
        self.save_reduce(types.MethodType, (obj.__func__, obj.__self__), obj=obj)

    dispatch[types.MethodType] = save_method

    def _save_wrapped(self, obj: classmethod | staticmethod) -> None:
        self.save_reduce(type(obj), (obj.__func__,), obj=obj)

    dispatch[classmethod] = dispatch[staticmethod] = _save_wrapped

    def _save_property(self, obj: property) -> None:
        self.save_reduce(property, (obj.fget, obj.fset, obj.fdel, obj.__doc__), obj=obj)

    dispatch[property] = _save_property

    def save_code(self, obj: types.CodeType) -> None:
        """Saves compiled code. The other side needs the same version of Python."""
        self.save_reduce(marshal.loads, (marshal.dumps(obj),), obj=obj)

    dispatch[types.CodeType] = save_code

    def save_cell(self, obj: types.CellType) -> None:
        """Saves a cell of a closure, whose content may refer to the function."""
        values = () if obj == types.CellType() else (obj.cell_contents,)
        self.save_reduce(types.CellType, (), values, state_setter=_fill_cell, obj=obj)

    dispatch[types.CellType] = save_cell

    def save_module(self, obj: types.ModuleType) -> None:
        """Saves the name of a module. If it cannot be imported, its names."""
        if self._can_import(obj.__name__):
            self.save_reduce(importlib.import_module, (obj.__name__,), obj=obj)
            return
        names = {key: value for key, value in vars(obj).items() if not key.startswith("__")}
        self.save_reduce(types.ModuleType, (obj.__name__, obj.__doc__), names, obj=obj)

    dispatch[types.ModuleType] = save_module

    def intellisave_dict(self, obj: dict[Any, Any]) -> None:
        """Saves a dict; if it has the names of a module, the name of that."""
        name = getModNameForModDict(obj) if isinstance(obj.get("__name__"), str) else None
        if name is not None and self._can_import(name):
            self.save_reduce(getModuleDict, (name,), obj=obj)
        else:
            self.save_dict(obj)

    dispatch[dict] = intellisave_dict

    def save_type(self, obj: type) -> None:
        """Saves a class."""
        if obj in _TYPES:
            self.save_reduce(getattr, (types, _TYPES[obj]), obj=obj)
            return
        if self._is_found(obj, obj.__qualname__):
            super().save_type(obj)
            return
        slots = (types.GetSetDescriptorType, types.MemberDescriptorType)
        names = {key: value for key, value in getNormalDict(vars(obj)).items() if not isinstance(value, slots)}
        static = {key: names.pop(key) for key in ("__module__", "__qualname__", "__slots__") if key in names}
        self.save_reduce(
            _make_class, (type(obj), obj.__name__, obj.__bases__, static), names, state_setter=_fill_class, obj=obj
        )

    dispatch[type] = save_type

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Saves where an object can be imported from."""
        if self.use_whichmodule and getattr(obj, "__module__", None) is None:
            name = name or getattr(obj, "__qualname__", None) or obj.__name__
            found = pickle.whichmodule(obj, name)
            if found == "__main__" and not hasattr(sys.modules["__main__"], name.partition(".")[0]):
                raise pickle.PicklingError(f"cannot pickle {obj!r}: it is in no module")
        super().save_global(obj, name)

    def save_ndarray(self, obj: numpy.ndarray) -> None:
        """Saves an array: large ones as shared memory, where that works and `SharedMemNumpyConfig` wants it."""
        if obj.dtype.hasobject:
            self.save_reduce(*obj.__reduce_ex__(self.proto), obj=obj)
            return
        if obj.nbytes >= SharedMemNumpyConfig["auto_pickling_min_size"] and use_shared_mem_for_numpy_array(obj):
            shared = SharedNumpyArray.as_shared(obj)
            self.save_reduce(SharedNumpyArray.create_numpy_array, (shared,), obj=obj)
            return
        self.save_reduce(make_numpy_ndarray_fromstring, (obj.tobytes(), obj.dtype, obj.shape), obj=obj)

    dispatch[numpy.ndarray] = save_ndarray

    def save_iobuffer_dummy(self, obj: Any) -> None:
        """Saves a stream as None: it belongs to its process."""
        self.save_none(None)

    for _stream in (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.FileIO):
        dispatch[_stream] = save_iobuffer_dummy

    def _can_import(self, module: str) -> bool:
        spec = getattr(sys.modules.get(module), "__spec__", None)
        return module != "__main__" and module not in self.module_name_black_list and spec is not None

    def _is_found(self, obj: Any, name: str) -> bool:
        """:return: whether the other side finds the object by its name"""
        module = getattr(obj, "__module__", None)
        if module is None or not self._can_import(module):
            return False
        found: Any = sys.modules[module]
        for part in name.split("."):
            found = getattr(found, part, None)
        return found is obj


def _make_function(
    code: types.CodeType, name: str, cells: tuple[types.CellType, ...] | None, module: str | None
) -> types.FunctionType:
    names = {"__builtins__": builtins} if module is None else getModuleDict(module)
    return types.FunctionType(code, names, name, None, cells)


def _fill_function(function: types.FunctionType, state: tuple[Any, ...]) -> None:
    names, defaults, keyword_defaults, attributes, qualified_name = state
    function.__globals__.update(names)
    function.__defaults__, function.__kwdefaults__ = defaults, keyword_defaults
    function.__qualname__ = qualified_name
    function.__dict__.update(attributes)


def _fill_cell(cell: types.CellType, values: tuple[Any, ...]) -> None:
    for value in values:
        cell.cell_contents = value


def _make_class(meta: type, name: str, bases: tuple[type, ...], static: dict[str, Any]) -> type:
    return types.new_class(name, bases, {} if meta is type else {"metaclass": meta}, lambda names: names.update(static))


def _fill_class(cls: type, names: dict[str, Any]) -> None:
    for name, value in names.items():
        setattr(cls, name, value)
