"""
The kernels of `returnn.native` as operations of TensorFlow.

Each kernel is one operation, `ReturnnLstm` for `lstm`. Their library is compiled when it is first needed; a graph with
such operations can be loaded elsewhere after `tf.load_op_library` of that file. A kernel `lstm_grad` is the gradient of
`lstm`: which of its inputs are inputs of `lstm`, its outputs, and gradients of those (`d_h`), the names say. Where a
kernel has none, such as the edit distance, its results count as constants.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf

from returnn.native.build import KernelCompiler
from returnn.native.library import Kernel, Library, is_wanted
from returnn.tf.frontend_low_level.known_zero import is_known_zero
from returnn.util.errors import UserError
from returnn.util.system.warn_once import warn_once

_GRAD = "_grad"
_PREFIX = "Returnn"  # of types of operations


class Operations:
    """A loaded library of operations."""

    def __init__(self, filename: str) -> None:
        """
        :param filename: of the library
        """
        self.filename = filename
        self.module = tf.load_op_library(filename)
        self.kernels = Library(filename).kernels
        for kernel in self.kernels.values():
            if kernel.name + _GRAD in self.kernels:
                tf.RegisterGradient(_operation_name(kernel))(_gradient_function(self, kernel))
            elif not kernel.name.endswith(_GRAD):
                tf.no_gradient(_operation_name(kernel))

    def call(self, name: str, inputs: Mapping[str, tf.Tensor | None], **options: Any) -> dict[str, tf.Tensor]:
        """
        :param name: of the kernel
        :param inputs: by name; optional ones may be missing, or None
        :param options: all of the signature
        :return: results by name
        """
        kernel = self.kernels[name]
        real = next((inputs[spec.name].dtype for spec in kernel.signature.inputs if spec.dtype == "real"), tf.float32)
        args = {
            spec.name: tf.zeros([0], spec.dtype_for(real.name)) if (value := inputs.get(spec.name)) is None else value
            for spec in kernel.signature.inputs
        }
        function = getattr(self.module, f"returnn_{name}")
        results = function(**args, **options, name=name)
        names = [spec.name for spec in kernel.signature.outputs]
        return dict(zip(names, results if len(names) > 1 else [results], strict=True))


def compile_library() -> str:
    """
    :return: file of the operations, compiled if it is not there
    :raises UserError: if it cannot be compiled
    """
    return _compiler().get_lib_filename()


def get_operations(*, beside_gpu: bool = False) -> Operations | None:
    """
    :param beside_gpu: also if there is a GPU: for what nothing else computes on it either
    :return: the operations, compiled if they are not there; None, after a warning with the reason, if that fails, or if
        there is a GPU, for which there are no kernels
    """
    has_place = beside_gpu or not tf.config.list_physical_devices("GPU")
    return _load() if is_wanted() and has_place else None


def has_operations(dtype: tf.DType | str) -> bool:
    """:return: whether there are operations for this type of floats"""
    return tf.as_dtype(dtype) in (tf.float32, tf.float64) and get_operations() is not None


def is_in_loop() -> bool:
    """:return: whether a loop is being made. A single frame without one remains a graph that runs everywhere"""
    return getattr(tf.compat.v1.get_default_graph(), "outer_graph", None) is not None


@functools.cache
def _load() -> Operations | None:
    try:
        return Operations(compile_library())
    except (UserError, OSError, tf.errors.OpError) as exc:
        warn_once(f"There are no native kernels, recurrent layers and alignments are slower: {exc}")
        return None


def scan_by_kernel(
    name: str,
    x: tf.Tensor,
    inputs: Mapping[str, tf.Tensor | None],
    *,
    lengths: tf.Tensor | None,
    backward: bool,
    **options: Any,
) -> dict[str, tf.Tensor]:
    """
    :param name: of the kernel of a recurrent unit
    :param x: (T, N, P), projected input
    :param inputs: the other ones
    :param lengths: (N,), int32. None: all T
    :param backward: from the last frame of each sequence to the first
    :param options: further ones of the kernel
    :return: results by name
    """
    operations = get_operations()
    assert operations is not None
    if lengths is None:
        lengths = tf.fill([tf.shape(x)[1]], tf.shape(x)[0])
    return operations.call(name, {"x": x, "lengths": lengths, **inputs}, backward=backward, **options)


def library_of(types: Collection[str]) -> str | None:
    """
    :param types: of all operations of a graph
    :return: file of the library that it needs, if it does
    """
    return get_operations().filename if any(name.startswith(_PREFIX) for name in types) else None


def _compiler() -> KernelCompiler:
    return KernelCompiler(
        "tf_ops",
        binding="tensorflow",
        code_version=[int(number) for number in re.findall(r"\d+", tf.__version__)],
        include_paths=[tf.sysconfig.get_include()],
        ld_flags=tf.sysconfig.get_link_flags(),
    )


def _operation_name(kernel: Kernel) -> str:
    return _PREFIX + "".join(part.capitalize() for part in kernel.name.split("_"))


def _gradient_function(operations: Operations, kernel: Kernel) -> Callable[..., Any]:
    """:return: for `tf.RegisterGradient`"""
    grad_kernel = operations.kernels[kernel.name + _GRAD]

    def gradient(op: tf.Operation, *grads: tf.Tensor) -> list[tf.Tensor | None]:
        inputs = {spec.name: x for spec, x in zip(kernel.signature.inputs, op.inputs, strict=True)}
        values = dict(inputs)
        for spec, output, grad in zip(kernel.signature.outputs, op.outputs, grads, strict=True):
            values[spec.name] = output
            values[f"d_{spec.name}"] = None if grad is None or is_known_zero(grad) else grad
        for spec in grad_kernel.signature.inputs:
            if values.get(spec.name) is None and not spec.optional:
                values[spec.name] = tf.zeros_like(values[spec.name.removeprefix("d_")])
        options = {name: op.get_attr(name) for name in grad_kernel.signature.options}
        results = operations.call(grad_kernel.name, values, **options)
        return [None if _is_absent(x) else results.get(f"d_{name}") for name, x in inputs.items()]

    return gradient


def _is_absent(x: tf.Tensor) -> bool:
    return x.shape.rank is not None and 0 in x.shape.as_list()
