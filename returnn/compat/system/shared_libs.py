"""Shared libraries: where the system has them, and which ones this process has loaded."""

from __future__ import annotations

import glob
import mmap
import os
import shutil
import subprocess
from collections.abc import Iterator

import numpy


def make_dll_name(basename: str) -> str:
    """:return: file name of a shared library: "libfoo.so" for "foo" """
    return f"lib{basename}.so"


def get_ld_paths() -> list[str]:
    """:return: folders where libraries are looked for: of `LD_LIBRARY_PATH`, of the system's config, and the usual"""
    folders = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    if os.path.exists("/etc/ld.so.conf"):
        folders += parse_ld_conf_file("/etc/ld.so.conf")
    return [*folders, "/lib", "/usr/lib", "/lib64", "/usr/lib64"]


def parse_ld_conf_file(fn: str) -> list[str]:
    """
    :param fn: file such as "/etc/ld.so.conf"
    :return: folders in it, and in the files that it includes
    """
    folders: list[str] = []
    with open(fn, encoding="utf8") as file:
        for line in file:
            line = line.partition("#")[0].strip()
            if line.startswith("include "):
                pattern = os.path.join(os.path.dirname(fn), line.split(None, 1)[1])
                for included in sorted(glob.glob(pattern)):
                    folders += parse_ld_conf_file(included)
            elif line:
                folders.append(line)
    return folders


def find_lib(lib_name: str) -> str | None:
    """
    :param lib_name: such as "cblas"
    :return: path of the library, None if the system does not have it
    """
    for folder in get_ld_paths():
        path = os.path.join(folder, make_dll_name(lib_name))
        if os.path.exists(path):
            return path
    return None


def collect_proc_maps_exec_files() -> list[str]:
    """:return: files whose code this process has loaded: the program and shared libraries"""
    files: dict[str, None] = {}
    with open("/proc/self/maps", encoding="utf8") as file:
        for line in file:
            fields = line.split(None, 5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                files[fields[5].rstrip("\n")] = None
    return list(files)


def find_sym_in_exec(fn: str, sym: str) -> str | None:
    """
    :param fn: file of a shared library
    :param sym: name of a function
    :return: what `nm` says of it, None if the library does not define it
    """
    if shutil.which("nm") is None or not _has_text(fn, sym):  # for the libraries of TensorFlow, `nm` takes seconds
        return None
    for option in ("-D", "-g"):
        result = subprocess.run(["nm", option, "--defined-only", fn], capture_output=True, text=True, check=False)
        for line in result.stdout.splitlines():
            if line.split()[-1].partition("@")[0] == sym:
                return line
    return None


def _has_text(fn: str, text: str) -> bool:
    """:return: whether it is anywhere in the file"""
    try:
        with open(fn, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(text.encode()) >= 0
    except (OSError, ValueError):  # there is none, or it is empty
        return False


def find_sgemm_libs_from_runtime() -> list[str]:
    """:return: loaded libraries that define the matrix product of Fortran, `sgemm_`"""
    dummy_numpy_gemm_call()
    return [path for path in _loaded_libraries() if find_sym_in_exec(path, "sgemm_")]


def find_libcudart_from_runtime() -> str | None:
    """:return: path of the loaded CUDA runtime library"""
    return next((path for path in _loaded_libraries() if "libcudart." in os.path.basename(path)), None)


def dummy_numpy_gemm_call() -> None:
    """Multiplies two matrices, so that numpy has loaded what it uses for that."""
    numpy.dot(numpy.zeros((2, 2), "float32"), numpy.zeros((2, 2), "float32"))


def _loaded_libraries() -> Iterator[str]:
    return (path for path in collect_proc_maps_exec_files() if ".so" in os.path.basename(path) and os.path.exists(path))
