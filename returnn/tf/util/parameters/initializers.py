"""Initial values of parameters, as configs describe them."""

from __future__ import annotations

import ast
import functools
import inspect
import math
import re
from typing import Any

import numpy
import tensorflow as tf

from returnn.tf.util.parameters.initializer_classes import (
    GammatoneFilterbankInitializer,
    VarianceScalingNonZero,
    load_txt_file_initializer,
    random_uniform_abs_initializer,
    xavier_initializer,
)
from returnn.util.errors import ConfigError, nearest_hint

tf1 = tf.compat.v1


_BY_NAME: dict[str, Any] = {
    "zeros": tf1.zeros_initializer,
    "zero": tf1.zeros_initializer,
    "ones": tf1.ones_initializer,
    "one": tf1.ones_initializer,
    "constant": tf1.constant_initializer,
    "const": tf1.constant_initializer,
    "glorot_uniform": tf1.glorot_uniform_initializer,
    "glorot_normal": tf1.glorot_normal_initializer,
    "xavier": xavier_initializer,
    "random_uniform": tf1.random_uniform_initializer,
    "random_normal": tf1.random_normal_initializer,
    "truncated_normal": tf1.truncated_normal_initializer,
    "variance_scaling": tf1.variance_scaling_initializer,
    "variancescaling": tf1.variance_scaling_initializer,
    "uniform_unit_scaling": tf1.uniform_unit_scaling_initializer,
    "he_normal": lambda seed=None, **kw: tf1.variance_scaling_initializer(2.0, "fan_in", seed=seed, **kw),
    "he_uniform": lambda seed=None, **kw: tf1.variance_scaling_initializer(2.0, "fan_in", "uniform", seed=seed, **kw),
    "lecun_normal": lambda seed=None, **kw: tf1.variance_scaling_initializer(1.0, "fan_in", seed=seed, **kw),
    "lecun_uniform": lambda seed=None, **kw: tf1.variance_scaling_initializer(
        1.0, "fan_in", "uniform", seed=seed, **kw
    ),
    "orthogonal": tf1.orthogonal_initializer,
    "random_uniform_abs": random_uniform_abs_initializer,
    "variance_scaling_non_zero": VarianceScalingNonZero,
    "load_txt_file": load_txt_file_initializer,
    "gammatone_filterbank": GammatoneFilterbankInitializer,
    "identity": lambda gain=1.0: tf.initializers.Identity(gain),  # part of Keras, whose import takes long
}


_WITHOUT_SEED = {
    "zeros",
    "zero",
    "ones",
    "one",
    "constant",
    "const",
    "identity",
    "load_txt_file",
    "gammatone_filterbank",
}


def get_initializer(
    s: Any, seed: int | None = None, eval_local_ns: dict[str, Any] | None = None, dtype: Any = "float32"
) -> Any:
    """
    :param s: number; name such as "glorot_uniform" or "xavier"; call such as
        "variance_scaling_initializer(mode='fan_in', scale=0.78)"; dict with "class" and options; numpy array; function
    :param seed: for random ones
    :param eval_local_ns: names for a call
    :param dtype: of the parameter
    :return: initializer: function of the shape
    :raises ConfigError: if there is no such
    """
    if isinstance(s, (int, float, numpy.ndarray, numpy.number)):
        return functools.partial(tf.constant_initializer(s), dtype=dtype)
    if isinstance(s, dict) and "class" in s:
        options = dict(s)
        return _make(options.pop("class"), (), options, seed)
    if s is None or callable(s):  # None: the default of TensorFlow
        return s
    if not isinstance(s, str):
        raise ConfigError(
            f"{s!r} is no initializer: it has to be a number, the name of an initializer or a call of it as text,\n"
            "  a dict with 'class', a numpy array, or a function."
        )
    text = s.strip()
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return tf1.constant_initializer(float(text), dtype=dtype)
    if re.fullmatch(r"\w+", text):
        return _make(text, (), {}, seed)
    return _eval_call(text, seed, eval_local_ns or {}, dtype)


def _make(name: str, args: tuple[Any, ...], options: dict[str, Any], seed: int | None) -> Any:
    key = re.sub(r"_?initializer$", "", name, flags=re.IGNORECASE)
    key = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()
    if key not in _BY_NAME:
        raise ConfigError(f"there is no initializer {name!r}.\n  {nearest_hint(key, _BY_NAME)}")
    factory = _BY_NAME[key]
    if key not in _WITHOUT_SEED:
        options.setdefault("seed", seed)
    try:
        inspect.signature(factory).bind(*args, **options)
    except TypeError as exc:
        known = ", ".join(inspect.signature(factory).parameters)
        raise ConfigError(f"initializer {name!r}: {exc}.\n  Possible: {known}.") from exc
    return factory(*args, **options)


def _eval_call(text: str, seed: int | None, names: dict[str, Any], dtype: Any) -> Any:
    """:return: what a call such as "VarianceScaling(scale=0.5)" makes; its arguments are expressions over `names`"""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError as exc:
        raise ConfigError(f"the initializer {text!r} is no valid expression: {exc.msg}.") from exc
    namespace = {"numpy": numpy, "np": numpy, "math": math, "tf": tf, **names}
    if not isinstance(node, ast.Call) or _module_of(node) in ("numpy", "np", "math"):
        return get_initializer(eval(text, namespace), seed=seed, dtype=dtype)

    def value_of(expression: ast.expr) -> Any:
        return eval(compile(ast.Expression(expression), "<initializer>", "eval"), namespace)

    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "?")
    if name in names:
        return eval(text, namespace)
    args = tuple(value_of(arg) for arg in node.args)
    options = {keyword.arg: value_of(keyword.value) for keyword in node.keywords if keyword.arg}
    return _make(name, args, options, seed)


def _module_of(call: ast.Call) -> str:
    """:return: "numpy" for "numpy.sqrt(0.5)"; empty for "sqrt(0.5)" """
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return owner.id if isinstance(owner, ast.Name) else ""
