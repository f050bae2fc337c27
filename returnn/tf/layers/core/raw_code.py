"""
The border to the user's own code, which works on raw TensorFlow tensors.

A tensor goes out with its axes in a known order. What comes back is described by a template: that of the sources, or
what the config says in `out_type`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.frontend import backend_ctx, get_selected_backend
from returnn.frontend._ops.operands import common_template
from returnn.tensor import Tensor
from returnn.tf.frontend_low_level import TFBackend
from returnn.tf.layers.core.layer_base import LayerBase, WrappedInternalLayer
from returnn.tf.layers.options.broadcasting import with_common_dims
from returnn.tf.layers.user_code.beam_axis import BeamAxis
from returnn.tf.layers.user_code.elementwise_code import is_of_sources_alone
from returnn.tf.layers.user_code.merged_layers import layers_seen_merged
from returnn.tf.layers.user_code.out_type import template_of_user_code
from returnn.tf.util.activations import RAW_ACTIVATIONS
from returnn.tf.util.error_text import error_text
from returnn.util.errors import ConfigError
from returnn.util.python.user_code import names_in_expressions, prepare_for_user_code
from returnn.util.texts.counted import counted


def check_expression(layer: LayerBase, expression: str) -> None:
    """
    :param layer: whose option `eval` it is
    :param expression: of a user, which a check does not run
    :raises ConfigError: if it is no expression, or is about a source that is not there
    """
    try:
        nodes = list(ast.walk(ast.parse(expression.lstrip(" \t"), mode="eval")))
    except SyntaxError as exc:
        raise ConfigError(f"{layer.where()}: option 'eval': {expression!r}: SyntaxError: {exc.msg}.") from exc
    frame = layer.network.step.innermost_frame()
    if frame is not None and frame.has_undefined:  # what is not known yet is left out of the sources
        return
    for node in nodes:
        is_source = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "source"
        number = node.args[0] if is_source and node.args else None  # type: ignore[attr-defined]
        if isinstance(number, ast.Constant) and isinstance(number.value, int) and number.value >= len(layer.sources):
            what = f"there is no source({number.value})"
            have = (
                f"there {'is' if len(layer.sources) == 1 else 'are'} {counted(len(layer.sources), 'source')}, from 0 on"
            )
            raise ConfigError(f"{layer.where()}: option 'eval': {expression!r}: {what}, as {have}.")


def call_user_code(
    layer: LayerBase,
    code: str | Callable[..., Any],
    sources: Sequence[Tensor],
    *,
    names: Mapping[str, Any],
    beam: BeamAxis | None = None,
) -> Tensor:
    """
    :param layer: the layer that the code belongs to
    :param code: expression or function, see `EvalLayer`
    :param sources: outputs of the sources
    :param names: more names for the code
    :param beam: if the sources have the hypotheses of a search in their batch axis
    :return: what it returns, as tensor
    """
    unmerged = BeamAxis.of(sources)
    if unmerged is not None:
        value = _of_hypotheses_apart(layer, code, sources, names, unmerged)
        if value is not None:
            return value
        merged = [unmerged.merge(x) for x in sources]
        with layers_seen_merged(layer, ["sources"], unmerged.merge):
            value = call_user_code(layer, code, merged, names=names, beam=unmerged)
        return unmerged.split(value)
    template = template_of_user_code(layer, _as_layers(layer, sources), names, beam)
    if get_selected_backend() == "template":
        return template
    fitting = with_common_dims(layer, sources)
    common = Tensor.get_common_data(fitting)
    assert common is not None

    def source(
        i: int,
        auto_convert: bool = True,
        enforce_batch_major: bool = False,
        as_data: bool = False,
        as_layer: bool = False,
    ) -> Any:
        if not 0 <= i < len(sources):
            raise ConfigError(f"{layer.where()}: source({i}): there are {len(sources)} sources.")
        data = sources[i]
        if as_layer:
            return _as_layers(layer, sources)[i]
        if as_data:
            return data
        if enforce_batch_major:
            return data.copy_as_batch_major().raw_tensor
        return broadcast_raw(fitting[i], layout_for(fitting[i])) if auto_convert else data.raw_tensor

    def layout_for(x: Tensor) -> Tensor:
        """:return: with the axes that x gets: those of all sources; or of the output, if it has fewer, and all of x"""
        has_less = not set(common.dims) <= set(template.dims)
        return template if has_less and set(x.dims) <= set(template.dims) else common

    if layer.output is None or layer.output.raw_tensor is None:
        layer.output = template.copy_template()  # the code may want to know what it looks like
    value = _run(layer, code, {"source": source, "output": template, **names})
    if isinstance(value, Tensor):
        return value
    # The code may have set other lengths in `self.output`.
    return _with_value(layer, template if layer.output is None else layer.output, tf.convert_to_tensor(value))


def _of_hypotheses_apart(
    layer: LayerBase,
    code: str | Callable[..., Any],
    sources: Sequence[Tensor],
    names: Mapping[str, Any],
    beam: BeamAxis,
) -> Tensor | None:
    """
    What an elementwise expression computes does not depend on where the hypotheses stand. So what has none of them is
    not repeated for each.

    :return: the value, as of `call_user_code`; None if the code is not known to be such an expression
    """
    scalars = [name for name, value in names.items() if numpy.ndim(value) == 0]
    if not isinstance(code, str) or not is_of_sources_alone(code, scalars):
        return None
    with backend_ctx("template"):
        merged = [beam.merge(x.copy_template()) for x in sources]
        template = beam.split(template_of_user_code(layer, _as_layers(layer, merged), names, beam))
    fitting = with_common_dims(layer, sources)
    dims = common_template(layer.name, fitting, allow_broadcast_all_sources=True).dims
    if set(dims) != set(template.dims) or len(dims) != len(template.dims):
        return None
    out = template.copy_transpose(dims)
    if get_selected_backend() == "template":
        return out
    value = _run(layer, code, {"source": lambda i: fitting[i].copy_compatible_to_dims_raw(dims), **names})
    return _with_value(layer, out, tf.convert_to_tensor(value))


def call_user_code_on_losses(
    layer: LayerBase, code: str | Callable[..., Any], losses: Sequence[Tensor], *, names: Mapping[str, Any]
) -> Tensor:
    """
    :param layer: the layer that the code belongs to
    :param code: expression or function, see `EvalLayer`
    :param losses: one for each source, such as [B]
    :param names: more names for the code
    :return: what it returns for the losses in place of the sources
    """
    common = Tensor.get_common_data(losses)
    assert common is not None
    out = common.copy_template(name=f"{layer.name}:output_loss")
    if any(loss.raw_tensor is None for loss in losses):
        return out

    def source(i: int, as_data: bool = False, as_layer: bool = False, **_options: Any) -> Any:
        if as_layer:
            return layer.sources[i]
        return losses[i] if as_data else broadcast_raw(losses[i], common)

    out.raw_tensor = tf.convert_to_tensor(_run(layer, code, {"source": source, "output": out, **names}))
    return out


def _as_layers(layer: LayerBase, sources: Sequence[Tensor]) -> list[LayerBase]:
    """:return: the sources of the layer, with these outputs, where the beam may be part of the batch"""
    return [
        one
        if one.output is x
        else WrappedInternalLayer(base_layer=one, name=one.name, network=one.network, output=x, sources=[one])
        for one, x in zip(layer.sources, sources, strict=True)
    ]


def broadcast_raw(x: Tensor, common: Tensor) -> Any:
    """:return: raw tensor with all axes of `common`, of size 1 where x does not have them"""
    return x.copy_compatible_to_dims_raw(common.dims)


@functools.cache
def _names_in_eval() -> dict[str, Any]:
    """:return: what an expression can use: TensorFlow, our helpers for raw tensors, activation functions"""
    prepare_for_user_code()
    modules: dict[str, Any] = {"tf": tf, "tf_compat": tf.compat, "numpy": numpy, "np": numpy, "rf": rf}
    modules["backend"] = TFBackend
    return {**RAW_ACTIVATIONS, **names_in_expressions(), **modules}


def _run(layer: LayerBase, code: str | Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """:return: what the code returns, which knows these names and those of the layer"""
    known = {"self": layer, "network": layer.network, "name": layer.name, **names}
    if callable(code):
        return code(**known)
    try:
        return eval(code, {**_names_in_eval(), **known})
    except ConfigError:
        raise
    except Exception as exc:  # whatever the code of a user does
        raise ConfigError(f"{layer.where()}: eval {code!r}: {error_text(exc)}") from exc


def _with_value(layer: LayerBase, template: Tensor, value: tf.Tensor) -> Tensor:
    """
    :param layer: the layer that the code belongs to
    :param template: what the value should look like
    :param value: what the code returned. It can have another dtype, unless the config says the dtype
    :raises ConfigError: if it does not look like that
    """
    out, dtype, num_axes = template.copy_template(), value.dtype.base_dtype.name, value.shape.ndims
    if dtype != out.dtype:
        if isinstance(layer._out_type, dict) and "dtype" in layer._out_type:
            raise ConfigError(f"{layer.where()}: the result has the dtype {dtype}, but out_type says {out.dtype!r}.")
        out = out.copy_template(dtype=dtype)
    if num_axes is not None and num_axes != len(out.dims):
        raise ConfigError(f"{layer.where()}: the result has {num_axes} axes, expected {out}.\n  Give out_type.")
    out.raw_tensor = value
    return out
