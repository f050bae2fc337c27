"""Activation functions by name, and outputs of which the input of the activation function is known."""

from __future__ import annotations

import ast
import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.util.numeric import gelu2, gelu3, lin_exp, lin_exp_normed
from returnn.tf.util.safe_math import safe_exp, safe_log
from returnn.util.errors import ConfigError, nearest_hint


class OutputWithActivation:
    """
    Output of a layer with an activation function: a loss on a softmax is computed from what is before it.

    `x` and `y` are raw tensors, before and after the function; `before` and `after` are the same as tensors with dims.
    """

    def __init__(
        self,
        x: Tensor | Any,
        act_func: Callable[..., Any] | str | None = None,
        act_func_opts: Mapping[str, Any] | None = None,
    ) -> None:
        """
        :param x: before the activation function: tensor, or raw tensor
        :param act_func: function on a tensor or raw tensor like `x`; or its name
        :param act_func_opts: more arguments for it
        """
        self.name = act_func if isinstance(act_func, str) else getattr(act_func, "__name__", None)
        self.act_func = act_func
        self.act_func_opts = dict(act_func_opts or {})
        if isinstance(x, Tensor):
            self.before: Tensor | None = x
            self.after: Tensor | None = apply_activation(x, act_func, **self.act_func_opts)
            self.x, self.y = x.raw_tensor, self.after.raw_tensor
        else:
            self.before = self.after = None
            self.x = x
            function = get_activation_function(act_func) if isinstance(act_func, str) else act_func
            self.y = x if function is None else function(x, **self.act_func_opts)

    def is_softmax_act_func(self) -> bool:
        """:return: whether the function is softmax"""
        return self.name == "softmax" or _is_same(self.act_func, tf.nn.softmax)

    def is_log_softmax_act_func(self) -> bool:
        """:return: whether the function is log_softmax"""
        return self.name == "log_softmax" or _is_same(self.act_func, tf.nn.log_softmax)

    def get_logits(self) -> Any:
        """:return: raw tensor which softmax makes the output of, None if it is not known"""
        if self.is_softmax_act_func() or self.is_log_softmax_act_func():
            return self.x
        return None

    def get_log_output(self) -> Any:
        """:return: raw log of the output"""
        if self.is_softmax_act_func():
            return tf.nn.log_softmax(self.x)
        if self.act_func is tf.exp or self.name == "exp":
            return self.x
        if self.act_func is tf.sigmoid or self.name == "sigmoid":
            return tf.math.log_sigmoid(self.x)
        return tf.math.log(self.y)


def _is_same(function: Any, other: Callable[..., Any]) -> bool:
    """:return: whether they are the same function, apart from what is around them (see `tf1_names`)"""
    return callable(function) and inspect.unwrap(function) is inspect.unwrap(other)


_FRONTEND_ACTIVATIONS = (
    "abs",
    "ceil",
    "cos",
    "elu",
    "exp",
    "expm1",
    "floor",
    "gelu",
    "log",
    "log1p",
    "log_sigmoid",
    "neg",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "selu",
    "sigmoid",
    "silu",
    "sin",
    "sqrt",
    "square",
    "swish",
    "tanh",
)


def apply_activation(x: Tensor, function: Callable[..., Any] | str | None, **options: Any) -> Tensor:
    """
    :param x: tensor
    :param function: name; or function on raw tensors
    :param options: more arguments for it
    :return: the function on each element; softmax and log_softmax over the feature dim
    :raises ConfigError: if there is no such function
    """
    if function is None or function in ("identity", "linear"):
        return x
    if isinstance(function, str) and not options:
        if function in _FRONTEND_ACTIVATIONS:
            return getattr(rf, function)(x)
        if function in ("softmax", "log_softmax"):
            if x.feature_dim is None:
                raise ConfigError(f"{function}: {x} has no feature dim.")
            return getattr(rf, function)(x, axis=x.feature_dim, use_mask=False)
    raw_function = get_activation_function(function) if isinstance(function, str) else function
    out = x.copy_template()
    if x.raw_tensor is not None:
        raw = raw_function(x.raw_tensor, **options)
        out.dtype = raw.dtype.base_dtype.name
        out.raw_tensor = raw
    elif isinstance(function, str):
        out.dtype = _dtype_of_result(raw_function, x, options)
    return out


RAW_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "identity": lambda x: x,
    "gelu": functools.partial(tf.nn.gelu, approximate=False),
    "log_sigmoid": tf.math.log_sigmoid,
    "log": tf.math.log,
    "swish": tf.nn.silu,
    "silu": tf.nn.silu,
    "softmax": tf.nn.softmax,
    "log_softmax": tf.nn.log_softmax,
    "neg": tf.negative,
    "lrelu": tf.nn.leaky_relu,
    "gelu2": gelu2,
    "gelu3": gelu3,
    "lin_exp": lin_exp,
    "lin_exp_normed": lin_exp_normed,
    "safe_exp": safe_exp,
    "safe_log": safe_log,
}


def get_activation_function(s: str) -> Callable[..., Any]:
    """
    :param s: name; or an expression of names and numbers with "+", "-", "*", "/", "**", such as "10.0 * sigmoid"; or
        Python code for a function, with `tf` in it, such as "lambda x: tf.nn.relu(x) * 2"; or for what it returns for
        `x`, such as "tf.maximum(x, 0.1 * x)"
    :return: function on raw tensors
    :raises ConfigError: if there is no such function
    """
    if not s or s in ("none", "None"):
        return RAW_ACTIVATIONS["identity"]
    if s.isidentifier():
        return _function_of_name(s)
    try:
        expression = ast.parse(s.strip(), mode="eval").body
    except SyntaxError as exc:
        raise ConfigError(f"activation function {s!r}: {exc.msg}.") from exc
    if not isinstance(expression, ast.Lambda) and _mentions_x(expression):
        return _function_of_x(expression, s)
    if isinstance(expression, (ast.Lambda, ast.Attribute, ast.Call)):
        return eval(s, {"tf": tf, **RAW_ACTIVATIONS})  # type: ignore[no-any-return]
    return _function_of_expression(expression, s)


def _mentions_x(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "x" for node in ast.walk(expression))


def _function_of_x(expression: ast.expr, text: str) -> Callable[..., Any]:
    """:return: function on raw tensors, whose value the expression says"""
    code = compile(ast.Expression(expression), text, "eval")
    names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} - {"x", "tf"}
    known = {name: _function_of_name(name) for name in names}
    return lambda x: eval(code, {"tf": tf, **known, "x": x})


def _function_of_expression(node: ast.expr, text: str) -> Callable[..., Any]:
    """:return: function on raw tensors: the operations in the expression, on what the functions in it return"""
    if isinstance(node, ast.Name):
        return _function_of_name(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        number = node.value
        return lambda x: number
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _function_of_expression(node.operand, text)
        return lambda x: -operand(x)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = (_function_of_expression(side, text) for side in (node.left, node.right))
        operation = _OPERATIONS[type(node.op)]
        return lambda x: operation(left(x), right(x))
    raise ConfigError(
        f"activation function {text!r}: {ast.unparse(node)!r} is not possible.\n"
        "  Possible: names of functions, numbers, +, -, *, /, **, parentheses; or 'lambda x: ...'."
    )


_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def _function_of_name(name: str) -> Callable[..., Any]:
    if name in RAW_ACTIVATIONS:
        return RAW_ACTIVATIONS[name]
    for module in (tf.nn, tf.math, tf):
        function = getattr(module, name, None)
        if callable(function):
            return function  # type: ignore[no-any-return]
    known = dict.fromkeys([*RAW_ACTIVATIONS, *_FRONTEND_ACTIVATIONS])
    raise ConfigError(f"there is no activation function {name!r}.\n  {nearest_hint(name, list(known))}")


def _dtype_of_result(function: Callable[..., Any], x: Tensor, options: Mapping[str, Any]) -> str:
    """:return: dtype of what a function on raw tensors returns"""
    with tf.Graph().as_default():
        placeholder = tf.compat.v1.placeholder(x.dtype, [dim.size for dim in x.dims])
        return function(placeholder, **options).dtype.base_dtype.name  # type: ignore[no-any-return]
