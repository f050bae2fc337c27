"""Parameters: layers of class "variable" in the root, which are named by the attributes of the modules."""

from __future__ import annotations

from typing import Any

import numpy

from returnn.frontend._ops.parameter import assign_key_dims
from returnn.frontend._reduce import reduce_any, reduce_sum
from returnn.frontend.array_ import cast, expand_to, where
from returnn.frontend.dims import range_over_dim, set_sparse_dim
from returnn.frontend.init import ParamInit
from returnn.frontend.math_ import combine_bc, compare_bc
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.make_layer import make_layer
from returnn.tf.frontend_layers.parameter_assign import assign_layer
from returnn.tf.frontend_layers.recording import as_recorded, template_backend
from returnn.util.errors import UserError


class ParameterLayers:
    """For their meaning see `returnn.frontend._backends.required`."""

    @staticmethod
    def create_parameter_raw(tensor: Any, *, device: str | None = None) -> Layer:
        """:return: the layer "encoder.layers.0.weight", whose variable is "encoder/layers/0/weight" """
        root = Layer.top().root
        place = root.get_new_child(tensor.get_full_name())
        *scope, name = (place.name or "").split(".")
        options: dict[str, Any] = {"class": "variable", "shape": list(tensor.dims), "param_name": name}
        options["name_scope"] = "/" + "/".join(scope)
        if tensor.dtype != "float32":
            options["dtype"] = tensor.dtype
        if not tensor.trainable:
            options["trainable"] = False
        if tensor.non_critical_for_restore:
            options["non_critical_for_restore"] = True
        if tensor.weight_decay:
            options["L2"] = tensor.weight_decay
        with root:
            options.update(_initial(tensor))
            template: Tensor[Any] = Tensor(name, dims=tensor.dims, dtype=tensor.dtype)
            make_layer(options, name=place, out=template)
            if tensor.sparse_dim is not None:
                labels = {"class": "reinterpret_data", "from": template, "set_sparse_dim": tensor.sparse_dim}
                template = template.copy_template().copy_with_roles(sparse_dim=tensor.sparse_dim)
                make_layer(labels, name=root.get_new_child(f"{place.name}.labels"), out=template)
        raw: Layer = template.raw_tensor
        return raw

    @staticmethod
    def set_parameter_initial_value(param: Any, value: Any) -> None:
        """Changes the layer."""
        layer = variable_layer(param)
        assert layer.layer_dict is not None
        for key in ("init", "init_by_layer"):
            layer.layer_dict.pop(key, None)
        with layer.root:
            layer.layer_dict.update(_initial(param))

    @staticmethod
    def set_parameter_trainable(param: Any, trainable: bool) -> None:
        """Changes the layer."""
        layer = variable_layer(param)
        assert layer.layer_dict is not None
        layer.layer_dict["trainable"] = trainable

    @staticmethod
    def parameter_move_to(param: Any, *, device: str | None = None, dtype: str | None = None) -> None:
        """:raises UserError: always: there is a layer already"""
        raise UserError(
            f"parameter {param.get_full_name()!r}: it was used already, so it cannot move.\n"
            "  Call `to` before, directly after the module was made."
        )

    @classmethod
    def parameter_assign(cls, param: Any, value: Any, *, op: str = "assign") -> None:
        """By a layer of class "variable_assign"."""
        template_backend().parameter_assign(param, value, op=op)
        assign_layer(param, expand_to(as_recorded(value, like=param), param.dims), op=op)

    @classmethod
    def parameter_assign_key(
        cls, param: Any, key: Any, value: Any, *, op: str = "assign", axis: Any = None, key_dim: Any = None
    ) -> None:
        """By a layer of class "variable_assign", with the whole new value."""
        template_backend().parameter_assign_key(param, key, value, op=op, axis=axis, key_dim=key_dim)
        axes, keys, dims = assign_key_dims(param, key, axis, key_dim)
        is_at_key: Any = None
        for one_axis, one_key in zip(axes, keys, strict=True):
            position = set_sparse_dim(range_over_dim(one_axis), None)
            is_at = compare_bc(position, "==", _positions(one_key, one_axis))
            is_at_key = is_at if is_at_key is None else combine_bc(is_at_key, "logical_and", is_at)
        value = as_recorded(value, like=param)
        new = where(is_at_key, value, 0, allow_broadcast_all_sources=True)
        any_key = is_at_key
        if dims:
            new = reduce_sum(expand_to(new, dims), axis=dims)
            any_key = reduce_any(is_at_key, axis=[dim for dim in dims if dim in is_at_key.dims])
        before = as_recorded(param)
        if op == "add":
            new = combine_bc(before, "+", new)
        updated = where(any_key, new, before, allow_broadcast_all_sources=True)
        assign_layer(param, expand_to(updated, param.dims), op="assign")


def _positions(key: Any, axis: Dim) -> Any:
    """:return: entries of the axis which a key is: number, or tensor"""
    if isinstance(key, tuple):
        cut, dim = key
        start, _, step = cut.indices(axis.size) if not _has_tensors(cut) else (cut.start or 0, None, cut.step or 1)
        return combine_bc(combine_bc(set_sparse_dim(range_over_dim(dim), None), "*", step), "+", start)
    return set_sparse_dim(cast(key, "int32"), None) if isinstance(key, Tensor) else key


def _has_tensors(cut: slice) -> bool:
    return any(isinstance(x, Tensor) for x in (cut.start, cut.stop, cut.step))


def variable_layer(param: Any) -> Layer:
    """:return: the layer of class "variable" of a parameter"""
    layer: Layer = param.raw_tensor
    options = layer.layer_dict or {}
    if options.get("class") == "reinterpret_data":
        layer = options["from"].raw_tensor
    return layer


def _initial(param: Any) -> dict[str, Any]:
    """:return: options of the layer"""
    initial = param.initial
    if isinstance(initial, numpy.ndarray) and not initial.ndim:
        initial = initial.item()
    if isinstance(initial, numpy.generic):
        initial = initial.item()
    if initial is None or (isinstance(initial, (int, float)) and not initial):
        return {}
    if isinstance(initial, (int, float, bool)):
        return {"init": initial}
    if isinstance(initial, numpy.ndarray):
        return {"init": initial.astype(param.dtype)}
    value = param.draw_initial_value()
    if isinstance(initial, ParamInit) and isinstance(value, (int, float)):
        return {"init": value}
    layer: Layer = as_recorded(value, like=param).raw_tensor
    if layer.parent is not None and layer.parent.is_root and not layer.virtual:
        layer.assign_parent(layer.parent, f"{param.get_full_name()}.initial")
    return {"init_by_layer": layer}
