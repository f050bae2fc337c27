"""What the debugging options of a config do with the output of each layer: prints and checks, in each step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.tf.layers.core.floors.layer_core import LayerCore
from returnn.tf.layers.core.output_print import with_print


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
