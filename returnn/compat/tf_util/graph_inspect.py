"""Looks at a graph: which operations there are, what they need and who needs them; and copies of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import tensorflow as tf

from returnn.tf.frontend_low_level.graph_text import format_graph_output
from returnn.tf.util.copy_op import copy_op

tf1 = tf.compat.v1


def get_root_graph(graph: tf.Graph | None = None) -> tf.Graph:
    """:return: the graph around all loops and conditions that the graph is inside of; default: the current one"""
    graph = graph or tf1.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def get_op_attrib_keys(op: tf.Operation | tf.Tensor) -> list[str]:
    """:return: names of the attributes of an operation"""
    return sorted(_as_op(op).node_def.attr)


def get_op_input_names(op: tf.Operation) -> list[str]:
    """:return: name of each input, as the type of operation declares it; one that is a list occurs several times"""
    names: list[str] = []
    for argument in op.op_def.input_arg:
        number = 1
        if argument.number_attr:
            number = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            number = len(op.get_attr(argument.type_list_attr))
        names += [argument.name] * number
    return names


def get_op_inputs_by_name(op: tf.Operation) -> dict[str, Any]:
    """:return: input by its name, as the type of operation declares it; a list for one that is a list"""
    names = get_op_input_names(op)
    result: dict[str, Any] = {}
    for argument in op.op_def.input_arg:
        values = [x for x, name in zip(op.inputs, names, strict=True) if name == argument.name]
        result[argument.name] = values if argument.number_attr or argument.type_list_attr else values[0]
    return result


def get_protobuf_fields(obj: Any) -> dict[str, Any]:
    """:return: name and value of each field that is set"""
    return {descriptor.name: value for descriptor, value in obj.ListFields()}


def find_ops_with_tensor_input(tensors: Any, fetches: Any = None, graph: tf.Graph | None = None) -> list[tf.Operation]:
    """
    :param tensors: one or several
    :param fetches: only operations that these need; default: all of the graph
    :param graph: default: that of the tensors
    :return: operations which have one of the tensors as input
    """
    wanted = {x.ref() for x in map(_as_tensor, tf.nest.flatten(tensors))}
    if fetches is not None:
        ops: Any = needed_ops(tf.nest.flatten(fetches))
    else:
        ops = (graph or _as_tensor(tf.nest.flatten(tensors)[0]).graph).get_operations()
    return [op for op in ops if any(x.ref() in wanted for x in op.inputs)]


def find_ops_path_output_to_input(tensors: Any, fetches: Any) -> list[tf.Operation] | None:
    """
    :param tensors: one or several
    :param fetches: what is computed
    :return: the shortest path of operations, from one of the fetches to one which has one of the tensors as input
        or as output; None if nothing depends on them
    """
    wanted = {x.ref() for x in map(_as_tensor, tf.nest.flatten(tensors))}
    paths: dict[tf.Operation, list[tf.Operation]] = {}
    todo = [_as_op(fetch) for fetch in tf.nest.flatten(fetches)]
    paths.update((op, [op]) for op in todo)
    for op in todo:  # grows in here
        if any(x.ref() in wanted for x in (*op.inputs, *op.outputs)):
            return paths[op]
        for other in (*(x.op for x in op.inputs), *op.control_inputs):
            if other not in paths:
                paths[other] = [*paths[op], other]
                todo.append(other)
    return None


def print_graph_output(fetches: Any, file: TextIO | None = None, max_depth: int | None = None) -> None:
    """
    :param fetches: what is computed
    :param file: default: the standard output
    :param max_depth: do not go further away from it
    """
    print(format_graph_output(fetches, max_depth=max_depth), file=file or sys.stdout)


_NON_DETERMINISTIC = {
    "Multinomial",
    "ParameterizedTruncatedNormal",
    "RandomGamma",
    "RandomPoisson",
    "RandomPoissonV2",
    "RandomShuffle",
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "TruncatedNormal",
}


def get_non_deterministic_ops_from_graph() -> list[tf.Operation]:
    """:return: operations of the current graph which draw random values without a seed"""
    return [
        op for op in tf1.get_default_graph().get_operations() if op.type in _NON_DETERMINISTIC and not _has_seed(op)
    ]


def _has_seed(op: tf.Operation) -> bool:
    keys = set(get_op_attrib_keys(op)) & {"seed", "seed2"}
    return any(op.get_attr(key) for key in keys)


def check_base_op_type_and_replace(x: tf.Tensor, op_type: str, new_op_type: str) -> tf.Tensor | None:
    """
    :param x: raw tensor
    :param op_type: such as "Softmax"
    :param new_op_type: such as "LogSoftmax"
    :return: what x would be with this type of operation; identities and reshapes behind it are made again. None if x
        does not come from it
    """
    op = x.op
    if op.type == op_type:
        return copy_op(op, op_type=new_op_type).outputs[0]
    if op.type not in ("Identity", "Reshape", "Transpose", "Squeeze", "ExpandDims"):
        return None
    source = check_base_op_type_and_replace(op.inputs[0], op_type, new_op_type)
    return None if source is None else copy_op(op, inputs=[source, *op.inputs[1:]]).outputs[0]


def _as_tensor(x: Any) -> tf.Tensor:
    return x if isinstance(x, tf.Tensor) else tf.convert_to_tensor(x)


def _as_op(x: Any) -> tf.Operation:
    return x if isinstance(x, tf.Operation) else x.op


def needed_ops(fetches: Sequence[Any]) -> Iterator[tf.Operation]:
    """:return: all operations that run for some tensors or operations"""
    todo = [_as_op(fetch) for fetch in fetches]
    seen = set(todo)
    for op in todo:  # grows in here
        yield op
        new = [x for x in (*(x.op for x in op.inputs), *op.control_inputs) if x not in seen]
        seen.update(new)
        todo += new
