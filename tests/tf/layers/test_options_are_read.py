"""
No option is accepted and then ignored: each one that a class takes has an effect somewhere in its source.

An option counts as read if `__init__` does more with it than to keep it, or if what it is kept as is read elsewhere: in
a class of the package, or as a key of the options of the layer.
"""

import ast
import functools
import inspect
import sys
from pathlib import Path

import pytest

import returnn
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.options.layer_options import options_of
from returnn.tf.layers.options.registry import (
    get_layer_class,
    get_layer_class_name_list,
    get_loss_class,
    get_loss_class_name_list,
)
from returnn.tf.network import TFNetwork

CLASSES = sorted(
    {
        *(get_layer_class(name) for name in get_layer_class_name_list()),
        *(get_loss_class(name) for name in get_loss_class_name_list()),
    },
    key=lambda cls: cls.__name__,
)
NO_EFFECT = {  # option -> why there is none
    "rec_previous_layer": "documented, but only the network sets it",
    "seq_lens": "of an internal layer",
    "shape_deps": "layers which are made before, and that is all",
}
assert TFNetwork  # it brings all layer classes with it


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_option_is_accepted_and_ignored(cls):
    options = [name for name in options_of(cls) if name not in NO_EFFECT and name != "self" and name[0] != "_"]
    assert [name for name in options if not is_read(cls, name)] == []


def is_read(cls, name):
    """:return: whether the option of a class has an effect"""
    init = options_of(cls)[name].init
    kept_as = attributes_that_keep(init, name)
    if None in kept_as:
        return True
    is_common = init in (LayerBase.__init__, Loss.__init__)
    read = [names_read_in(module) for module in (all_modules() if is_common else modules_of(cls))]
    return any(name in keys or not kept_as.isdisjoint(attributes) for attributes, keys in read)


@functools.cache
def attributes_that_keep(init, name):
    return {attribute_that_keeps(statement) for statement in uses_of(definition_of(init), name)}


def uses_of(function, name):
    """:return: the simple statements, or conditions, in which the parameter is read"""
    for statement in ast.walk(function):
        if isinstance(statement, ast.stmt):
            expressions = [x for x in ast.iter_child_nodes(statement) if isinstance(x, ast.expr)]
            nodes = [node for expression in expressions for node in ast.walk(expression)]
            if any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in nodes):
                yield statement


def attribute_that_keeps(statement):
    """:return: "x" for a statement `self.x = ...`"""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if isinstance(target, ast.Attribute):
            return target.attr
    return None


@functools.cache
def definition_of(function):
    return ast.parse(inspect.cleandoc("\n" + inspect.getsource(function))).body[0]


@functools.cache
def all_modules():
    return [str(path) for path in Path(returnn.__file__).parent.joinpath("tf").rglob("*.py")]


@functools.cache
def modules_of(cls):
    """:return: the modules with the class and its bases, and those beside them which they import"""
    own = {sys.modules[base.__module__] for base in cls.__mro__[:-1] if base.__module__.startswith("returnn.")}
    beside = {sys.modules[value.__module__] for m in own for value in vars(m).values() if hasattr(value, "__module__")}
    folders = {m.__name__.rpartition(".")[0] for m in own}
    return sorted({m.__file__ for m in own | beside if m.__name__.rpartition(".")[0] in folders})


@functools.cache
def names_read_in(module):
    """:return: names of attributes that are read; texts that are keys: `d["x"]`, `d.get("x")`, `d.pop("x")`"""
    attributes, keys = set(), set()
    for node in ast.walk(ast.parse(Path(module).read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            attributes.add(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            keys.add(node.slice.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            keys.update(arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))
    return attributes, keys
