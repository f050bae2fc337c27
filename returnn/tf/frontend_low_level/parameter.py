"""
Parameters in TensorFlow graphs: resource variables.

A variable has its name and its initial value from the beginning. Both are only known when the model is complete, so it
is made when it is first used, see `returnn.frontend.parameter`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from returnn.frontend._ops.layout import raw_for_broadcast
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level import side_effects
from returnn.tf.frontend_low_level.device import on_device
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.util.errors import UserError

if TYPE_CHECKING:
    from returnn.frontend.parameter import Parameter

_TRAINABLE = tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES


class ParameterTFOps:
    """For their meaning see `returnn.frontend._backends.required`."""

    @staticmethod
    def create_parameter_raw(tensor: Parameter, *, device: str | None = None) -> tf.Variable:
        """:return: variable in the outermost graph, also if it is first used in a loop"""
        shape = [dim.get_dim_value() for dim in tensor.dims]

        def initial_value() -> tf.Tensor:
            value = _raw(tensor.draw_initial_value(), tensor, tensor.dims)
            return tf.broadcast_to(value, shape)

        with outermost_graph(), _root_name_scope(), on_device(device):
            return tf.compat.v1.Variable(
                initial_value,
                trainable=bool(tensor.trainable),
                name=tensor.get_full_name().replace(".", "/"),
                dtype=tensor.dtype,
                use_resource=True,
                shape=shape,
            )

    @staticmethod
    def set_parameter_initial_value(param: Parameter, value: Any) -> None:
        """:raises UserError: always: the graph has the initial value already"""
        raise UserError(
            f"parameter {param.get_full_name()!r}: it was used already, so its initial value cannot change.\n"
            "  Set it before, or use assign."
        )

    @staticmethod
    def set_parameter_trainable(param: Parameter, trainable: bool) -> None:
        """Puts it among the trainable variables of the graph, or takes it from there."""
        variable = param.raw_tensor
        if tf.executing_eagerly():
            return
        collection = variable.graph.get_collection_ref(_TRAINABLE)
        others = [x for x in collection if x is not variable]
        collection[:] = [*others, variable] if trainable else others

    @staticmethod
    def parameter_assign_raw(param: Parameter, value: Any, op: str) -> None:
        """Writes the value, whenever the graph runs."""
        new = tf.broadcast_to(_raw(value, param, param.dims), param.raw_tensor.shape)
        _assign(param, new, op)

    @staticmethod
    def parameter_assign_key_raw(
        param: Parameter, axes: Sequence[Dim], keys: Sequence[Any], dims: Sequence[Dim], value: Any, op: str
    ) -> None:
        """Writes the value to a part, whenever the graph runs."""
        rest = [dim for dim in param.dims if dim not in axes]
        perm = [param.dims.index(dim) for dim in (*axes, *rest)]
        view = tf.transpose(param._raw_tensor, perm)
        index = [_index(one_key, view.shape[i], dims) for i, one_key in enumerate(keys)]
        shape = _broadcast_shape([tf.shape(x) for x in index])
        indices = tf.stack([tf.broadcast_to(x, shape) for x in index], axis=-1)
        new = _raw(value, param, [*dims, *rest])
        new = tf.broadcast_to(new, tf.concat([shape, [dim.size for dim in rest]], axis=0))
        update = tf.tensor_scatter_nd_add if op == "add" else tf.tensor_scatter_nd_update
        inverse = [perm.index(i) for i in range(len(perm))]
        updated = update(view, indices[None], new[None])  # without an axis in front, a single index is taken as several
        _assign(param, tf.transpose(updated, inverse), "assign")

    @staticmethod
    def parameter_move_to(param: Parameter, *, device: str | None = None, dtype: str | None = None) -> None:
        """:raises UserError: always: the graph has the variable already"""
        raise UserError(
            f"parameter {param.get_full_name()!r}: it was used already, so it cannot move.\n"
            "  Call `to` before, directly after the module was made."
        )


def _root_name_scope() -> Any:
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    return tf.compat.v1.get_default_graph().name_scope(None)


def _raw(value: Any, param: Parameter, dims: Sequence[Dim]) -> Any:
    if isinstance(value, Tensor):
        return raw_for_broadcast(value, dims)
    return tf.convert_to_tensor(value, dtype=param.dtype)


def _assign(param: Parameter, new: tf.Tensor, op: str) -> None:
    variable = param.raw_tensor
    function = variable.assign_add if op == "add" else variable.assign
    side_effects.write(variable, lambda: function(new, read_value=False))
    param.set_reader(side_effects.read)


def _index(key: Any, size: int, dims: Sequence[Dim]) -> tf.Tensor:
    """:return: indices, with one axis for each of `dims`, or fewer, in front of which others can be added"""
    if isinstance(key, tuple):
        cut, dim = key
        start, stop, step = (x._raw_tensor if isinstance(x, Tensor) else x for x in (cut.start, cut.stop, cut.step))
        key = Tensor("slice", dims=[dim], dtype="int32", raw_tensor=tf.range(size)[start:stop:step])
    if isinstance(key, Tensor):
        return tf.cast(raw_for_broadcast(key, dims), tf.int32)
    return tf.convert_to_tensor(key, tf.int32)


def _broadcast_shape(shapes: Sequence[tf.Tensor]) -> tf.Tensor:
    shape = shapes[0]
    for other in shapes[1:]:
        shape = tf.broadcast_dynamic_shape(shape, other)
    return shape
