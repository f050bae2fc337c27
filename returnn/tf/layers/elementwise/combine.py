"""Elementwise combinations of several sources, and the user's own expressions."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.option_values import value_like
from returnn.tf.layers.core.raw_code import broadcast_raw, call_user_code, call_user_code_on_losses, check_expression
from returnn.tf.layers.core.zero_padding import have_zero_padding
from returnn.tf.layers.elementwise.outer_product import feature_product_warning, outer_product_warning
from returnn.tf.layers.options.broadcasting import with_common_dims
from returnn.tf.layers.options.time_dims_of_data import naming_time_dims
from returnn.tf.layers.user_code.counted_axes import counts_axes
from returnn.tf.util.activations import OutputWithActivation
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError, nearest_hint
from returnn.util.not_specified import NotSpecified

_KINDS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "maximum",
    "minimum",
    "logical_and",
    "logical_or",
    "squared_difference",
    "logaddexp",
)
_LOGICAL_KINDS = ("logical_and", "logical_or")
_COMPARE_KINDS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


class CombineLayer(LayerBase):
    """
    Elementwise combination of the sources, from left to right: `(a - b) - c`.

    Sources [...], output: the dims of all of them. Parameter `b`: [F], if wanted.
    """

    layer_class = "combine"
    recurrent = True  # a user's expression could do anything

    def __init__(
        self,
        kind: str,
        sources: Sequence[LayerBase],
        activation: str | None = None,
        with_bias: bool = False,
        eval: str | Callable[..., Any] | None = None,
        eval_locals: Mapping[str, Any] | None = None,
        eval_for_output_loss: bool = False,
        allow_broadcast_all_sources: bool | type[NotSpecified] = NotSpecified,
        **kwargs: Any,
    ) -> None:
        """
        :param kind: "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "maximum", "minimum", "average",
            "logical_and", "logical_or", "squared_difference", "logaddexp"; "eval"; or a function of two operands in
            `tf.math` or `tf`, such as "atan2"
        :param activation: on the result, such as "tanh"
        :param with_bias: add a trained bias, before the activation
        :param eval: for kind "eval": Python expression or function, see `EvalLayer`
        :param eval_locals: names for it
        :param eval_for_output_loss: the `output_loss` is the same combination of those of the sources
        :param allow_broadcast_all_sources: whether it is fine that no source has all dims. Default: not since behavior
            version 4, unless `out_shape` is given
        """
        super().__init__(sources=sources, **kwargs)
        self.kind = kind
        self.activation = activation
        self.with_bias = with_bias
        self.eval = eval
        self.eval_locals = eval_locals or {}
        self.eval_for_output_loss = eval_for_output_loss
        self.allow_broadcast_all_sources = _allow_broadcast(allow_broadcast_all_sources, self)
        self.matches_by_size = allow_broadcast_all_sources is not True
        _check_kind(self, kind, (*_KINDS, "average", "eval"))
        if (kind == "eval") != (eval is not None):
            raise ConfigError(f"{self.where()}: kind 'eval' needs the option 'eval', and the other kinds do not.")
        if not self.sources:
            raise ConfigError(f"{self.where()}: a source is required (option 'from').")
        if isinstance(eval, str):
            check_expression(self, eval)

    def must_be_in_loop(self) -> str:
        """:return: a reason, if the expression would mean other axes for all frames at once"""
        if not isinstance(self.eval, str) or not counts_axes(self.eval):
            return ""
        frame = self.network.step.innermost_frame()
        is_of_frame = any(frame.path_of(source.get_absolute_name()) is not None for source in self.sources)
        return "counts axes" if is_of_frame else ""

    def has_zero_padding(self) -> bool:
        """:return: whether it is a sum or product of what has 0 there"""
        keeps_zeros = self.kind in ("add", "sub", "mul", "average") and not (self.with_bias or self.activation)
        return keeps_zeros and not self.use_batch_norm and have_zero_padding(self.sources)

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: the dims of all sources"""
        output = self._eval(sources) if self.kind == "eval" else self._combine(sources)
        if self.with_bias:
            bias = self.parameter("b", [output.feature_dim], initial=0.0)
            output = rf.combine_bc(output, "+", bias)
        if self.activation:
            self.output_before_activation = OutputWithActivation(output, self.activation)
            output = self.output_before_activation.after
        if self.eval_for_output_loss:
            self.output_loss = self._combined_output_loss()
        return output

    def _combine(self, sources: Sequence[Tensor]) -> Tensor:
        sources = with_common_dims(self, sources, by_size=self.matches_by_size)
        result = sources[0]
        kind = "add" if self.kind == "average" else self.kind
        if self.matches_by_size:
            self.warning = outer_product_warning(self, sources)
        allow_broadcast = self.allow_broadcast_all_sources or self.sees_all_frames
        operation = rf.combine if kind in _KINDS else functools.partial(_combine_by_tensorflow, self)
        with naming_time_dims(self.network, sources):
            for source in sources[1:]:
                result = operation(result, kind, source, allow_broadcast_all_sources=allow_broadcast)
        return result / len(sources) if self.kind == "average" else result

    def _eval(self, sources: Sequence[Tensor]) -> Tensor:
        assert self.eval is not None
        if self.matches_by_size:
            self.warning = feature_product_warning(self, with_common_dims(self, sources))
        return call_user_code(self, self.eval, sources, names=self.eval_locals)

    def _combined_output_loss(self) -> Tensor:
        """:return: the same operation on the `output_loss` of the sources"""
        for layer in self.sources:
            if layer.output_loss is None:
                raise ConfigError(f"{self.where()}: option 'eval_for_output_loss': {layer.where()} has no output loss.")
        losses = [_loss_of_sequences(layer) for layer in self.sources]
        if self.kind != "eval":
            return self._combine(losses)
        assert self.eval is not None
        return call_user_code_on_losses(self, self.eval, losses, names=self.eval_locals)


class EvalLayer(CombineLayer):
    """
    A Python expression on raw TensorFlow tensors.

    `source(i)` is the output of a source, with axes of size 1 so that all sources fit each other;
    `source(i, as_data=True)` is the `Tensor`, `source(i, as_layer=True)` the layer. There are also `tf`, `self`,
    `network`, and the functions of `returnn.tf.util.basic`. A function instead of an expression gets these as
    arguments.
    """

    layer_class = "eval"
    fixed_options = ("kind",)

    def __init__(self, eval: str | Callable[..., Any], **kwargs: Any) -> None:
        """
        :param eval: the expression, or a function
        """
        super().__init__(kind="eval", eval=eval, **kwargs)


class CompareLayer(LayerBase):
    """
    Compares the sources elementwise, from left to right, and at last with `value`: `a < b < value`.

    Sources [...], output: the dims of all of them, bool.
    """

    layer_class = "compare"

    def __init__(
        self,
        kind: str = "equal",
        value: float | int | None = None,
        allow_broadcast_all_sources: bool | type[NotSpecified] = NotSpecified,
        **kwargs: Any,
    ) -> None:
        """
        :param kind: "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"; of bool sources also
            "logical_and", "logical_or"; or a function of two operands in `tf.math` or `tf`, such as "logical_xor"
        :param value: what to compare with at last
        :param allow_broadcast_all_sources: whether it is fine that no source has all dims. Default: not since behavior
            version 4, unless `out_shape` is given
        """
        super().__init__(**kwargs)
        self.kind = kind
        self.value = value
        self.allow_broadcast_all_sources = _allow_broadcast(allow_broadcast_all_sources, self)
        self.matches_by_size = allow_broadcast_all_sources is not True
        _check_kind(self, kind, (*_COMPARE_KINDS, *_LOGICAL_KINDS))
        if not self.sources or (len(self.sources) == 1 and value is None):
            raise ConfigError(f"{self.where()}: two sources are required, or one and the option 'value'.")

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: bool, the dims of all sources"""
        operands: list[Any] = list(sources)
        if self.value is not None:
            operands.append(value_like(self.value, sources[-1].dtype))
        operands = with_common_dims(self, operands, by_size=self.matches_by_size)
        if self.matches_by_size:
            self.warning = outer_product_warning(self, operands)
        result = None
        allow_broadcast = self.allow_broadcast_all_sources or self.sees_all_frames
        operation: Callable[..., Tensor] = functools.partial(_combine_by_tensorflow, self, dtype="bool")
        if self.kind in _COMPARE_KINDS:
            operation = rf.compare
        elif self.kind in _LOGICAL_KINDS:
            operation = rf.combine
        with naming_time_dims(self.network, operands):
            for a, b in itertools.pairwise(operands):
                one = operation(a, self.kind, b, allow_broadcast_all_sources=allow_broadcast)
                result = one if result is None else rf.combine_bc(result, "logical_and", one)
        assert result is not None
        return result


def _loss_of_sequences(layer: LayerBase) -> Tensor:
    """:return: [B] or a scalar: the `output_loss`, which layers of users have as raw tensor"""
    loss = layer.output_loss
    if isinstance(loss, Tensor):
        return loss
    raw = tf.convert_to_tensor(loss)
    dims = [layer.output.get_batch_dim_tag()] if raw.shape.ndims == 1 else []
    return Tensor("output_loss", dims=dims, dtype=raw.dtype.base_dtype.name, raw_tensor=raw)


def _allow_broadcast(given: bool | type[NotSpecified], layer: LayerBase) -> bool:
    """:return: whether it is fine that no source has all dims: if the config says which dims there are, it is"""
    if given is not NotSpecified:
        return bool(given)
    return BehaviorVersion.get() < 4 or layer._out_shape is not None


def _check_kind(layer: LayerBase, kind: str, known: Sequence[str]) -> None:
    """:raises ConfigError: if there is no such operation"""
    if kind not in known and _function_of_tensorflow(kind) is None:
        hint = nearest_hint(kind, known)
        raise ConfigError(f"{layer.where()}: option 'kind': there is no {kind!r}, nor in tf.math or tf.\n  {hint}")


def _function_of_tensorflow(name: str) -> Callable[[Any, Any], Any] | None:
    """:return: function of two operands in `tf.math` or `tf`"""
    function = getattr(tf.math, name, None) or getattr(tf, name, None)
    if not callable(function) or inspect.isclass(function):
        return None
    parameters = inspect.signature(function).parameters.values()
    return function if len([p for p in parameters if p.default is p.empty]) == 2 else None


def _combine_by_tensorflow(
    layer: LayerBase, a: Tensor, kind: str, b: Any, *, allow_broadcast_all_sources: bool, dtype: str | None = None
) -> Tensor:
    """:return: {...}: the dims of both; function of this name in TensorFlow, with dtype of `a` or the given one"""
    with rf.backend_ctx("template"):
        output = rf.compare(a, "equal", b, allow_broadcast_all_sources=allow_broadcast_all_sources)
    output = output.copy_template(dtype=dtype or a.dtype)
    if rf.get_selected_backend() == "template":
        return output
    function = _function_of_tensorflow(kind)
    assert function is not None
    raw = [broadcast_raw(x, output) if isinstance(x, Tensor) else tf.cast(x, a.dtype) for x in (a, b)]
    try:
        output.raw_tensor = function(*raw)
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"{layer.where()}: option 'kind': {kind!r} does not work with {a}.") from exc
    return output
