"""Documented path: hands on how functions and arrays come to other processes. `multiprocessing` needs none of it."""

from returnn.compat.task_system.functions import (
    CellType,
    DictType,
    ModuleType,
    NewStyleClass,
    assign_obj_attribs,
    attrChain,
    funcCall,
    get_func_closure,
    get_func_tuple,
    getModNameForModDict,
    getModuleDict,
    getNormalDict,
    make_numpy_ndarray_fromstring,
    makeFuncCell,
)
from returnn.compat.task_system.pickler import Pickler, Unpickler
from returnn.compat.task_system.shared_arrays import (
    SharedMemNumpyConfig,
    SharedNumpyArray,
    next_power_of_two,
    numpy_alloc,
    numpy_copy_and_set_unused,
    numpy_set_unused,
    use_shared_mem_for_numpy_array,
)
from returnn.compat.task_system.shared_mem import SharedMem

__all__ = [
    "CellType",
    "DictType",
    "ModuleType",
    "NewStyleClass",
    "Pickler",
    "SharedMem",
    "SharedMemNumpyConfig",
    "SharedNumpyArray",
    "Unpickler",
    "assign_obj_attribs",
    "attrChain",
    "funcCall",
    "getModNameForModDict",
    "getModuleDict",
    "getNormalDict",
    "get_func_closure",
    "get_func_tuple",
    "makeFuncCell",
    "make_numpy_ndarray_fromstring",
    "next_power_of_two",
    "numpy_alloc",
    "numpy_copy_and_set_unused",
    "numpy_set_unused",
    "use_shared_mem_for_numpy_array",
]
