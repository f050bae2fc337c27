"""Elementwise combinations of several sources, and the user's own expressions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.broadcasting import without_broadcast_dims
from returnn.tf.layers.layer_base import LayerBase
from returnn.tf.layers.raw_code import broadcast_raw, call_user_code
from returnn.tf.util.activations import OutputWithActivation
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError, nearest_hint
from returnn.util.not_specified import NotSpecified

_KINDS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "maximum", "minimum", "logical_and", "logical_or",
    "squared_difference", "logaddexp",
)  # fmt: skip
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
            "logical_and", "logical_or", "squared_difference", "logaddexp"; or "eval"
        :param activation: on the result, such as "tanh"
        :param with_bias: add a trained bias, before the activation
        :param eval: for kind "eval": Python expression or function, see `EvalLayer`
        :param eval_locals: names for it
        :param eval_for_output_loss: also applies it to the `output_loss` of the sources
        :param allow_broadcast_all_sources: whether it is fine that no source has all dims. Default: not since behavior
            version 4
        """
        super().__init__(sources=sources, **kwargs)
        self.kind = kind
        self.activation = activation
        self.with_bias = with_bias
        self.eval = eval
        self.eval_locals = eval_locals or {}
        self.eval_for_output_loss = eval_for_output_loss
        self.allow_broadcast_all_sources = _allow_broadcast(allow_broadcast_all_sources)
        if kind not in (*_KINDS, "average", "eval"):
            hint = nearest_hint(kind, (*_KINDS, "average", "eval"))
            raise ConfigError(f"{self.where()}: option 'kind': there is no {kind!r}.\n  {hint}")
        if not self.sources:
            raise ConfigError(f"{self.where()}: a source is required (option 'from').")

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
            self._eval_output_loss(sources)
        return output

    def _combine(self, sources: Sequence[Tensor]) -> Tensor:
        sources = without_broadcast_dims(self, sources)
        result = sources[0]
        kind = "add" if self.kind == "average" else self.kind
        allow_broadcast = self.allow_broadcast_all_sources or self.sees_all_frames
        for source in sources[1:]:
            result = rf.combine(result, kind, source, allow_broadcast_all_sources=allow_broadcast)
        return result / len(sources) if self.kind == "average" else result

    def _eval(self, sources: Sequence[Tensor]) -> Tensor:
        assert self.eval is not None
        return call_user_code(self, self.eval, sources, names=self.eval_locals)

    def _eval_output_loss(self, sources: Sequence[Tensor]) -> None:
        losses = [layer.output_loss for layer in self.sources]
        if any(loss is None for loss in losses):
            raise ConfigError(f"{self.where()}: eval_for_output_loss: not all sources have an output loss.")
        values = [broadcast_raw(loss, sources[0]) if isinstance(loss, Tensor) else loss for loss in losses]
        self.output_loss = sum(values) if self.kind == "add" else values[0]


class EvalLayer(CombineLayer):
    """
    A Python expression on raw TensorFlow tensors.

    `source(i)` is the output of a source, with axes of size 1 so that all sources fit each other;
    `source(i, as_data=True)` is the `Tensor`. There are also `tf`, `self`, `network`, and the functions of
    `returnn.tf.util.basic`. A function instead of an expression gets these as arguments.
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
            "logical_and", "logical_or"
        :param value: what to compare with at last
        :param allow_broadcast_all_sources: whether it is fine that no source has all dims. Default: not since behavior
            version 4
        """
        super().__init__(**kwargs)
        self.kind = kind
        self.value = value
        self.allow_broadcast_all_sources = _allow_broadcast(allow_broadcast_all_sources)
        if kind not in (*_COMPARE_KINDS, "logical_and", "logical_or"):
            raise ConfigError(
                f"{self.where()}: option 'kind': there is no {kind!r}.\n  {nearest_hint(kind, _COMPARE_KINDS)}"
            )
        if not self.sources or (len(self.sources) == 1 and value is None):
            raise ConfigError(f"{self.where()}: two sources are required, or one and the option 'value'.")

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: bool, the dims of all sources"""
        operands = without_broadcast_dims(self, [*sources, *([] if self.value is None else [self.value])])
        result = None
        allow_broadcast = self.allow_broadcast_all_sources or self.sees_all_frames
        operation = rf.combine if self.kind.startswith("logical") else rf.compare
        for a, b in itertools.pairwise(operands):
            one = operation(a, self.kind, b, allow_broadcast_all_sources=allow_broadcast)
            result = one if result is None else rf.combine_bc(result, "logical_and", one)
        assert result is not None
        return result


def _allow_broadcast(given: bool | type[NotSpecified]) -> bool:
    return BehaviorVersion.get() < 4 if given is NotSpecified else bool(given)
