"""What the debugging options of a config do with the output of each layer: prints and checks, in each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.layers.core.floors.layer_core import LayerCore


def with_debugging(layer: LayerCore) -> Any:
    """
    :param layer: its output has a value
    :return: raw value of the output, which is printed and checked before it is used, as config and layer say
    """
    config, output = layer.network.get_config(), layer.output.copy()
    options = layer.debug_print_layer_output
    if options is None:
        options = config.options.debug_print_layer_output
    if options:
        output.raw_tensor = with_print(layer, output, options)
    if config.options.debug_print_layer_output_shape:
        printed = tf.print(f"layer {layer.get_absolute_name()!r}: {output}", "shape:", tf.shape(output.raw_tensor))
        with tf.control_dependencies([printed]):
            output.raw_tensor = tf.identity(output.raw_tensor)
    if config.options.debug_runtime_sanity_checks:
        output.raw_tensor = output.get_placeholder_with_runtime_sanity_checks()
    if config.options.debug_add_check_numerics_on_output and output.raw_tensor.dtype.is_floating:
        output.raw_tensor = _with_check_numerics(layer, output.raw_tensor)
    return output.raw_tensor


def _with_check_numerics(layer: LayerCore, raw: tf.Tensor) -> tf.Tensor:
    message = f"layer {layer.get_absolute_name()!r} has NaN or infinite values in its output"
    if not layer.allow_inf_in_output:
        return tf.debugging.check_numerics(raw, message)
    checked = tf.debugging.check_numerics(tf.where(tf.math.is_inf(raw), tf.zeros_like(raw), raw), message)
    with tf.control_dependencies([checked]):
        return tf.identity(raw)


def print_op(layer: LayerCore, x: Tensor, *, summarize: int | None = 99, extra_print_args: Sequence[Any] = ()) -> Any:
    """
    :param layer: whose name is printed
    :param x: has a value
    :param summarize: so many numbers at most; None: all
    :param extra_print_args: what is printed, too
    :return: operation that prints name, dims, shape, lengths and values
    """
    lengths = [dim.dyn_size for dim in x.dims if dim.is_dynamic_seq_length()]
    return tf.print(
        f"layer {layer.get_absolute_name()!r}: {x}",
        "shape:",
        tf.shape(x.raw_tensor),
        *(["lengths:", *lengths] if lengths else []),
        *extra_print_args,
        "values:",
        x.raw_tensor,
        summarize=-1 if summarize is None else summarize,
    )


def with_print(layer: LayerCore, x: Tensor, options: bool | dict[str, Any]) -> Any:
    """
    :param layer: whose output it is
    :param x: has a value
    :param options: for `print_op`; True for none
    :return: raw value of x, which is printed before it is used
    """
    with tf.control_dependencies([print_op(layer, x, **(options if isinstance(options, dict) else {}))]):
        return tf.identity(x.raw_tensor)
