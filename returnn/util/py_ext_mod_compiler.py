"""Modules of Python in C or C++, compiled when they are needed."""

from __future__ import annotations

import importlib.util
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader
from types import ModuleType
from typing import Any, ClassVar

from returnn.util.native_code_compiler import NativeCodeCompiler


class PyExtModCompiler(NativeCodeCompiler):
    """Compiles code that has `PyInit_NAME`, where NAME is the base name, and loads the module."""

    CacheDirName: ClassVar[str] = "returnn_py_ext_mod_cache"

    def __init__(self, include_paths: Sequence[str] = (), **kwargs: Any) -> None:
        """
        :param include_paths: beside that of Python
        :param kwargs: see `NativeCodeCompiler`
        """
        paths = sysconfig.get_paths()
        super().__init__(include_paths=[*include_paths, paths["include"], paths["platinclude"]], **kwargs)
        self._module: ModuleType | None = None

    def load_py_module(self) -> ModuleType:
        """
        :return: the module, always the same one
        :raises UserError: if it cannot be compiled
        """
        if self._module is None:
            loader = ExtensionFileLoader(self.base_name, self.get_lib_filename())
            spec = importlib.util.spec_from_loader(self.base_name, loader)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            self._module = module
        return self._module
