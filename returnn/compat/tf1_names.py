"""
The names of TensorFlow 1, in today's TensorFlow.

Configs from that time use `tf.to_float`, `tf.log_sigmoid`, `tf.log` and the like, and arguments such as `keep_dims`.

- What still exists in `tf.compat.v1`, and has no other meaning today, gets its old name back.
- A call with an argument that only the old function of this name has means the old function.
- `tf.where` picked whole rows, if the condition has one axis; see `_make_where`.

All other calls mean what they mean in today's TensorFlow.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import tensorflow as tf

_SUBMODULES = ("nn", "math", "random", "train", "linalg", "image", "summary", "test")
_OF_KERAS = ("losses", "initializers")  # these come from Keras, whose import takes as long as half of TensorFlow


@functools.cache
def add_tf1_names() -> None:
    """Adds the missing names and arguments. It does so once in a process."""
    _add(tf, tf.compat.v1)
    for name in _SUBMODULES:
        _add(getattr(tf, name), getattr(tf.compat.v1, name))
    for name in _OF_KERAS:
        setattr(tf, name, _ModuleOfKeras(getattr(tf, name), getattr(tf.compat.v1, name)))
    tf.where = _make_where(tf.where)


class _ModuleOfKeras(ModuleType):
    """A module that is imported, and gets the missing names, when it is used first."""

    def __init__(self, today: ModuleType, old: ModuleType) -> None:
        super().__init__(f"tensorflow.{old.__name__.rpartition('.')[2]}")
        self.__dict__.update(_today=today, _old=old)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._complete(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._complete(), name, value)

    def __dir__(self) -> list[str]:
        return dir(self._complete())

    def _complete(self) -> ModuleType:
        today: ModuleType = self.__dict__["_today"]
        old = self.__dict__.pop("_old", None)
        if old is not None:
            _add(today, old)
        return today


def _add(module: ModuleType, old: ModuleType) -> None:
    for name, value in list(vars(old).items()):
        if name.startswith("_"):
            continue
        if name not in vars(module):
            setattr(module, name, value)
        elif module.__name__ not in _KEEP and inspect.isfunction(value) and inspect.isfunction(vars(module)[name]):
            setattr(module, name, _with_old_arguments(vars(module)[name], value))


# Modules in which no function has changed its arguments in a way that configs would meet.
_KEEP = ("tensorflow.train", "tensorflow.summary", "tensorflow.test")


def _with_old_arguments(function: Callable[..., Any], old: Callable[..., Any]) -> Callable[..., Any]:
    """:return: `function`; called with an argument that only `old` has, it is `old`"""
    if function is old:
        return function
    own, only_old = inspect.signature(function).parameters, set(inspect.signature(old).parameters)
    only_old -= set(own)
    if not only_old or any(p.kind is p.VAR_KEYWORD for p in own.values()):
        return function

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        return old(*args, **kwargs) if only_old & kwargs.keys() else function(*args, **kwargs)

    return either


def _make_where(today: Callable[..., Any]) -> Callable[..., Any]:
    """
    In TensorFlow 1, `tf.where(condition, x, y)` with a condition of shape (B,) and x, y of shape (B, T, F) takes whole
    rows. Today, such a condition belongs to the last axis. It means rows if it cannot fit there, or if its size is
    only known when it is computed, is then the one of the first axis, and the size of the last axis was known before.
    """

    @functools.wraps(today)
    def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
        if x is not None and y is not None:
            condition = _for_rows(tf.convert_to_tensor(condition), x, y)
        return today(condition, x, y, name=name)

    return where


def _for_rows(condition: tf.Tensor, x: Any, y: Any) -> tf.Tensor:
    """:return: the condition, with further axes if it is about rows"""
    shapes = [getattr(value, "shape", None) for value in (condition, x, y)]
    if not all(isinstance(shape, tf.TensorShape) and shape.ndims is not None for shape in shapes):
        return condition
    ndim = shapes[1].ndims
    if shapes[0].ndims != 1 or ndim < 2 or shapes[2].ndims != ndim:
        return condition
    size, first, last = shapes[0][0], shapes[1][0], shapes[1][-1]
    if last in (None, size, first) or size == 1:
        return condition
    rows, today = [-1, *[1] * (ndim - 1)], [*[1] * (ndim - 1), -1]
    if size is not None:
        return tf.reshape(condition, rows) if first in (None, size) else condition
    is_rows = tf.equal(tf.shape(condition)[0], tf.shape(x)[0])
    return tf.reshape(condition, tf.cond(is_rows, lambda: rows, lambda: today))
