"""
How an operation becomes a layer: the template backend says what comes out, and a dict says which layer does it.

Where no layer class does exactly this operation, it is an expression on the operation itself (class "eval"), which sees
the sources as tensors with named dims: `backend.scatter(source(0, as_data=True), ...)`.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy

from returnn.frontend._backend import Backend, get_backend_by_name
from returnn.frontend._ops.operands import dtype_of_number
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.make_layer import make_layer
from returnn.tf.frontend_layers.scopes import dims_without_lengths, lengths_of
from returnn.util.errors import UserError

_NUMBERS = (bool, int, float, complex, str, numpy.generic, numpy.ndarray)


def template_backend() -> Any:
    """:return: what knows the rules for dims"""
    return get_backend_by_name("template")


def as_recorded(value: Any, *, like: Tensor[Any] | None = None) -> Tensor[Any]:
    """
    :param value: tensor of any backend that has a value, or number
    :param like: a number gets its dtype
    :return: tensor with a layer
    """
    if not isinstance(value, Tensor):
        dtype = dtype_of_number(value, like=like)
        return make_constant(value, Tensor("const", dims=(), dtype=dtype))
    raw = value._raw_tensor
    if isinstance(raw, Layer):
        return _as_layer_says(value, raw)
    if raw is None:
        raise UserError(
            f"{value} has no value, and is no output of a layer.\n"
            "  Data has to be registered, by register_extern_data, before operations on it are recorded."
        )
    return make_constant(value._raw_backend.raw_to_numpy(raw), value)


def _as_layer_says(value: Tensor[Any], raw: Layer) -> Tensor[Any]:
    """:return: the same, by another layer if the labels are not those of the layer that it has"""
    own = raw.tensor
    if own is None or own.sparse_dim == value.sparse_dim:
        return value if value.raw_tensor is raw or own is None else own  # what was assigned to a parameter
    return set_labels(value, raw, value.sparse_dim)


def set_labels(value: Tensor[Any], source: Layer, sparse_dim: Dim | None) -> Tensor[Any]:
    """:return: the values of the source, as indices into a dim, or as plain numbers"""
    template = value.copy_template().copy_with_roles(sparse_dim=sparse_dim)
    options: dict[str, Any] = {"class": "reinterpret_data", "from": source}
    options.update({"set_sparse": False} if sparse_dim is None else {"set_sparse_dim": sparse_dim})
    return record(template, options, name="set_sparse_dim")


def make_constant(value: Any, template: Tensor[Any]) -> Tensor[Any]:
    """:return: output of a layer with this number or array"""
    if isinstance(value, numpy.ndarray):
        value = value.item() if not value.ndim else value
    elif isinstance(value, numpy.generic):
        value = value.item()
    options: dict[str, Any] = {"class": "constant", "value": value, "shape": list(template.dims)}
    options["dtype"] = template.dtype
    if template.sparse_dim is not None:
        options["sparse_dim"] = template.sparse_dim
    if template.feature_dim is not None:
        options["feature_dim"] = template.feature_dim
    return record(template, options, deps_option="shape_deps")


def record(
    template: Tensor[Any], options: dict[str, Any], *, name: str | None = None, deps_option: str | None = None
) -> Tensor[Any]:
    """
    :param template: what comes out
    :param options: of the layer, with tensors in place of names
    :param name: of the layer; default: its class
    :param deps_option: of this layer class, with layers that have to be made before it
    :return: output of the new layer
    """
    sources = _tensors_in(options)
    missing = dims_without_lengths(_dims_in([options, list(template.dims)]), sources)
    if missing and deps_option is not None:
        options[deps_option] = [_definer(dim) for dim in missing]
    out = template.copy_template(name or options["class"])
    make_layer(options, name=name, out=out, name_ctx_ignore_top_stack_frames=1)
    return _finished(out)


def record_expression(operation: str, *args: Any, **kwargs: Any) -> Any:
    """
    :param operation: method of `Backend`
    :param args: its arguments
    :return: what it returns: a tensor, or a sequence with tensors and dims; each tensor is a layer of its own
    """
    result = getattr(template_backend(), operation)(*_as_templates(args), **_as_templates(kwargs))
    expression = _Expression(operation, args, kwargs)
    return _with_layers(result, expression, "")


def _as_templates(value: Any) -> Any:
    """:return: the same, with templates in place of tensors"""
    if isinstance(value, Tensor):
        return value.copy_template()
    if isinstance(value, dict):
        return {key: _as_templates(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_as_templates(entry) for entry in value)
    return value


@contextlib.contextmanager
def stop_gradient_scope() -> Iterator[None]:
    """Inside of the `with` block, no gradient goes back through new layers."""
    _without_gradient.append(True)
    try:
        yield
    finally:
        _without_gradient.pop()


_without_gradient: list[bool] = []


def _finished(out: Tensor[Any]) -> Tensor[Any]:
    """:return: the output of a new layer; in `stop_gradient_scope`, that of another one behind it"""
    if not _without_gradient:
        return out
    stopped = out.copy_template()
    make_layer({"class": "scaled_grad", "from": out, "scale": 0}, name="stop_gradient", out=stopped)
    return stopped


def _with_layers(result: Any, expression: _Expression, index: str) -> Any:
    if isinstance(result, Tensor):
        return expression.record(result, index)
    if isinstance(result, (tuple, list)):
        return type(result)(_with_layers(x, expression, f"{index}[{i}]") for i, x in enumerate(result))
    return result


class _Expression:
    """A call of an operation as text, and what stands for names in there."""

    def __init__(self, operation: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.operation = operation
        self.sources: list[Tensor[Any]] = []
        self.names: dict[str, Any] = {}
        parts = [self._text(x) for x in args]
        parts += [
            f"{key}={self._text(x)}" for key, x in kwargs.items() if x is not None or _is_required(operation, key)
        ]
        self.text = f"backend.{operation}({', '.join(parts)})"

    def record(self, template: Tensor[Any], index: str) -> Tensor[Any]:
        """:return: output of a layer with one of the results"""
        dims = [*self.names.values(), *template.dims]
        extra = [_definer(dim) for dim in dims_without_lengths(_dims_in(dims), self.sources)]
        sources = [*self.sources, *extra] or [make_constant(0, Tensor("const", dims=(), dtype="int32"))]
        options: dict[str, Any] = {"class": "eval", "from": sources, "eval": self.text + index}
        if self.names:
            options["eval_locals"] = dict(self.names)
        options["out_type"] = describe(template)
        out = template.copy_template(self.operation)
        make_layer(options, name=self.operation, out=out)
        return _finished(out)

    def _text(self, value: Any) -> str:
        if isinstance(value, Tensor):
            return f"source({self._source(as_recorded(value))}, as_data=True)"
        if isinstance(value, Dim):
            return self._name(value, value.name or "dim")
        if isinstance(value, (list, tuple)):
            entries = ", ".join(map(self._text, value))
            return f"[{entries}]" if isinstance(value, list) else f"({entries}{',' if len(value) == 1 else ''})"
        if isinstance(value, numpy.ndarray):
            return self._name(value, "array")
        if isinstance(value, numpy.generic):
            value = value.item()
        if isinstance(value, float) and not numpy.isfinite(value):
            return f"float({str(value)!r})"
        if value is None or isinstance(value, _NUMBERS):
            return repr(value)
        raise UserError(f"{self.operation}: {value!r} cannot be recorded in a net dict.")

    def _source(self, x: Tensor[Any]) -> int:
        for i, known in enumerate(self.sources):
            if known is x:
                return i
        self.sources.append(x)
        return len(self.sources) - 1

    def _name(self, value: Any, suggested: str) -> str:
        for name, known in self.names.items():
            if known is value:
                return name
        plain = re.sub(r"\W", "_", suggested)
        plain = f"{plain}_dim" if isinstance(value, Dim) and plain != "dim" else plain
        plain = plain if plain[0].isalpha() else f"dim_{plain}"
        name, number = plain, 1
        while name in self.names:
            name, number = f"{plain}_{number}", number + 1
        self.names[name] = value
        return name


def _is_required(operation: str, argument: str) -> bool:
    parameters = inspect.signature(getattr(Backend, operation)).parameters
    return parameters[argument].default is inspect.Parameter.empty


def describe(template: Tensor[Any]) -> dict[str, Any]:
    """:return: option `out_type` for it"""
    options: dict[str, Any] = {"dims": list(template.dims), "dtype": template.dtype}
    options["sparse_dim"] = template.sparse_dim
    options["sparse"] = template.sparse_dim is not None
    if template.feature_dim_axis is not None:
        options["feature_dim_axis"] = template.feature_dim_axis
    return {key: value for key, value in options.items() if value is not None}


def _definer(dim: Dim) -> Tensor[Any]:
    """:return: output of a layer; when it is made, the dim gets its lengths"""
    lengths = lengths_of(dim)
    assert lengths is not None
    options = lengths.raw_tensor.layer_dict or {}
    if options.get("class") == "length" and options.get("axis") == dim:
        return lengths
    source = lengths_for_range(dim)
    assert source is not None
    layer: Layer = source.raw_tensor
    for user in layer.usages:
        if user.layer_dict and user.layer_dict.get("out_spatial_dim") is dim and user.tensor is not None:
            return user.tensor
    around = layer.parent
    assert around is not None
    out: Tensor[Any] = Tensor("range", dims=[dim], dtype="int32")
    options = {"class": "range_from_length", "from": source, "out_spatial_dim": dim}
    return make_layer(options, name=around.get_new_child("frames"), out=out)


def lengths_for_range(dim: Dim) -> Tensor[Any] | None:
    """
    :return: lengths of the dim, for a layer of class "range_from_length"; None if it has a fixed size. If that one sees
        the layer of class "length" of another dim, it takes both dims to be the same, so it sees a copy then
    """
    lengths = lengths_of(dim)
    if lengths is None:
        return None
    layer: Layer = lengths.raw_tensor
    options = layer.layer_dict or {}
    if options.get("class") != "length" or options.get("axis") == dim:
        return lengths
    known = layer.root.lengths_of_others.get((layer, dim))
    if known is None:
        around = layer.parent
        assert around is not None
        place = around.get_new_child(f"{layer.name}_copy")
        known = make_layer({"class": "copy", "from": lengths}, name=place, out=lengths.copy_template())
        layer.root.lengths_of_others[layer, dim] = known
    return known


def _dims_in(value: Any) -> list[Dim]:
    if isinstance(value, Dim):
        return [value]
    if isinstance(value, Mapping):
        return [dim for key, entry in value.items() for dim in (*_dims_in(key), *_dims_in(entry))]
    if isinstance(value, (list, tuple)):
        return [dim for entry in value for dim in _dims_in(entry)]
    return []


def _tensors_in(value: Any) -> list[Tensor[Any]]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [x for entry in value.values() for x in _tensors_in(entry)]
    if isinstance(value, (list, tuple)):
        return [x for entry in value for x in _tensors_in(entry)]
    return []
