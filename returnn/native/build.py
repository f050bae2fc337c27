"""
Compiles the kernels, once: they are kept in a cache, or come with the installed package.

A source file of kernels can be compiled for several levels of the CPU: "plain", and on x86-64 "avx2" and "avx512". In
the cache, they are compiled for this CPU alone; a package has all levels, and which one runs is decided when it is
loaded. The environment variable `RETURNN_NATIVE_LEVEL` asks for a lower level.
"""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from returnn.util.errors import check_known
from returnn.util.native_code_compiler import NativeCodeCompiler

SOURCES = Path(__file__).parent / "src"
PREBUILT = Path(__file__).parent / "prebuilt"  # made by `pip wheel`, see `setup.py`
_SHARED = ("registry", "signature", "threads")  # compiled once, without kernels
_BINDINGS = ("tensorflow", "driver")  # neither: they need more than we have, or are programs
_LEVELS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "avx2": ("-mavx2", "-mfma"),
    "avx512": ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mavx2", "-mfma", "-mprefer-vector-width=512"),
}
_NEEDED_FLAGS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "avx2": ("avx2", "fma"),
    "avx512": ("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx2", "fma"),
}
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
)

_logger = logging.getLogger("returnn")


def all_levels() -> list[str]:
    """:return: of the CPUs of this kind of machine, the lowest one first"""
    return list(_LEVELS) if platform.machine() in ("x86_64", "AMD64") else ["plain"]


def cpu_level() -> str:
    """:return: the highest level that this CPU has, and is not above the one that was asked for"""
    flags = _cpu_flags()
    possible = [level for level in all_levels() if flags.issuperset(_NEEDED_FLAGS[level])]
    wanted = os.environ.get("RETURNN_NATIVE_LEVEL") or possible[-1]
    check_known("level", wanted, _LEVELS, where="environment variable RETURNN_NATIVE_LEVEL")
    return [level for level in possible if list(_LEVELS).index(level) <= list(_LEVELS).index(wanted)][-1]


def _cpu_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text("utf8")
    except OSError:
        return set()
    return {flag for line in text.splitlines() if line.startswith("flags") for flag in line.split(":")[1].split()}


def kernel_sources() -> list[str]:
    """:return: names of the files with kernels"""
    return sorted(path.stem for path in SOURCES.glob("*.cpp") if path.stem not in (*_SHARED, *_BINDINGS))


def prebuilt_objects() -> list[str]:
    """:return: compiled kernels of all levels that came with the package"""
    return sorted(map(str, PREBUILT.glob("*.o")))


def prebuild(folder: str) -> None:
    """
    Compiles the kernels for all levels, for a package. What has to fit to TensorFlow's version is not in it.

    :param folder: for the library, and the files from which one for TensorFlow is linked
    :raises UserError: if the compiler fails
    """
    os.makedirs(folder, exist_ok=True)
    compiler = KernelCompiler("kernels", levels=all_levels())
    compiler.link(compiler.compile_objects(folder), os.path.join(folder, "kernels.so"))


class KernelCompiler(NativeCodeCompiler):
    """All kernels as one library; with `binding`, the code that makes them known to a framework, too."""

    cpp_version = "17"
    title = "native kernels"

    def __init__(
        self,
        base_name: str,
        *,
        binding: str | None = None,
        levels: Sequence[str] | None = None,
        flags: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        """
        :param base_name: of the library
        :param binding: a file of `src`
        :param levels: of the CPU. Default: the one of this CPU
        :param flags: more flags for all files, such as those of sanitizers
        :param kwargs: see `NativeCodeCompiler`
        """
        self.binding = binding
        self.levels = [cpu_level()] if levels is None else list(levels)
        self.more_flags = list(flags)
        files = sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")])
        super().__init__(
            base_name,
            code="\n".join(path.read_text("utf8") for path in files),
            use_cxx11_abi=True,
            **kwargs,
        )

    def _compiler_flags(self) -> list[str]:
        return [*_FLAGS, *self.more_flags, *(f"-I{path}" for path in self._include_paths)]

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "levels": {level: list(_LEVELS[level]) for level in self.levels}}

    def _compile(self, filename: str) -> None:
        start = time.monotonic()
        _logger.info("native kernels: compiling for %s, once.", ", ".join(self.levels))
        objects = self.compile_objects(self.cache_dir)
        self.link(objects, filename)
        for path in objects if self.binding or self.more_flags else []:
            if os.path.dirname(path) == self.cache_dir:
                os.remove(path)
        _logger.info("native kernels: compiled in %.1f s, kept in %s.", time.monotonic() - start, self.cache_dir)

    def compile_objects(self, folder: str) -> list[str]:
        """
        :param folder: where they go
        :return: names of all object files, in the order in which they are linked
        :raises UserError: if the compiler fails
        """
        made = self._made_objects() if self.binding and not self.more_flags else []
        jobs: list[tuple[str, str, Sequence[str]]] = [] if made else self._jobs()
        if self.binding:
            jobs.append((self.binding, self.binding, ()))
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return [*made, *pool.map(lambda job: self._compile_object(folder, *job), jobs)]

    def _jobs(self) -> list[tuple[str, str, Sequence[str]]]:
        """:return: source, name of the object file and flags of all that every library has"""
        jobs: list[tuple[str, str, Sequence[str]]] = [(name, name, ()) for name in _SHARED]
        for level in self.levels:
            for name in kernel_sources():
                jobs.append((name, f"{name}_{level}", (*_LEVELS[level], f"-DRETURNN_LEVEL={level}")))
        return jobs

    def _made_objects(self) -> list[str]:
        """:return: those of the package, or of the library without a binding, which keeps them; or none"""
        if prebuilt := prebuilt_objects():
            return prebuilt
        folder = os.path.dirname(KernelCompiler("kernels", levels=self.levels).get_lib_filename())
        paths = [os.path.join(folder, f"{name}.o") for _, name, _ in self._jobs()]
        return paths if all(map(os.path.exists, paths)) else []

    def _compile_object(self, folder: str, source: str, name: str, flags: Sequence[str]) -> str:
        path = os.path.join(folder, f"{name}.o")
        self.run_compiler(["-c", str(SOURCES / f"{source}.cpp"), "-o", path, *self._compiler_flags(), *flags])
        return path

    def link(self, objects: Sequence[str], filename: str) -> None:
        """
        :param objects: see `compile_objects`
        :param filename: of the shared library, which is complete or absent
        :raises UserError: if the linker fails
        """
        partial = f"{filename}.partial"
        shared = ["-shared", "-pthread", "-static-libstdc++", "-static-libgcc"]
        self.run_compiler([*objects, "-o", partial, *shared, *self.more_flags, *self.ld_flags])
        os.replace(partial, filename)
