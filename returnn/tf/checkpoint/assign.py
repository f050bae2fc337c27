"""Variables that get a given value when the network is initialized."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy
import tensorflow as tf

from returnn.tf.util.parameters.assign import assign_values

_ATTRIBUTE = "custom_post_init"


def set_custom_post_init(var: tf.Variable, func: Callable[[tf.compat.v1.Session], object]) -> None:
    """:param func: gives the variable its value, after its own initializer has run"""
    setattr(var, _ATTRIBUTE, func)


def have_custom_post_init(var: tf.Variable) -> bool:
    """:return: whether `set_custom_post_init` was called"""
    return getattr(var, _ATTRIBUTE, None) is not None


def run_custom_post_inits(variables: Iterable[tf.Variable], session: tf.compat.v1.Session) -> None:
    """Gives those variables their value that have a custom initialization."""
    functions = dict.fromkeys(getattr(var, _ATTRIBUTE, None) for var in variables)  # several may share one
    values = [func for func in functions if isinstance(func, ValueOfVariable)]
    assign_values(session, {func.var.ref(): func.get() for func in values})
    for func in functions:
        if func is not None and not isinstance(func, ValueOfVariable):
            func(session)


class ValueOfVariable:
    """A value for one variable, computed when it is needed. As a function it assigns it."""

    def __init__(self, var: tf.Variable, get: Callable[[], numpy.ndarray]):
        self.var = var
        self.get = get

    def __call__(self, session: tf.compat.v1.Session) -> None:
        assign_values(session, {self.var.ref(): self.get()})
