"""
The kernels of `returnn.native` as operations of PyTorch, `torch.ops.returnn.lstm` for `lstm`, also for `torch.compile`.

A kernel `lstm_grad` is the gradient of `lstm`: which of its inputs are inputs of `lstm`, its outputs, and gradients of
those (`d_h`), the names say. Nothing is compiled for PyTorch: kernels are called with addresses.

Kernels that are there for GPUs, too, are the same operations on tensors of CUDA. They run in PyTorch's current stream,
and what they need meanwhile comes from its memory.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from returnn.native.cuda import CudaLibrary, get_cuda_library
from returnn.native.library import Device, Kernel, Library, RawArray, get_library, is_wanted
from returnn.native.signature import ArraySpec
from returnn.util.errors import UserError

_GRAD = "_grad"
_GPU_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_OPTION_TYPES = {"bool": "bool", "int": "int", "float": "float"}


def get_operations() -> Any:
    """:return: an object with one function per kernel; None, after a warning with the reason, if there are none"""
    return _registered() if is_wanted() else None


def has_operations(x: torch.Tensor) -> bool:
    """:return: whether there are operations for tensors like this one"""
    fits = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64, torch.int32)
    return fits and not torch.jit.is_tracing() and get_operations() is not None


def has_operation(name: str, x: torch.Tensor) -> bool:
    """
    :param name: of a kernel
    :param x: a tensor like those of the type "real" in its signature
    :return: whether there is an operation for it, on its device
    """
    if x.device.type != "cuda":
        return has_operations(x)
    if x.dtype not in _GPU_TYPES or torch.jit.is_tracing() or get_operations() is None:
        return False
    library = get_gpu_library()
    return library is not None and name in library.kernels


def get_gpu_library() -> CudaLibrary | None:
    """:return: kernels for the GPUs of this machine; None, after a warning with the reason, if there are none"""
    if not torch.cuda.is_available():
        return None
    devices = range(torch.cuda.device_count())
    return get_cuda_library(
        tuple((torch.cuda.get_device_name(i), torch.cuda.get_device_capability(i)) for i in devices)
    )


@functools.cache
def _registered() -> Any:
    library = get_library()
    if library is None:
        return None
    for kernel in library.kernels.values():
        _register(kernel, library)
    return torch.ops.returnn


def _register(kernel: Kernel, library: Library) -> None:
    specs = kernel.signature.inputs
    args = [f"Tensor{'?' if spec.optional else ''} {spec.name}" for spec in specs]
    args += [f"{_OPTION_TYPES[kind]} {name}" for name, kind in kernel.signature.options.items()]
    results = ", ".join("Tensor" for _ in kernel.signature.outputs)
    schema = f"({', '.join(args)}) -> ({results})"

    def compute(*values: Any) -> Any:
        return _compute(kernel, values)

    op = torch.library.custom_op(f"returnn::{kernel.name}", compute, mutates_args=(), device_types="cpu", schema=schema)
    op.register_kernel("cuda", lambda *values: _compute_on_gpu(kernel, values))
    op.register_fake(lambda *values: _results(_empty_outputs(kernel, values[: len(specs)])))
    if kernel.name + _GRAD in library.kernels:
        _register_gradient(op, kernel, library.kernels[kernel.name + _GRAD])


def _register_gradient(op: Any, kernel: Kernel, grad_kernel: Kernel) -> None:
    arguments, results = kernel.signature.inputs, kernel.signature.outputs
    needed = {spec.name for spec in grad_kernel.signature.inputs}

    def keep(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        ctx.set_materialize_grads(False)
        tensors = output if isinstance(output, (tuple, list)) else (output,)
        pairs = [*zip(arguments, inputs, strict=False), *zip(results, tensors, strict=True)]
        kept = {spec.name: value for spec, value in pairs if spec.name in needed and value is not None}
        ctx.names = list(kept)
        ctx.save_for_backward(*kept.values())
        ctx.options = dict(zip(kernel.signature.options, inputs[len(arguments) :], strict=True))
        ctx.is_given = [value is not None for value in inputs]

    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        values = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        values |= {f"d_{spec.name}": grad for spec, grad in zip(results, grads, strict=True)}
        for spec in grad_kernel.signature.inputs:
            if values.get(spec.name) is None and not spec.optional:
                values[spec.name] = torch.zeros_like(values[spec.name.removeprefix("d_")])
        args = [values.get(spec.name) for spec in grad_kernel.signature.inputs]
        options = [ctx.options[name] for name in grad_kernel.signature.options]
        tensors = getattr(torch.ops.returnn, grad_kernel.name)(*args, *options)
        tensors = tensors if isinstance(tensors, (tuple, list)) else (tensors,)
        by_name = {spec.name: x for spec, x in zip(grad_kernel.signature.outputs, tensors, strict=True)}
        names = [f"d_{spec.name}" for spec in arguments] + [""] * len(kernel.signature.options)
        return tuple(by_name.get(name) if given else None for name, given in zip(names, ctx.is_given, strict=True))

    op.register_autograd(backward, setup_context=keep)


def _compute(kernel: Kernel, values: Sequence[Any]) -> Any:
    given, outputs, options = _prepared(kernel, values)
    kernel.run(list(map(_raw, given)), list(map(_raw, outputs)), options, threads=torch.get_num_threads())
    return _results(outputs)


def _compute_on_gpu(kernel: Kernel, values: Sequence[Any]) -> Any:
    library = get_gpu_library()
    if library is None or kernel.name not in library.kernels:
        raise UserError(f"{kernel.name}: there is no such kernel for this GPU.")
    given, outputs, options = _prepared(kernel, values)
    device = given[0].device
    others = [spec.name for spec, x in zip(kernel.signature.inputs, given, strict=True) if x.device != device]
    if others:
        raise UserError(f"{kernel.name}: {', '.join(others)} should be on {device}, as what comes first.")
    with torch.cuda.device(device):
        workspace: list[torch.Tensor] = []  # PyTorch gives this memory away only to what comes later in the stream

        def allocate(num_bytes: int) -> int:
            workspace.append(torch.empty([num_bytes], dtype=torch.uint8, device=device))
            return workspace[-1].data_ptr()

        stream = Device(torch.cuda.current_stream(device).cuda_stream, allocate)
        run = library.kernels[kernel.name].run
        run(list(map(_raw, given)), list(map(_raw, outputs)), options, device=stream)
    return _results(outputs)


def _prepared(kernel: Kernel, values: Sequence[Any]) -> tuple[list[torch.Tensor], list[torch.Tensor], dict[str, Any]]:
    """:return: inputs whose types and layouts a kernel takes, memory for outputs, options"""
    specs = kernel.signature.inputs
    real = _real_dtype(kernel, values)
    device = _device(values)
    given = []
    for spec, value in zip(specs, values, strict=False):
        dtype = _dtype(spec, real)
        if value is None:
            value = torch.empty([0], dtype=dtype, device=device)
        if value.dtype != dtype:
            raise UserError(f"{kernel.name}: {spec.name} has the type {value.dtype}, but {dtype} is expected.")
        is_dense = value.dim() == 0 or value.stride(-1) == 1
        given.append(value if is_dense else value.contiguous())
    options = dict(zip(kernel.signature.options, values[len(specs) :], strict=True))
    return given, _empty_outputs(kernel, given), options


def _empty_outputs(kernel: Kernel, inputs: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    known: dict[str, int] = {}
    for spec, value in zip(kernel.signature.inputs, inputs, strict=True):
        if value is not None:
            spec.match(tuple(value.shape), known, where=kernel.name)
    real = _real_dtype(kernel, inputs)
    device = _device(inputs)
    return [
        torch.empty([dim.value(known) for dim in spec.dims], dtype=_dtype(spec, real), device=device)
        for spec in kernel.signature.outputs
    ]


def _device(values: Sequence[Any]) -> torch.device:
    """:return: of the first tensor"""
    return next(value.device for value in values if isinstance(value, torch.Tensor))


def _real_dtype(kernel: Kernel, values: Sequence[Any]) -> torch.dtype:
    pairs = zip(kernel.signature.inputs, values, strict=False)
    return next((x.dtype for spec, x in pairs if spec.dtype == "real" and x is not None), torch.float32)


def _dtype(spec: ArraySpec, real: torch.dtype) -> torch.dtype:
    return getattr(torch, spec.dtype_for(str(real).removeprefix("torch.")))


def _results(outputs: list[torch.Tensor]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _raw(x: torch.Tensor) -> RawArray:
    return RawArray(x.data_ptr(), str(x.dtype).removeprefix("torch."), tuple(x.shape), x.stride())
