"""Kernels on arrays of numpy: checks, memory for the results, and strides as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from returnn.native.library import Device, Kernel, RawArray
from returnn.native.signature import ArraySpec
from returnn.util.errors import UserError


def call_kernel(
    kernel: Kernel,
    inputs: Mapping[str, numpy.ndarray[Any, Any]],
    *,
    threads: int = 1,
    device: Device | None = None,
    **options: float,
) -> dict[str, Any]:
    """
    :param kernel: to run
    :param inputs: by name; optional ones may be missing
    :param threads: how many may be used
    :param device: for kernels of GPUs, if they are compiled for the host
    :param options: all of the signature
    :return: results by name
    :raises UserError: if a shape or type does not fit, or the kernel says that values are wrong
    """
    signature = kernel.signature
    known: dict[str, int] = {}
    real = next((inputs[spec.name].dtype for spec in signature.inputs if spec.dtype == "real"), numpy.dtype("float32"))
    arrays = []
    for spec in signature.inputs:
        array = inputs.get(spec.name) if spec.optional else inputs[spec.name]
        array = numpy.zeros([0], _dtype(spec, real)) if array is None else array
        if array.dtype != _dtype(spec, real):
            raise UserError(
                f"{kernel.name}: {spec.name} has the type {array.dtype}, but {_dtype(spec, real)} is expected."
            )
        spec.match(array.shape, known, where=kernel.name)
        is_dense = array.ndim == 0 or array.strides[-1] == array.itemsize
        arrays.append(array if is_dense else numpy.ascontiguousarray(array))
    outputs = [numpy.empty([dim.value(known) for dim in spec.dims], _dtype(spec, real)) for spec in signature.outputs]
    kernel.run(list(map(_raw, arrays)), list(map(_raw, outputs)), options, threads=threads, device=device)
    return {spec.name: output for spec, output in zip(signature.outputs, outputs, strict=True)}


def _dtype(spec: ArraySpec, real: numpy.dtype[Any]) -> numpy.dtype[Any]:
    return numpy.dtype(spec.dtype_for(real.name))


def _raw(array: numpy.ndarray[Any, Any]) -> RawArray:
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return RawArray(array.ctypes.data, array.dtype.name, array.shape, strides)
