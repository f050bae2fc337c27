"""
The kernels for GPUs of NVIDIA: compiled once by `nvcc`, for the GPUs that are there. They have the signatures of those
for CPUs, with all arrays in the GPU's memory.

By which method recurrent units are computed is measured by `benchmarks/rec_units_gpu.py`, which writes a table for this
GPU; without one, a rule decides. The environment variable `RETURNN_CUDA=0` turns kernels for GPUs off.
"""

from __future__ import annotations

import ctypes
import functools
import json
import logging
import os
import re
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from returnn.native.build import SOURCES
from returnn.native.library import Library, is_wanted
from returnn.util.cuda_env import CudaEnv
from returnn.util.errors import UserError
from returnn.util.files.folders import get_cache_dir, make_private_folder
from returnn.util.native_code_compiler import NativeCodeCompiler, get_cpp_bin
from returnn.util.system.warn_once import warn_once

CUDA_SOURCES = SOURCES / "cuda"
METHODS = ("rule", "stepwise", "persistent")  # in the order of `returnn_method` in methods.h
MethodTable = dict[str, list[tuple[int, int, str]]]  # name of a GPU -> units, batch, method
_FLAGS = ("-std=c++17", "-O3", "-Xcompiler=-fPIC,-fvisibility=hidden", "-DRETURNN_LEVEL=cuda")
_SUFFIXES = (".cu", ".cpp", ".h")
_HOST_SOURCES = (SOURCES / "registry.cpp", CUDA_SOURCES / "methods.cpp")

_logger = logging.getLogger("returnn")


def find_nvcc() -> str:
    """
    :return: path of the compiler
    :raises UserError: if it is not installed
    """
    env = CudaEnv.get_instance()
    if not env:
        raise UserError("there is no nvcc: it is neither in PATH nor in CUDA_PATH, CUDA_HOME or /usr/local/cuda.")
    return env.get_compiler_bin()


@functools.cache
def known_architectures(nvcc: str) -> list[int]:
    """
    :param nvcc: path of the compiler
    :return: what it compiles for, such as 75 for compute capability 7.5, the lowest one first
    :raises UserError: if it does not say so
    """
    result = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=False)
    found = sorted({int(number) for number in re.findall(r"\bsm_(\d+)\b", result.stdout)})
    if not found:
        raise UserError(f"{nvcc} does not tell for which GPUs it compiles: {result.stderr.strip() or result.stdout}")
    return found


def architecture_flags(capabilities: Sequence[tuple[int, int]], known: Sequence[int]) -> list[str]:
    """
    :param capabilities: of the GPUs, such as (8, 6)
    :param known: see `known_architectures`
    :return: for the compiler: machine code, or for GPUs newer than it code that the driver translates (PTX)
    :raises UserError: if a GPU is too old for this compiler
    """
    flags = []
    for major, minor in sorted(set(capabilities)):
        wanted = 10 * major + minor
        possible = [number for number in known if number <= wanted]
        if not possible:
            lowest = f"{known[0] // 10}.{known[0] % 10}"
            raise UserError(
                f"the GPU has compute capability {major}.{minor}, but this nvcc compiles for {lowest} and newer ones."
            )
        kind = "sm" if possible[-1] == wanted else "compute"
        flag = f"-gencode=arch=compute_{possible[-1]},code={kind}_{possible[-1]}"
        if flag not in flags:
            flags.append(flag)
    return flags


class CudaCompiler(NativeCodeCompiler):
    """All kernels for some GPUs as one library."""

    cpp_version = "17"
    title = "kernels for GPUs"

    def __init__(
        self,
        base_name: str = "cuda_kernels",
        *,
        capabilities: Sequence[tuple[int, int]],
        flags: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        """
        :param base_name: of the library
        :param capabilities: compute capabilities of the GPUs
        :param flags: more flags for the kernels
        :param kwargs: see `NativeCodeCompiler`
        :raises UserError: if there is no compiler, or it does not know a GPU
        """
        self.capabilities = sorted(set(capabilities))
        self.more_flags = list(flags)
        files = [path for folder in (SOURCES, CUDA_SOURCES) for path in folder.glob("*.*") if path.suffix in _SUFFIXES]
        super().__init__(
            base_name,
            code="\n".join(path.read_text("utf8") for path in sorted(files)),
            use_cxx11_abi=True,
            **kwargs,
        )

    def _compiler(self) -> str:
        return find_nvcc()

    def _compiler_flags(self) -> list[str]:
        gpus = architecture_flags(self.capabilities, known_architectures(self._compiler()))
        return [*_FLAGS, *gpus, "-ccbin", get_cpp_bin(), *self.more_flags]

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "release": self._release()}

    def _release(self) -> list[int]:
        return list(CudaEnv.get_instance().get_cuda_version())

    def _compile(self, filename: str) -> None:
        start = time.monotonic()
        names = ", ".join(f"{major}.{minor}" for major, minor in self.capabilities)
        _logger.info("native kernels: compiling for GPUs of compute capability %s, once.", names)
        sources = [*sorted(CUDA_SOURCES.glob("*.cu")), *_HOST_SOURCES]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            objects = list(pool.map(lambda path: self.compile_object(str(path)), sources))
        self.link(objects, filename)
        for path in objects:
            os.remove(path)
        _logger.info("native kernels: compiled in %.1f s, kept in %s.", time.monotonic() - start, self.cache_dir)

    def link(self, objects: Sequence[str], filename: str) -> None:
        """
        :param objects: object files
        :param filename: of the shared library, which is complete or absent
        :raises UserError: if the linker fails
        """
        partial = f"{filename}.partial"
        self.run_compiler(["-shared", *objects, "-o", partial, *self._link_flags()])
        os.replace(partial, filename)

    def _link_flags(self) -> list[str]:
        return ["-cudart=static", "-ccbin", get_cpp_bin()]

    def compile_object(self, source: str) -> str:
        """
        :param source: a file
        :return: the object file
        :raises UserError: if it cannot be compiled
        """
        name = os.path.basename(source).replace(".", "_")
        path = os.path.join(self.cache_dir, f"{name}.o")
        self.run_compiler(["-c", source, "-o", path, *self._compiler_flags()])
        return path


class CudaLibrary(Library):
    """A compiled library for GPUs."""

    def __init__(self, filename: str) -> None:
        """
        :param filename: of the shared library
        """
        super().__init__(filename)
        self._lib = ctypes.CDLL(filename)
        self._lib.returnn_set_method.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_int]
        self._lib.returnn_device_error.restype = ctypes.c_char_p

    def device_error(self) -> str | None:
        """:return: why kernels do not run on the current GPU, such as an old driver; None if they do"""
        error: bytes | None = self._lib.returnn_device_error()
        return None if error is None else error.decode()

    def set_method(self, units: int, batch: int, method: str) -> None:
        """
        :param units: of a recurrent layer
        :param batch: number of sequences
        :param method: how layers of about this size are computed from now on, if that is possible; see `METHODS`
        """
        self._lib.returnn_set_method(units, batch, METHODS.index(method))

    def clear_methods(self) -> None:
        """As if none had been set."""
        self._lib.returnn_clear_methods()

    def last_method(self) -> str:
        """:return: by which method this thread's last recurrent layer was computed"""
        return METHODS[self._lib.returnn_last_method()]


def method_table_filename() -> str:
    """:return: where the measured methods are; `RETURNN_CUDA_METHODS` names another file"""
    return os.environ.get("RETURNN_CUDA_METHODS") or os.path.join(get_cache_dir(), "cuda_methods.json")


def read_method_table() -> MethodTable:
    """
    :return: what was measured; nothing if there is no such file
    :raises UserError: if it is no such table
    """
    filename = method_table_filename()
    try:
        with open(filename, encoding="utf8") as file:
            content = json.load(file)
        table = {str(gpu): [(int(u), int(n), str(method)) for u, n, method in rows] for gpu, rows in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as exc:
        raise UserError(f"{filename}: a table of methods is {{gpu: [[units, batch, method], ...]}}: {exc}") from exc
    for rows in table.values():
        for _, _, method in rows:
            if method not in METHODS:
                raise UserError(f"{filename}: there is no method {method!r}. Possible: {', '.join(METHODS)}.")
    return table


def write_method_table(gpu: str, rows: Sequence[tuple[int, int, str]]) -> None:
    """
    :param gpu: its name
    :param rows: units, batch, method, in place of what was there for this GPU
    """
    filename = method_table_filename()
    table = {**read_method_table(), gpu: list(rows)}
    make_private_folder(os.path.dirname(os.path.abspath(filename)))
    with open(f"{filename}.partial", "w", encoding="utf8") as file:
        json.dump(table, file, indent=1)
    os.replace(f"{filename}.partial", filename)


@functools.cache
def get_cuda_library(gpus: tuple[tuple[str, tuple[int, int]], ...]) -> CudaLibrary | None:
    """
    :param gpus: name and compute capability of each one of this machine
    :return: the kernels, compiled if they are not there; None, after a warning with the reason, if that fails
    """
    if not gpus or not is_wanted() or os.environ.get("RETURNN_CUDA", "1") in ("0", "off", "false"):
        return None
    try:
        compiler = CudaCompiler(capabilities=[capability for _, capability in gpus])
        library = CudaLibrary(compiler.get_lib_filename())
        if error := library.device_error():
            raise UserError(f"{error}.")
        for units, batch, method in read_method_table().get(gpus[0][0], []):
            library.set_method(units, batch, method)
    except (UserError, OSError) as exc:
        warn_once(f"There are no native kernels for the GPU, recurrent layers may be slower: {exc}")
        return None
    return library
