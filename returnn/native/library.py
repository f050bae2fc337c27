"""
The compiled kernels, by name. Where there are none, as there is no compiler, callers have something slower.

The environment variable `RETURNN_NATIVE=0` turns all of them off.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from returnn.native.build import PREBUILT, KernelCompiler
from returnn.native.signature import Signature, parse_signature
from returnn.util.errors import UserError
from returnn.util.system.warn_once import warn_once

# In the order of `returnn_type` in kernel.h.
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "float16", "bfloat16")


@dataclass(frozen=True)
class RawArray:
    """Where an array is in memory, and how it lies there."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements


_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class _Array(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("type", ctypes.c_int32),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("inputs", ctypes.POINTER(_Array)),
        ("outputs", ctypes.POINTER(_Array)),
        ("options", ctypes.POINTER(ctypes.c_double)),
        ("threads", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("allocate", _ALLOCATE),
        ("context", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Device:
    """Where a kernel for GPUs runs, and what gives it memory."""

    stream: int  # the address of CUDA's
    allocate: Callable[[int], int]  # bytes -> address, valid until all that was called so far has run in the stream


@dataclass(frozen=True)
class Kernel:
    """A kernel of the library."""

    name: str
    number: int
    signature: Signature
    library: ctypes.CDLL

    def run(
        self,
        inputs: Sequence[RawArray],
        outputs: Sequence[RawArray],
        options: Mapping[str, float],
        *,
        threads: int = 1,
        device: Device | None = None,
    ) -> None:
        """
        :param inputs: as in the signature, which has to be checked before
        :param outputs: memory for the results
        :param options: all of the signature
        :param threads: how many may be used
        :param device: for kernels of GPUs: all addresses are in its memory
        :raises UserError: if the kernel says that something is wrong with the values
        :raises RuntimeError, MemoryError: from the device, if it has no memory
        """
        values = [float(options[name]) for name in self.signature.options]
        failures: list[Exception] = []

        def allocate(_: int | None, num_bytes: int) -> int | None:
            assert device is not None
            try:
                return device.allocate(num_bytes)
            except (RuntimeError, MemoryError) as exc:  # nothing may be raised through the library
                failures.append(exc)
                return None

        call = _Call(
            (_Array * len(inputs))(*map(_as_struct, inputs)),
            (_Array * len(outputs))(*map(_as_struct, outputs)),
            (ctypes.c_double * len(values))(*values),
            threads,
            None if device is None else device.stream,
            _ALLOCATE() if device is None else _ALLOCATE(allocate),
        )
        error = self.library.returnn_run(self.number, ctypes.byref(call))
        if failures:
            raise failures[0]
        if error:
            raise UserError(f"{self.name}: {error.decode()}.")


def _as_struct(array: RawArray) -> _Array:
    numbers = ctypes.c_int64 * max(1, len(array.shape))
    return _Array(
        array.address, numbers(*array.shape), numbers(*array.strides), len(array.shape), DTYPES.index(array.dtype)
    )


class Library:
    """A compiled library."""

    def __init__(self, filename: str) -> None:
        """
        :param filename: of the shared library
        """
        self.filename = filename
        lib = ctypes.CDLL(filename)
        for name in ("returnn_kernel_name", "returnn_kernel_signature", "returnn_level", "returnn_run"):
            getattr(lib, name).restype = ctypes.c_char_p
        lib.returnn_run.argtypes = [ctypes.c_int, ctypes.c_void_p]
        self.level = lib.returnn_level().decode()
        self.kernels: dict[str, Kernel] = {}
        for number in range(lib.returnn_num_kernels()):
            name = lib.returnn_kernel_name(number).decode()
            signature = parse_signature(lib.returnn_kernel_signature(number).decode())
            self.kernels[name] = Kernel(name, number, signature, lib)


def is_wanted() -> bool:
    """:return: whether kernels may be used at all"""
    return os.environ.get("RETURNN_NATIVE", "1") not in ("0", "off", "false")


def library_filename() -> str:
    """
    :return: of the kernels, without a backend: those of the package, or else compiled if they are not there
    :raises UserError: if they cannot be compiled
    """
    prebuilt = PREBUILT / "kernels.so"
    return str(prebuilt) if prebuilt.exists() else KernelCompiler("kernels").get_lib_filename()


@functools.cache
def get_library() -> Library | None:
    """:return: the kernels, compiled if they are not there; None, after a warning with the reason, if that fails"""
    if not is_wanted():
        return None
    try:
        return Library(library_filename())
    except (UserError, OSError) as exc:
        warn_once(f"There are no native kernels, recurrent layers and alignments are slower: {exc}")
        return None
