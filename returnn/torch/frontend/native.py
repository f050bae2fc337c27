"""
The kernels of `returnn.native` as operations of PyTorch, `torch.ops.returnn.lstm` for `lstm`, also for `torch.compile`.

A kernel `lstm_grad` is the gradient of `lstm`: which of its inputs are inputs of `lstm`, its outputs, and gradients of
those (`d_h`), the names say. Nothing is compiled for PyTorch: kernels are called with addresses.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from returnn.native.library import Kernel, Library, RawArray, get_library, is_wanted
from returnn.native.signature import ArraySpec
from returnn.util.errors import UserError

_GRAD = "_grad"
_OPTION_TYPES = {"bool": "bool", "int": "int", "float": "float"}


def get_operations() -> Any:
    """:return: an object with one function per kernel; None, after a warning with the reason, if there are none"""
    return _registered() if is_wanted() else None


def has_operations(x: torch.Tensor) -> bool:
    """:return: whether there are operations for tensors like this one"""
    fits = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64, torch.int32)
    return fits and not torch.jit.is_tracing() and get_operations() is not None


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
    specs = kernel.signature.inputs
    real = _real_dtype(kernel, values)
    given = []
    for spec, value in zip(specs, values, strict=False):
        dtype = _dtype(spec, real)
        if value is None:
            value = torch.empty([0], dtype=dtype)
        if value.dtype != dtype:
            raise UserError(f"{kernel.name}: {spec.name} has the type {value.dtype}, but {dtype} is expected.")
        is_dense = value.dim() == 0 or value.stride(-1) == 1
        given.append(value if is_dense else value.contiguous())
    outputs = _empty_outputs(kernel, given)
    options = dict(zip(kernel.signature.options, values[len(specs) :], strict=True))
    kernel.run(list(map(_raw, given)), list(map(_raw, outputs)), options, threads=torch.get_num_threads())
    return _results(outputs)


def _empty_outputs(kernel: Kernel, inputs: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    known: dict[str, int] = {}
    for spec, value in zip(kernel.signature.inputs, inputs, strict=True):
        if value is not None:
            spec.match(tuple(value.shape), known, where=kernel.name)
    real = _real_dtype(kernel, inputs)
    return [
        torch.empty([dim.value(known) for dim in spec.dims], dtype=_dtype(spec, real))
        for spec in kernel.signature.outputs
    ]


def _real_dtype(kernel: Kernel, values: Sequence[Any]) -> torch.dtype:
    pairs = zip(kernel.signature.inputs, values, strict=False)
    return next((x.dtype for spec, x in pairs if spec.dtype == "real" and x is not None), torch.float32)


def _dtype(spec: ArraySpec, real: torch.dtype) -> torch.dtype:
    return real if spec.dtype == "real" else getattr(torch, spec.dtype)


def _results(outputs: list[torch.Tensor]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _raw(x: torch.Tensor) -> RawArray:
    return RawArray(x.data_ptr(), str(x.dtype).removeprefix("torch."), tuple(x.shape), x.stride())
