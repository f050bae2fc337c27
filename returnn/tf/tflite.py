"""
Frozen graphs as TensorFlow Lite models, where its own operations allow.

The batch has one sequence, of any length, as the converter has to know the size of what loops keep. What it leaves to
TensorFlow because of some notation is written in another one before. An operation that only TensorFlow itself has
("flex", in an interpreter with all of TensorFlow) is an error, which names where it is.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy
import tensorflow as tf

from returnn.util.errors import ConfigError
from returnn.util.texts.counted import some_of

tf1 = tf.compat.v1
_T = TypeVar("_T")

SIGNATURE = "serving_default"
_MISSING = re.compile(r"^(?:TF Select|Custom) ops: (.*)$", re.MULTILINE)
_LOCATION = re.compile(r'fused\["\w+:", "([^"]*)"')
_OTHER_FORMATS = "  Possible are the formats 'saved_model' and 'frozen', or a network without these layers."
_WITHOUT_LOOP = (
    "  Possible are the formats 'saved_model' and 'frozen'. Loops, as those of a beam search, often are the reason."
)


def to_tflite(graph_def: Any, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> bytes:
    """
    :param graph_def: without variables
    :param inputs: name -> tensor
    :param outputs: the same
    :return: content of the file. Names of inputs and outputs stand in its signature
    :raises ConfigError: if TensorFlow Lite has not all operations of the graph
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            tf1.import_graph_def(_prepared(graph_def), name="")
            parts = [{name: graph.get_tensor_by_name(x) for name, x in part.items()} for part in (inputs, outputs)]
            with _quiet():
                tf1.saved_model.simple_save(session, path, *parts)
        try:
            with _quiet():
                return _in_eager_mode(lambda: _converted(path))
        except Exception as exc:  # the class of the converter's errors is not public
            raise ConfigError(_explained(str(exc), graph_def)) from exc


def _converted(path: str) -> bytes:
    converter = tf.lite.TFLiteConverter.from_saved_model(path, signature_keys=[SIGNATURE])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    return converter.convert()


def _in_eager_mode(function: Callable[[], _T]) -> _T:
    """:return: what it returns, in a thread of its own; the converter of graph mode writes no signatures"""
    was_eager = tf1.executing_eagerly_outside_functions()
    tf1.reset_default_graph()
    tf1.enable_eager_execution()
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function).result()
    finally:
        if not was_eager:
            tf1.disable_eager_execution()


# The graph, in a notation which the converter knows.


def _prepared(graph_def: Any) -> Any:
    """:return: a graph that computes the same, for batches of one sequence"""
    result = type(graph_def)()
    result.CopyFrom(graph_def)
    for node in result.node:
        if node.op == "Placeholder" and node.attr["shape"].shape.dim:
            node.attr["shape"].shape.dim[0].size = 1
    constants = {node.name: node for node in result.node if node.op == "Const"}
    for node in list(result.node):
        if node.op in ("TensorListReserve", "TensorListFromTensor"):
            _with_known_batch(node, constants)
        elif node.op == "StridedSlice":
            _as_new_axis(node, constants, result)
    return result


def _with_known_batch(node: Any, constants: Mapping[str, Any]) -> None:
    """Entries of arrays in loops are frames (batch, ...)."""
    constant = constants.get(node.input[1 if node.op == "TensorListFromTensor" else 0])
    if constant is None:
        return
    shape = tf.make_ndarray(constant.attr["value"].tensor)
    if shape.ndim == 1 and len(shape) and shape[0] == -1 and (shape[1:] >= 0).all():
        constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(numpy.array([1, *shape[1:]], shape.dtype)))


def _as_new_axis(node: Any, constants: Mapping[str, Any], graph_def: Any) -> None:
    """`x[:, None]` becomes `expand_dims`, as the converter knows the former only for known sizes."""
    axis = _new_axis(node, constants)
    if axis is None:
        return
    source, dtype = node.input[0], node.attr["T"].type
    node.attr.clear()
    del node.input[:]
    node.op = "ExpandDims"
    node.input.extend([source, _constant(graph_def, f"{node.name}/new_axis", axis)])
    node.attr["T"].type = dtype
    node.attr["Tdim"].type = tf.int32.as_datatype_enum


def _new_axis(node: Any, constants: Mapping[str, Any]) -> int | None:
    """:return: the axis that it makes, from the front or the end; None: it does something else, or more"""
    begin, steps = (constants.get(node.input[i]) for i in (1, 3))
    if begin is None or steps is None or node.attr["shrink_axis_mask"].i:
        return None
    strides = tf.make_ndarray(steps.attr["value"].tensor)
    kinds = []
    for i, stride in enumerate(strides):
        is_new, is_rest, has_begin, has_end = (
            bool(node.attr[f"{mask}_mask"].i >> i & 1) for mask in ("new_axis", "ellipsis", "begin", "end")
        )
        is_whole = has_begin and has_end and stride == 1
        kinds.append("new" if is_new else "rest" if is_rest else "whole" if is_whole else "part")
    if kinds.count("new") != 1 or "part" in kinds:
        return None
    axis = kinds.index("new")
    return axis - len(kinds) if "rest" in kinds[:axis] else axis


def _constant(graph_def: Any, name: str, value: int) -> str:
    """:return: name of a new node"""
    node = graph_def.node.add(name=name, op="Const")
    node.attr["dtype"].type = tf.int32.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int32))
    return name


# What is not possible.


def _explained(text: str, graph_def: Any) -> str:
    """:return: which operations are missing, and where they are"""
    missing = sorted({op.strip().split("(")[0] for ops in _MISSING.findall(text) for op in ops.split(",")})
    if missing:
        lines = [f"  {op}: {_places_of(op, graph_def)}" for op in missing]
        return "\n".join(["format 'tflite': TensorFlow Lite has no such operation:", *lines, _OTHER_FORMATS])
    reason = next((line for line in text.splitlines() if "error:" in line), text.partition("\n")[0])
    place = _LOCATION.search(reason)
    where = f"operation {place[1]!r}: " if place else ""
    reason = reason.rpartition("error: ")[2].strip() or "it does not say why"
    hint = _OTHER_FORMATS if place else _WITHOUT_LOOP
    return f"format 'tflite': {where}the converter of TensorFlow refuses it: {reason}\n{hint}"


def _places_of(op: str, graph_def: Any) -> str:
    nodes = [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]
    places = sorted({node.name.rpartition("/")[0] or node.name for node in nodes if node.op == op})
    return some_of(places) if places else "made by the converter"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """That functions of graphs are deprecated, and how far the converter is, need not be heard."""
    loggers = [tf.get_logger(), logging.getLogger("absl")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel("ERROR")
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
