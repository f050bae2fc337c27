"""Conditions and loops in TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.frontend_low_level import side_effects
from returnn.util.errors import DimError


class ControlFlowTFOps:
    """For their meaning see `returnn.frontend._interface.control_flow`."""

    @staticmethod
    def assert_(condition: Tensor, message: str, *, stop: bool = True) -> None:
        """Checks it whenever the graph runs."""
        raw = condition.raw_tensor
        if stop:
            side_effects.add_effect(tf.debugging.Assert(raw, [message]))
            return

        def report() -> tf.Tensor:
            with tf.control_dependencies([tf.print(f"Assertion failed: {message}")]):
                return tf.constant(False)

        side_effects.add_effect(tf.cond(raw, lambda: tf.constant(True), report).op)

    @staticmethod
    def cond(pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """:return: what one of the functions returns"""
        structures: list[Any] = []

        def branch(function: Callable[[], Any]) -> Callable[[], list[Any]]:
            def run() -> list[Any]:
                result = function()
                tensors = _tensors_in(result)
                if structures:
                    tensors = [
                        _like(x, template) for x, template in zip(tensors, _tensors_in(structures[0]), strict=True)
                    ]
                structures.append(_map(result, Tensor.copy_template))
                return [x.raw_tensor for x in tensors]

            return run

        raws = list(tf.nest.flatten(tf.cond(pred.raw_tensor, branch(true_fn), branch(false_fn))))
        for template, raw in zip(_tensors_in(structures[0]), raws, strict=True):
            raw.set_shape(template.batch_shape)
            template.raw_tensor = raw
        return structures[0]


def _like(x: Tensor, template: Tensor) -> Tensor:
    if set(x.dims) != set(template.dims):
        raise DimError(f"cond: the branches return different dims: {template} and {x}.")
    return x.copy_compatible_to_dims(template.dims)


def _tensors_in(value: Any) -> list[Tensor]:
    found: list[Tensor] = []
    _map(value, lambda x: found.append(x) or x)
    return found


def _map(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """:return: the structure with each tensor replaced"""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        new = value.copy()
        for key in value:
            new[key] = _map(value[key], function)
        return new
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(x, function) for x in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_map(x, function) for x in value)
    return value
