"""The kernels for GPUs, compiled for this CPU: each thread of a GPU is a fiber here, see `cuda/on_host.h`."""

from __future__ import annotations

import functools

import numpy
import pytest

from returnn.native.cuda import CudaCompiler, CudaLibrary
from returnn.native.library import Device
from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from returnn.util.native_code_compiler import get_cpp_bin


class HostCompiler(CudaCompiler):
    """No `nvcc` is needed for it."""

    def __init__(self, name="cuda_on_host", **kwargs):
        super().__init__(name, capabilities=[], **kwargs)

    def _compiler(self):
        return get_cpp_bin()

    def _compiler_flags(self):
        flags = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Werror", "-Wno-unknown-pragmas"]
        return [*flags, "-DRETURNN_LEVEL=host", *self.more_flags]

    def _release(self):
        return []

    def _link_flags(self):
        return []

    def compile_object(self, source):
        kind = ["-x", "c++"] if source.endswith(".cu") else []
        path = f"{self.cache_dir}/{source.rsplit('/', 1)[-1]}.o"
        self.run_compiler([*kind, "-c", source, "-o", path, *self._compiler_flags()])
        return path


@functools.cache
def _library() -> CudaLibrary | str:
    try:
        return CudaLibrary(HostCompiler().get_lib_filename())
    except UserError as exc:
        return str(exc)


def library() -> CudaLibrary:
    """:return: all kernels; the test is skipped if there is no compiler"""
    found = _library()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def run(name: str, inputs, **options):
    """:return: results by name. What a kernel gets as memory is full of NaN"""
    buffers = []

    def allocate(num_bytes: int) -> int:
        buffers.append(numpy.full([num_bytes + 256], 255, "uint8"))
        address = buffers[-1].ctypes.data
        return address + -address % 256

    device = Device(stream=0, allocate=allocate)
    return call_kernel(library().kernels[name], inputs, device=device, **options)
