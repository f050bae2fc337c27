"""Operations of TensorFlow in C++ or CUDA, compiled from code in a config."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import tensorflow as tf

from returnn.compat.tf_util.devices import get_available_gpu_cuda_min_compute_capability, is_gpu_available
from returnn.util.cuda_env import CudaEnv as _CudaEnv
from returnn.util.native_code_compiler import NativeCodeCompiler

_modules: dict[str, ModuleType] = {}  # by file: an operation can only be registered once in a process


class CudaEnv(_CudaEnv):
    """The installation of CUDA, as operations of TensorFlow use it."""


class _WithTensorFlow(NativeCodeCompiler):
    """Knows the header files and the library of TensorFlow."""

    cpp_version: ClassVar[str] = "17"

    def __init__(
        self,
        include_paths: Sequence[str] = (),
        ld_flags: Sequence[str] = (),
        c_macro_defines: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param include_paths: in addition to those of TensorFlow
        :param ld_flags: in addition to those of TensorFlow
        :param c_macro_defines: in addition to those of TensorFlow
        :param kwargs: see `NativeCodeCompiler`: `base_name`, `code` and more
        """
        folders, macros = _flags_of_tensorflow()
        use_new_abi = str(macros.pop("_GLIBCXX_USE_CXX11_ABI", "1")) == "1"
        super().__init__(
            include_paths=[*include_paths, *folders],
            ld_flags=[*ld_flags, *tf.sysconfig.get_link_flags()],
            c_macro_defines={**macros, "NDEBUG": 1, **(c_macro_defines or {})},
            **{"use_cxx11_abi": use_new_abi, **kwargs},
        )


class OpCodeCompiler(_WithTensorFlow):
    """Compiles operations (`REGISTER_OP`, `REGISTER_KERNEL_BUILDER`), for GPUs too if there are any."""

    CacheDirName: ClassVar[str] = "returnn_tf_cache/ops"

    def __init__(
        self,
        use_cuda_if_available: bool = True,
        cuda_auto_min_compute_capability: bool = True,
        include_paths: Sequence[str] = (),
        ld_flags: Sequence[str] = (),
        c_macro_defines: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param use_cuda_if_available: whether it is CUDA code, if there is a GPU and a compiler
        :param cuda_auto_min_compute_capability: compile for the oldest GPU which is there
        :param include_paths: in addition to those of TensorFlow
        :param ld_flags: in addition to those of TensorFlow
        :param c_macro_defines: in addition to GOOGLE_CUDA, CUDA_CAPABILITY_MAJOR and so on
        :param kwargs: see `NativeCodeCompiler`: `base_name`, `code` and more
        """
        self._with_cuda = use_cuda_if_available and self.cuda_available()
        self._capability = get_available_gpu_cuda_min_compute_capability() if cuda_auto_min_compute_capability else None
        macros = {"GOOGLE_CUDA": 1} if self._with_cuda else {}
        super().__init__(
            include_paths=include_paths,
            ld_flags=ld_flags,
            c_macro_defines={**macros, **(c_macro_defines or {})},
            **kwargs,
        )

    @classmethod
    def cuda_available(cls) -> bool:
        """:return: whether code is compiled for GPUs"""
        return is_gpu_available() and CudaEnv.get_instance().is_available()

    def load_tf_module(self) -> ModuleType:
        """:return: with a function for each operation, by its name with underscores"""
        filename = self.get_lib_filename()
        if filename not in _modules:
            _modules[filename] = tf.load_op_library(filename)
        return _modules[filename]

    def _compiler(self) -> str:
        return CudaEnv.get_instance().get_compiler_bin() if self._with_cuda else super()._compiler()

    def _code_suffix(self) -> str:
        return ".cu" if self._with_cuda else super()._code_suffix()

    def _compiler_flags(self) -> list[str]:
        flags = super()._compiler_flags()
        if not self._with_cuda:
            return flags
        own = [*CudaEnv.get_instance().get_compiler_opts(), "--expt-relaxed-constexpr", "-DNDEBUG"]
        if self._capability is not None:
            own.append(f"-arch=sm_{round(self._capability * 10)}")
        return [*own, "-Xcompiler", "-fPIC", *(flag for flag in flags if flag != "-fPIC")]


class TFNativeUtilCompiler(_WithTensorFlow):
    """Compiles code against TensorFlow which has no operations, to be loaded by `load_lib_ctypes`."""

    CacheDirName: ClassVar[str] = "returnn_tf_cache/tf_utils"


def _flags_of_tensorflow() -> tuple[list[str], dict[str, str]]:
    """:return: folders of header files; macros"""
    folders, macros = [], {}
    for flag in tf.sysconfig.get_compile_flags():
        if flag.startswith("-I"):
            folders.append(os.path.expanduser(flag[2:]))
        elif flag.startswith("-D"):
            name, _, value = flag[2:].partition("=")
            macros[name] = value or "1"
    return folders, macros
