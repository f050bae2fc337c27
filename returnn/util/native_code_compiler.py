"""
Compiles C and C++ code into a shared library, once: it is kept in a cache, by its code and its options.

Several processes may want the same library at the same time. One of them compiles it, under a lock, and it is there
for all when it is complete.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TextIO

from returnn.util.errors import UserError
from returnn.util.files.file_lock import LockFile
from returnn.util.files.folders import get_cache_dir, make_private_folder

_UNUSED_DAYS = 60  # after that, a library is deleted
_LOCK_TIMEOUT_S = 600


class NativeCodeCompiler:
    """Compiles code, and loads the library. Derived classes say with which further options."""

    CacheDirName: ClassVar[str] = "returnn_native"
    CollectedCompilers: ClassVar[list[NativeCodeCompiler] | None] = None  # a list gets each object that is made
    cpp_version: ClassVar[str] = "11"
    title: ClassVar[str] = "native code"  # what it compiles, in errors

    def __init__(
        self,
        base_name: str,
        *,
        code_version: int | Sequence[int] = 1,
        code: str,
        is_cpp: bool = True,
        c_macro_defines: Mapping[str, Any] | None = None,
        ld_flags: Sequence[str] | None = None,
        include_paths: Sequence[str] = (),
        include_deps: Sequence[str] | None = None,
        static_version_name: str | None = None,
        should_cleanup_old_all: bool = True,
        should_cleanup_old_mydir: bool = False,
        use_cxx11_abi: bool = False,
        log_stream: TextIO | None = None,
        verbose: bool | None = None,
    ):
        """
        :param base_name: name of the library
        :param code_version: another one means another library
        :param code: C or C++
        :param is_cpp: whether it is C++
        :param c_macro_defines: macros; None as value: the macro is not defined
        :param ld_flags: for the linker
        :param include_paths: for the compiler
        :param include_deps: files that the code includes: when they change, it is compiled again
        :param static_version_name: name of the folder in the cache, instead of one that depends on the code
        :param should_cleanup_old_all: delete libraries in the cache that nobody has used for months
        :param should_cleanup_old_mydir: delete older versions of this one
        :param use_cxx11_abi: use the newer ABI of the standard library of GCC
        :param log_stream: for what happens
        :param verbose: write the command and its output there, or to the standard output. Default: if the environment
            variable `RETURNN_NATIVE_CODE_COMPILER_VERBOSE` is 1
        """
        self.base_name = base_name
        self.code_version = code_version
        self.code = code
        self.is_cpp = is_cpp
        self.c_macro_defines = {k: v for k, v in (c_macro_defines or {}).items() if v is not None}
        self.ld_flags = list(ld_flags or ())
        self.include_deps = list(include_deps or ())
        self.static_version_name = static_version_name
        self.use_cxx11_abi = use_cxx11_abi
        self.verbose = os.environ.get("RETURNN_NATIVE_CODE_COMPILER_VERBOSE") == "1" if verbose is None else verbose
        self._include_paths = list(include_paths)
        self._log_stream = log_stream
        self._lib_filename: str | None = None
        if self.CollectedCompilers is not None:
            self.CollectedCompilers.append(self)
        folder = os.path.join(get_cache_dir(), self.CacheDirName, base_name)
        if should_cleanup_old_all:
            _delete_unused(folder, max_age_s=_UNUSED_DAYS * 24 * 3600)
        if should_cleanup_old_mydir:
            _delete_unused(folder, max_age_s=0, keep=self._version_name())
        self.cache_dir = os.path.join(folder, self._version_name())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.base_name!r} in {self.cache_dir!r}>"

    def get_lib_filename(self) -> str:
        """
        :return: of the shared library, compiled if it is not there
        :raises UserError: if it cannot be compiled
        """
        if self._lib_filename is None:
            filename = os.path.join(self.cache_dir, f"{self.base_name}.so")
            self._make_folders()
            with LockFile(self.cache_dir, lock_timeout=_LOCK_TIMEOUT_S):
                if not os.path.exists(filename) or self._info() != self._read_info():
                    self._compile(filename)
                    _write(os.path.join(self.cache_dir, "info.json"), json.dumps(self._info()))
                os.utime(filename)
            self._lib_filename = filename
        return self._lib_filename

    def load_lib_ctypes(self) -> ctypes.CDLL:
        """:return: the library"""
        return ctypes.CDLL(self.get_lib_filename())

    # What derived classes change.

    def _compiler(self) -> str:
        return get_cpp_bin() if self.is_cpp else get_cc_bin()

    def _compiler_flags(self) -> list[str]:
        flags = ["-shared", "-O2", "-fPIC"]
        if self.is_cpp:
            flags += [f"-std=c++{self.cpp_version}", f"-D_GLIBCXX_USE_CXX11_ABI={int(self.use_cxx11_abi)}"]
        return [*flags, *(f"-I{path}" for path in self._include_paths), *map(_as_flag, self.c_macro_defines.items())]

    def _code_suffix(self) -> str:
        return ".cc" if self.is_cpp else ".c"

    # How it is made.

    def _make_folders(self) -> None:
        """:raises ConfigError: if somebody else may have put a library there"""
        folder = get_cache_dir()
        make_private_folder(folder)
        for name in os.path.relpath(self.cache_dir, folder).split(os.sep):
            folder = os.path.join(folder, name)
            make_private_folder(folder)

    def _info(self) -> dict[str, Any]:
        """:return: what the library depends on"""
        return {
            "code": self.code,
            "version": json.loads(json.dumps(self.code_version)),
            "compiler": self._compiler(),
            "flags": [*self._compiler_flags(), *self.ld_flags],
            "included": {path: _hash_of_file(path) for path in self.include_deps},
        }

    def _version_name(self) -> str:
        text = json.dumps(self._info(), sort_keys=True)
        return self.static_version_name or hashlib.sha256(text.encode()).hexdigest()[:16]

    def _read_info(self) -> Any:
        try:
            with open(os.path.join(self.cache_dir, "info.json"), encoding="utf8") as file:
                return json.load(file)
        except (OSError, ValueError):
            return None

    def _compile(self, filename: str) -> None:
        source = os.path.join(self.cache_dir, f"{self.base_name}{self._code_suffix()}")
        _write(source, self.code)
        partial = f"{filename}.partial"
        command = [self._compiler(), source, "-o", partial, *self._compiler_flags(), *self.ld_flags]
        self._log(f"{self.base_name}: {' '.join(command)}")
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self._log(result.stdout)
        if result.returncode != 0:
            errors = [line for line in result.stdout.splitlines() if "error:" in line] or result.stdout.splitlines()
            first = errors[0].removeprefix(f"{self.cache_dir}/") if errors else f"exit status {result.returncode}"
            raise UserError(f"native code {self.base_name!r} cannot be compiled: {first}\n  The code is in {source!r}.")
        os.replace(partial, filename)

    def run_compiler(self, args: Sequence[str]) -> str:
        """
        :param args: for the compiler
        :return: what it has written
        :raises UserError: if it fails
        """
        command = [self._compiler(), *args]
        self._log(" ".join(command))
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self._log(result.stdout)
        if result.returncode != 0:
            lines = result.stdout.splitlines()
            errors = [line for line in lines if "error" in line] or lines or [f"exit status {result.returncode}"]
            raise UserError(f"{self.title} cannot be compiled: {errors[0]}\n  The command was: {' '.join(command)}")
        return result.stdout

    def _log(self, text: str) -> None:
        if self.verbose and text:
            print(text.rstrip(), file=self._log_stream or sys.stdout)


def get_cc_bin() -> str:
    """:return: the C compiler; the environment variable CC names it"""
    return _find_compiler(os.environ.get("CC"), "gcc", "clang", "cc")


def get_cpp_bin() -> str:
    """:return: the C++ compiler; the environment variable CXX names it"""
    return _find_compiler(os.environ.get("CXX"), "g++", "clang++", "c++")


def _find_compiler(*names: str | None) -> str:
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        raise UserError(f"there is no compiler: none of {', '.join(filter(None, names))} is installed.")
    return found


def _as_flag(macro: tuple[str, Any]) -> str:
    name, value = macro
    return f"-D{name}={int(value) if isinstance(value, bool) else value}"


def _hash_of_file(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return None


def _write(filename: str, content: str) -> None:
    with open(filename, "w", encoding="utf8") as file:
        file.write(content)


def _delete_unused(folder: str, *, max_age_s: float, keep: str | None = None) -> None:
    """Deletes the versions in a folder whose library was not used for some time, and those that are not complete."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for version in os.listdir(folder):
            path = os.path.join(folder, version)
            libraries = [name for name in os.listdir(path) if name.endswith(".so")]
            times = [os.stat(os.path.join(path, name)).st_mtime for name in (*libraries, "")]
            if version != keep and time.time() - max(times) > max_age_s:
                shutil.rmtree(path, ignore_errors=True)
