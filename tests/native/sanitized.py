"""
Calls of kernels in a program of their own, which ends with a report if memory is used wrongly.

It has the level "plain" and is not optimized, as sanitizers make compiling slow, and the more so the larger the tiles
are.
"""

from __future__ import annotations

import functools
import os
import struct
import subprocess
from pathlib import Path

import numpy
import pytest

from returnn.native.build import KernelCompiler
from returnn.native.library import DTYPES
from returnn.native.signature import Signature
from returnn.util.errors import UserError
from returnn.util.native_code_compiler import get_cpp_bin
from tests.native.cuda_on_host import HostCompiler

DRIVER = Path(__file__).parent / "driver.cpp"
FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O0", "-g1")


class _ProgramInsteadOfLibrary:
    def link(self, objects, filename):
        sources = str(DRIVER.parent.parent.parent / "returnn/native/src")
        command = [get_cpp_bin(), "-std=c++17", f"-I{sources}", str(DRIVER), *objects, *self.more_flags, "-pthread"]
        result = subprocess.run([*command, "-o", filename], capture_output=True, text=True, check=False)
        if result.returncode:
            raise UserError(f"the driver cannot be compiled: {result.stderr}")


class _Driver(_ProgramInsteadOfLibrary, KernelCompiler):
    """The kernels, and a program that calls them."""


class _CudaDriver(_ProgramInsteadOfLibrary, HostCompiler):
    """The same with those for GPUs, compiled for the CPU."""


@functools.cache
def _driver(for_gpu: bool) -> str | None:
    needs = {"include_deps": [str(DRIVER)]}
    # Of the stacks of fibers, between which kernels for GPUs jump, the sanitizer knows nothing.
    flags = [*FLAGS, "--param=asan-stack=0"] if for_gpu else FLAGS
    try:
        if for_gpu:
            return _CudaDriver("cuda_driver", flags=flags, **needs).get_lib_filename()
        return _Driver("driver", levels=["plain"], flags=flags, **needs).get_lib_filename()
    except UserError as exc:
        return str(exc)


def run_sanitized(
    name: str,
    signature: Signature,
    inputs,
    folder: Path,
    *,
    threads: int = 1,
    for_gpu: bool = False,
    **options: float,
) -> None:
    """
    :param name: of the kernel
    :param signature: of the kernel
    :param inputs: by name; the optional ones may be missing
    :param folder: for the call
    :raises AssertionError: with the report
    """
    driver = _driver(for_gpu)
    if not os.path.isfile(driver):
        pytest.skip(driver)
    known: dict[str, int] = {}
    floats = [inputs[spec.name] for spec in signature.inputs if spec.dtype == "real" and spec.name in inputs]
    real = floats[0].dtype if floats else numpy.dtype("float32")
    arrays = []
    for spec in signature.inputs:
        dtype = spec.dtype_for(real.name)
        array = inputs.get(spec.name)
        arrays.append(numpy.zeros([0], dtype) if array is None else numpy.ascontiguousarray(array))
        spec.match(arrays[-1].shape, known, where=name)
    shapes = [[dim.value(known) for dim in spec.dims] for spec in signature.outputs]
    types = [spec.dtype_for(real.name) for spec in signature.outputs]
    path = folder / "call"
    with path.open("wb") as file:
        file.write(_numbers(len(name)) + name.encode() + _numbers(threads, len(signature.options)))
        file.write(struct.pack(f"{len(signature.options)}d", *(float(options[key]) for key in signature.options)))
        file.write(_numbers(len(arrays), len(shapes)))
        for array in arrays:
            file.write(_numbers(array.ndim, DTYPES.index(array.dtype.name), *array.shape) + array.tobytes())
        for shape, dtype in zip(shapes, types, strict=True):
            file.write(_numbers(len(shape), DTYPES.index(dtype), *shape))
    result = subprocess.run([driver, str(path)], capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr[:4000]}"


def _numbers(*values: int) -> bytes:
    return struct.pack(f"{len(values)}q", *values)
