"""Finds numbers that are not finite, and looks at tensors while they are computed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import tensorflow as tf

from returnn.compat.tf_util.graph_inspect import needed_ops

tf1 = tf.compat.v1

_IGNORED = {"Assign", "Const", "NoOp", "Placeholder", "PlaceholderWithDefault", "VarHandleOp", "CheckNumerics"}


def identity_with_check_numerics(
    x: tf.Tensor, with_grad: bool = True, name: str = "identity_with_check_numerics"
) -> tf.Tensor:
    """
    :param x: raw tensor
    :param with_grad: check the gradient, too
    :param name: of the operation
    :return: x; an error when it is computed and has NaN or infinities
    """

    @tf.custom_gradient
    def checked(value: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return tf.debugging.check_numerics(upstream, f"gradient of {x.name}") if with_grad else upstream

        return tf.debugging.check_numerics(value, x.name), gradient

    with tf.name_scope(name):
        return checked(x)


def add_check_numerics_ops(
    fetches: Any = None,
    ignore_ops: Collection[str] | None = None,
    use_check_numerics: bool = True,
    debug_print_added_checks: bool = True,
    name: str = "add_check_numerics_ops",
) -> tf.Operation:
    """
    :param fetches: only operations that these need; default: all of the graph
    :param ignore_ops: types of operations, or their names, not to check
    :param use_check_numerics: the error names the first operation that fails; otherwise `tf.debugging.Assert` is used
    :param debug_print_added_checks: write to the standard output what is checked
    :param name: of the operation
    :return: runs all the checks
    """
    graph = tf1.get_default_graph()
    ops = graph.get_operations() if fetches is None else list(needed_ops(tf.nest.flatten(fetches)))
    ignored = _IGNORED | set(ignore_ops or ())
    checks = []
    with tf.name_scope(name):
        for op in ops:
            if op.type in ignored or op.name in ignored:
                continue
            for x in op.outputs:
                if x.dtype.is_floating:
                    checks.append(_check(x, use_check_numerics=use_check_numerics))
                    if debug_print_added_checks:
                        print(f"check {x.name} ({op.type})")
        return tf.group(*checks)


def _check(x: tf.Tensor, *, use_check_numerics: bool) -> tf.Operation:
    with tf.control_dependencies(None):
        if use_check_numerics:
            return tf.debugging.check_numerics(x, f"{x.op.type} {x.name}").op
        return tf.debugging.Assert(tf.reduce_all(tf.math.is_finite(x)), [f"{x.name} is not finite", x])


def identity_with_debug_log(
    x: tf.Tensor, args: dict[str, tf.Tensor], out: list[dict[str, Any]], name: str = "DebugLogOp"
) -> tf.Tensor:
    """
    :param x: raw tensor
    :param args: what to look at
    :param out: gets a dict with these values, whenever x is computed
    :param name: of the operation
    :return: x
    """
    keys = sorted(args)

    def note(*values: Any) -> int:
        out.append(dict(zip(keys, values, strict=True)))
        return 0

    with tf.name_scope(name):
        noted = tf.numpy_function(note, [args[key] for key in keys], tf.int64)
        with tf.control_dependencies([noted]):
            return tf.identity(x)
