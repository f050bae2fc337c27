"""Operations on each entry, and values from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.operands import is_int, numbers_of_one_kind
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers.make_layer import make_layer
from returnn.tf.frontend_layers.ops.seeds import next_seed
from returnn.tf.frontend_layers.recording import (
    as_recorded,
    describe,
    lengths_for_range,
    make_constant,
    record,
    record_expression,
    set_labels,
    template_backend,
)

_ACTIVATION_LAYERS = frozenset((
    "relu", "tanh", "sigmoid", "exp", "log", "abs", "sqrt", "square", "elu", "selu", "softplus",
    "ceil", "cos", "expm1", "floor", "gelu", "log1p", "log_sigmoid", "reciprocal", "round", "rsqrt", "sign", "silu",
    "sin", "softsign", "swish",
))  # fmt: skip
_ACTIVATIONS_OF_ALL_NUMBERS = frozenset(("abs", "sign", "square"))
# Where the class "activation" has no function for it. These are names which each version of the class "eval" knows.
_EXPRESSIONS = {
    "logical_not": "tf.logical_not",
    "neg": "tf.negative",
    "erf": "tf.math.erf",
    "tan": "tf.tan",
    "atan": "tf.atan",
}
_BROADCAST = {"allow_broadcast_all_sources": True}


def as_operands(a: Any, b: Any) -> tuple[Tensor[Any], Tensor[Any]]:
    """:return: both operands with layers; a number gets the dtype of the tensor beside it"""
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a, b = numbers_of_one_kind(a, b)
    first = as_recorded(a, like=b if isinstance(b, Tensor) else None)
    return first, as_recorded(b, like=a if isinstance(a, Tensor) else None)


def has_extra_dim_of_size_one(*operands: Any) -> bool:
    """:return: whether one has a dim of size 1 that another one lacks: layers take it as a dim to broadcast over"""
    dims = [x.dims for x in operands if isinstance(x, Tensor)]
    return any(dim.size == 1 and any(dim not in other for other in dims) for own in dims for dim in own)


class ElementwiseLayers:
    """For their meaning see `returnn.frontend._ops.elementwise`."""

    @classmethod
    def combine(
        cls,
        a: Any,
        kind: str,
        b: Any,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor[Any]:
        """:return: by a layer of class "combine" """
        out = template_backend().combine(
            a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
        )
        if has_extra_dim_of_size_one(a, b):
            result: Tensor[Any] = record_expression("combine", a, kind, b, **_BROADCAST)
            return result
        first, second = as_operands(a, b)
        if kind == "truediv" and is_int(first):
            first, second = cls.cast(first, out.dtype), cls.cast(second, out.dtype)
        options = {"class": "combine", "kind": kind, "from": [first, second], "allow_broadcast_all_sources": True}
        return record(out, options, name=kind)

    @classmethod
    def compare(
        cls,
        a: Any,
        kind: str,
        b: Any,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor[Any]:
        """:return: by a layer of class "compare" """
        out = template_backend().compare(
            a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
        )
        if has_extra_dim_of_size_one(a, b):
            result: Tensor[Any] = record_expression("compare", a, kind, b, **_BROADCAST)
            return result
        sources = list(as_operands(a, b))
        options = {"class": "compare", "kind": kind, "from": sources, "allow_broadcast_all_sources": True}
        return record(out, options, name=kind)

    @classmethod
    def activation(cls, tensor: Tensor[Any], func: str) -> Tensor[Any]:
        """:return: by a layer of class "activation", where that has the function"""
        template = template_backend().activation(tensor.copy_template(), func)
        known = _ACTIVATION_LAYERS if tensor.dtype.startswith("float") else _ACTIVATIONS_OF_ALL_NUMBERS
        if func in known and tensor.sparse_dim is None:
            return record(template, {"class": "activation", "activation": func, "from": as_recorded(tensor)}, name=func)
        if func in _EXPRESSIONS:
            return cls._by_expression(tensor, template, _EXPRESSIONS[func], func)
        out: Tensor[Any] = record_expression("activation", tensor, func)
        return out

    @classmethod
    def _by_expression(cls, tensor: Tensor[Any], template: Tensor[Any], function: str, name: str) -> Tensor[Any]:
        """:return: by a layer of class "eval", with a function of TensorFlow"""
        options = {"class": "eval", "from": as_recorded(tensor), "eval": f"{function}(source(0))"}
        return record(template, {**options, "out_type": describe(template)}, name=name)

    @classmethod
    def safe_log(cls, tensor: Tensor[Any], *, eps: float) -> Tensor[Any]:
        """:return: by a layer of class "activation" """
        template = template_backend().safe_log(tensor.copy_template(), eps=eps)
        options = {"class": "activation", "activation": "safe_log", "opts": {"eps": eps}, "from": as_recorded(tensor)}
        return record(template, options, name="safe_log")

    @classmethod
    def is_finite(cls, x: Tensor[Any]) -> Tensor[Any]:
        """:return: by an expression, bool"""
        return cls._by_expression(x, template_backend().is_finite(x.copy_template()), "tf.math.is_finite", "is_finite")

    @classmethod
    def is_infinite(cls, x: Tensor[Any]) -> Tensor[Any]:
        """:return: by an expression, bool"""
        return cls._by_expression(x, template_backend().is_infinite(x.copy_template()), "tf.math.is_inf", "is_infinite")

    @classmethod
    def is_neg_infinite(cls, x: Tensor[Any]) -> Tensor[Any]:
        """:return: by a layer of class "compare" """
        template_backend().is_neg_infinite(x.copy_template())
        return cls.compare(x, "equal", -float("inf"))

    @classmethod
    def clip_by_value(
        cls,
        x: Tensor[Any],
        clip_value_min: Any,
        clip_value_max: Any,
        *,
        allow_broadcast_all_sources: bool = False,
    ) -> Tensor[Any]:
        """:return: by two layers of class "combine" """
        allow: dict[str, Any] = {"allow_broadcast_all_sources": allow_broadcast_all_sources}
        bounds = [y.copy_template() if isinstance(y, Tensor) else y for y in (clip_value_min, clip_value_max)]
        template_backend().clip_by_value(x.copy_template(), *bounds, **allow)
        at_least = cls.combine(x, "maximum", clip_value_min, allow_broadcast_all_sources=True)
        return cls.combine(at_least, "minimum", clip_value_max, allow_broadcast_all_sources=True)

    @classmethod
    def lerp(
        cls, start: Tensor[Any], end: Tensor[Any], weight: Any, *, allow_broadcast_all_sources: bool = False
    ) -> Tensor[Any]:
        """:return: by layers of class "combine" """
        operands = [y.copy_template() if isinstance(y, Tensor) else y for y in (start, end, weight)]
        template_backend().lerp(*operands, allow_broadcast_all_sources=allow_broadcast_all_sources)
        way = cls.combine(end, "sub", start, allow_broadcast_all_sources=True)
        way = cls.combine(way, "mul", weight, allow_broadcast_all_sources=True)
        return cls.combine(start, "add", way, allow_broadcast_all_sources=True)

    @classmethod
    def cast(cls, tensor: Tensor[Any], dtype: str) -> Tensor[Any]:
        """:return: by a layer of class "cast" """
        if tensor.dtype == dtype:
            return tensor
        template = template_backend().cast(tensor, dtype)
        return record(template, {"class": "cast", "dtype": dtype, "from": as_recorded(tensor)})

    @classmethod
    def where(
        cls, cond: Tensor[Any], true_: Any, false_: Any, *, allow_broadcast_all_sources: bool = False
    ) -> Tensor[Any]:
        """:return: by a layer of class "switch" """
        template = template_backend().where(
            cond, true_, false_, allow_broadcast_all_sources=allow_broadcast_all_sources
        )
        operands = (cond, true_, false_)
        has_all = any(isinstance(x, Tensor) and x.dims_set == template.dims_set for x in operands)
        if not has_all or has_extra_dim_of_size_one(*operands):
            out: Tensor[Any] = record_expression("where", cond, true_, false_, allow_broadcast_all_sources=True)
            return out
        yes, no = as_operands(true_, false_)
        options = {"class": "switch", "condition": as_recorded(cond), "true_from": yes, "false_from": no}
        return record(template, options, name="where")


class CreationLayers:
    """For their meaning see `returnn.frontend._ops.creation`."""

    @classmethod
    def convert_to_tensor(
        cls,
        value: Any,
        *,
        dims: Sequence[Dim],
        dtype: str,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        device: str | None = None,
        name: str | None = None,
    ) -> Tensor[Any]:
        """:return: by a layer of class "constant"; of the raw tensor of this backend, the output of this layer"""
        template: Tensor[Any] = Tensor(
            name or "const", dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim
        )
        if hasattr(value, "get_name_in_ctx"):
            template._raw_tensor = value
            return template
        return make_constant(value, template)

    @classmethod
    def full(
        cls,
        dims: Sequence[Dim],
        fill_value: Any,
        *,
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor[Any]:
        """:return: by a layer of class "constant" for a number"""
        if isinstance(fill_value, Tensor):
            out: Tensor[Any] = record_expression(
                "full", list(dims), fill_value, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim
            )
            return out
        template: Tensor[Any] = Tensor("full", dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)
        return make_constant(fill_value, template)

    @classmethod
    def range_over_dim(cls, dim: Dim, *, dtype: str | None = None, device: str | None = None) -> Tensor[Any]:
        """:return: by a layer of class "range_from_length"; of a fixed size, "range" """
        template = template_backend().range_over_dim(dim, dtype=dtype)
        lengths = lengths_for_range(dim)
        if dim.size is not None and dim.capacity is None and not dim.is_batch_dim():
            plain = template.copy_with_roles(sparse_dim=None)
            options = {"class": "range", "limit": dim.size, "dtype": template.dtype, "out_spatial_dim": dim}
            numbers = record(plain, options)
            return numbers if template.sparse_dim is None else set_labels(numbers, numbers.raw_tensor, dim)
        if lengths is None:
            out: Tensor[Any] = record_expression("range_over_dim", dim, dtype=dtype)
            return out
        options = {"class": "range_from_length", "from": lengths, "dtype": template.dtype, "out_spatial_dim": dim}
        options["sparse"] = template.sparse_dim is not None
        return record(template, options, name="range")

    @classmethod
    def copy(cls, tensor: Tensor[Any]) -> Tensor[Any]:
        """:return: by a layer of class "copy" """
        return record(tensor.copy_template(), {"class": "copy", "from": as_recorded(tensor)})

    @classmethod
    def random(cls, *, out: Tensor[Any] | None = None, **options: Any) -> Tensor[Any]:
        """:return: by a layer of class "random" """
        template = template_backend().random(out=out, **options)
        if options["distribution"] == "bernoulli":
            return cls._bernoulli(template, options)
        names = ("distribution", "mean", "stddev", "bound", "minval", "maxval", "seed", "algorithm", "static")
        given = {name: options.get(name) for name in (*names, "explicit_state")}
        layer = {"class": "random", "shape": list(template.dims), "dtype": template.dtype}
        layer.update({name: value for name, value in given.items() if value is not None})
        if options.get("seed") is None and options.get("explicit_state") is None and (seed := next_seed()):
            layer["seed"] = seed
        if options.get("explicit_state") is not None:
            layer["auto_update_state"] = False  # the frontend moves it on
        for name in ("sparse_dim", "feature_dim"):
            if getattr(template, name) is not None:
                layer[name] = getattr(template, name)
        return record(template, layer, deps_option="shape_deps")

    @classmethod
    def _bernoulli(cls, template: Tensor[Any], options: dict[str, Any]) -> Tensor[Any]:
        mean = options.pop("mean")
        uniform = {**options, "distribution": "uniform", "dtype": "float32", "sparse_dim": None}
        is_below = ElementwiseLayers.compare(cls.random(**uniform), "less", mean)
        result = ElementwiseLayers.cast(is_below, template.dtype)
        return result.copy_with_roles(sparse_dim=template.sparse_dim, feature_dim=template.feature_dim)

    @classmethod
    def constant_raw(cls, value: Any, dtype: str, device: str | None) -> Any:
        """:return: layer with this number or array"""
        out = make_layer({"class": "constant", "value": value, "dtype": dtype}, out=Tensor("const", (), dtype))
        return out.raw_tensor
