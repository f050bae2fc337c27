"""Where CUDA is installed: its compiler and its libraries."""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import subprocess
from typing import ClassVar

from returnn.util.native_code_compiler import get_cc_bin

_FOLDERS = ("/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", "/opt/cuda-*", "/usr/lib/cuda")
_FIRST_SUPPORT = {"7.0": (9, 0), "7.5": (10, 0), "8.0": (11, 0), "8.6": (11, 1), "8.9": (11, 8), "9.0": (11, 8)}


class CudaEnv:
    """The installation of CUDA with a compiler, if there is one. `CUDA_PATH` and `CUDA_HOME` say where."""

    verbose_find_cuda: ClassVar[bool] = False

    def __init__(self) -> None:
        self.cuda_path = _find_cuda(verbose=self.verbose_find_cuda)

    def __bool__(self) -> bool:
        return self.is_available()

    @classmethod
    @functools.cache
    def get_instance(cls) -> CudaEnv:
        """:return: always the same object"""
        return cls()

    def is_available(self) -> bool:
        """:return: whether there is an installation with a compiler"""
        return self.cuda_path is not None

    def get_compiler_bin(self) -> str:
        """:return: path of `nvcc`"""
        assert self.cuda_path is not None, "CUDA is not installed"
        return os.path.join(self.cuda_path, "bin", "nvcc")

    @staticmethod
    def get_cc_bin() -> str:
        """:return: the C compiler that `nvcc` uses"""
        return get_cc_bin()

    def get_cuda_version(self) -> tuple[int, int]:
        """:return: such as (12, 4)"""
        return _version_of_nvcc(self.get_compiler_bin())

    def get_lib_dir_path(self) -> str:
        """:return: folder of the libraries"""
        assert self.cuda_path is not None, "CUDA is not installed"
        for name in ("lib64", "targets/x86_64-linux/lib", "lib"):
            if os.path.isdir(path := os.path.join(self.cuda_path, name)):
                return path
        return os.path.join(self.cuda_path, "lib64")

    def get_max_compute_capability(self) -> float:
        """:return: of the newest GPU that the compiler knows, such as 9.0"""
        version = self.get_cuda_version()
        return max((float(c) for c, first in _FIRST_SUPPORT.items() if version >= first), default=6.0)

    def get_compiler_opts(self) -> list[str]:
        """:return: for `nvcc`"""
        return [
            "-ccbin",
            self.get_cc_bin(),
            "-I",
            f"{self.cuda_path}/include",
            "-L",
            self.get_lib_dir_path(),
            "-x",
            "cu",
        ]


def get_cuda_path_candidates_from_common_install_locations() -> list[str]:
    """:return: folders which look like CUDA, the newest first"""
    found = {path for pattern in _FOLDERS for path in glob.glob(pattern) if os.path.isdir(path)}
    return sorted(found, reverse=True)


def get_best_nvcc_path_for_cuda_version(cuda_version: tuple[int, int]) -> str | None:
    """:return: path of an `nvcc` of this version; if there is none, of another one of the same major version"""
    folders = get_cuda_path_candidates_from_common_install_locations()
    paths = [os.path.join(folder, "bin", "nvcc") for folder in folders]
    versions = {path: _version_of_nvcc(path) for path in paths if os.access(path, os.X_OK)}
    exact = [path for path, version in versions.items() if version == cuda_version]
    same_major = [path for path, version in versions.items() if version[0] == cuda_version[0]]
    return next(iter([*exact, *same_major]), None)


def _find_cuda(*, verbose: bool) -> str | None:
    if os.environ.get("DISABLE_CUDA") == "1":
        return None
    nvcc = shutil.which("nvcc")
    candidates = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME")]
    candidates.append(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) if nvcc else None)
    for path in filter(None, [*candidates, *get_cuda_path_candidates_from_common_install_locations()]):
        is_it = os.access(os.path.join(path, "bin", "nvcc"), os.X_OK)
        if verbose:
            print(f"CUDA in {path!r}: {'yes' if is_it else 'no'}")
        if is_it:
            return path
    return None


@functools.cache
def _version_of_nvcc(nvcc: str) -> tuple[int, int]:
    output = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"release (\d+)\.(\d+)", output)
    assert match, output
    return int(match[1]), int(match[2])
