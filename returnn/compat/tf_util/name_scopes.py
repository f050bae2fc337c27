"""Scopes of names: of operations and variables, as they are now, once more, or those of a tensor."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


def get_current_name_scope() -> str:
    """:return: scope of the operations that are made now, such as "a/b"; "" outside of all"""
    return tf1.get_default_graph().get_name_scope()


def get_current_var_scope_name() -> str:
    """:return: scope of the variables that are made now"""
    return tf1.get_variable_scope().name


def get_name_scope_of_tensor(x: tf.Tensor | tf.Variable) -> str:
    """:return: scope of the operation: "a/b" for "a/b/c:0" """
    return x.name.rpartition("/")[0]


def get_base_name(x: tf.Tensor | tf.Variable) -> str:
    """:return: name without its scope: "c" for "a/b/c:0" """
    return x.name.rpartition("/")[2].partition(":")[0]


def get_valid_scope_name_from_str(s: str) -> str:
    """:return: the nearest name that TensorFlow allows as scope"""
    valid = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", s)
    return valid if re.match(r"[A-Za-z0-9.]", valid) else f"x{valid}"


@contextlib.contextmanager
def reuse_name_scope(name: str, absolute: bool | None = None, **kwargs: Any) -> Iterator[tf1.VariableScope]:
    """
    Scope of operations and variables. It gets exactly this name, also if it exists: there is no "a_1" after "a".

    :param name: inside of the current scope; or from the outermost scope on
    :param absolute: from the outermost scope on
    :param kwargs: for `tf.compat.v1.variable_scope`, such as `reuse`
    """
    current = get_current_name_scope()
    full = name if absolute or not current else f"{current}/{name}"
    scope = tf1.VariableScope(reuse=kwargs.pop("reuse", tf1.get_variable_scope().reuse), name=full.rstrip("/"))
    with tf1.variable_scope(scope, auxiliary_name_scope=False, **kwargs) as var_scope:
        var_scope.set_use_resource(tf1.get_variable_scope().use_resource)
        with tf1.name_scope(f"{full.rstrip('/')}/" if full else None):
            yield var_scope


@contextlib.contextmanager
def opt_reuse_name_scope(name: str | tf1.VariableScope | None) -> Iterator[Any]:
    """
    :param name: see `reuse_name_scope`; nothing happens for None and ""
    """
    if not name:
        yield tf1.get_variable_scope()
        return
    name = name.name if isinstance(name, tf1.VariableScope) else name
    with reuse_name_scope(name) as scope:
        yield scope


@contextlib.contextmanager
def reuse_name_scope_of_tensor(
    x: tf.Tensor | tf.Variable, prefix: str = "", postfix: str = "", add_tensor_name: bool = False
) -> Iterator[tf1.VariableScope]:
    """
    :param x: in whose scope operations are made
    :param prefix: in front of its name
    :param postfix: behind its name
    :param add_tensor_name: the name of the tensor is a scope, too
    """
    scope = x.name.partition(":")[0] if add_tensor_name else get_name_scope_of_tensor(x)
    with reuse_name_scope(f"{prefix}{scope}{postfix}", absolute=True) as var_scope:
        yield var_scope
