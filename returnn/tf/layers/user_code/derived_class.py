"""
Layer classes of users which derive from a built-in one.

A built-in class keeps its options in `__init__`, and its output is computed after that. The `__init__` of a user's
class goes on with raw values as soon as `super().__init__(...)` is through. So between the two stands one more class,
whose `__init__` ends with the output. While dims are inferred, there is no value to go on with: all that is known of
the layer is known there, and the rest of the user's `__init__` is left out.

A user's class with a `compute` of its own is like a built-in one, and nothing of this is about it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any

from returnn.frontend import get_selected_backend
from returnn.tensor import Tensor
from returnn.tf.layers.user_code.beam_axis import BeamAxis
from returnn.tf.util.error_text import is_of_toolkit
from returnn.util.errors import ConfigError


class InferredInInit(BaseException):
    """Ends the `__init__` of a user's class. It is no error, so that no code of a user takes it for one."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.layer = layer


def bases_with_output(bases: tuple[type, ...], namespace: Mapping[str, Any]) -> tuple[type, ...]:
    """
    :param bases: of a new layer class
    :param namespace: what it defines
    :return: its bases, with the output computed in `__init__` of those which are built in, if a user's `__init__` may
        want it
    """
    if is_of_toolkit(namespace["__module__"]) or "__init__" not in namespace or "compute" in namespace:
        return bases
    return tuple(_with_output(base) if _computes(base) and is_of_toolkit(base.__module__) else base for base in bases)


def with_own_beam(layer: Any) -> Any:
    """
    :param layer: of a class that is derived from a built-in one, after `__init__`
    :return: layer, with batch and beam as two dims again, if it has a beam
    """
    axis, seen_before = vars(layer).pop("merged_beam", (None, {}))
    if axis is not None:
        vars(layer).update(seen_before)
        layer.output = axis.split(layer.output)
    return layer


def has_own_template(layer_class: type) -> bool:
    """:return: whether a user has written its `get_out_data_from_opts`"""
    owner = next(cls for cls in layer_class.__mro__ if "get_out_data_from_opts" in vars(cls))
    return not is_of_toolkit(owner.__module__)


def as_template_says(layer: Any, template: Tensor, *, is_value: bool) -> Tensor:
    """
    :param layer: of a class that is derived from a built-in one
    :param template: what the class says of its output
    :param is_value: whether the layer has a value; otherwise all that is known of its output is the template
    :return: the output, with the order of the dims, the time dim and the feature dim of the template
    :raises ConfigError: if the output has other dims
    """
    if not is_value:
        return template.copy_template(name=layer.name)
    output = layer.output
    if set(output.dims) != set(template.dims) or output.dtype != template.dtype:
        raise ConfigError(f"{layer.where()}: `get_out_data_from_opts` says {template}, but the output is {output}.")
    result = template.copy_template(name=layer.name)
    result.raw_tensor = output.copy_compatible_to_dims_raw(template.dims)
    return result


def _computes(base: type) -> bool:
    """:return: whether it computes an output, beside the root of all layer classes, which only says how it is done"""
    return len([cls for cls in base.__mro__ if "compute" in vars(cls)]) > 1


def _merge_beam(layer: Any) -> None:
    """Shows batch and beam as one axis to the code that comes next. `with_own_beam` undoes it."""
    axis = BeamAxis.of([layer.output, *(source.output for source in layer.sources)])
    if axis is None:
        return
    layer.merged_beam = axis, {name: vars(layer)[name] for name in ("sources", "_input_data") if name in vars(layer)}
    layer.sources = [_with_merged_output(source, axis) for source in layer.sources]
    layer.output = axis.merge(layer.output)
    if vars(layer).get("_input_data") is not None:
        layer._input_data = axis.merge(layer._input_data)


def _with_merged_output(layer: Any, axis: BeamAxis) -> Any:
    view = copy.copy(layer)
    view.output = axis.merge(layer.output)
    return view


@functools.cache
def _with_output(base: Any) -> type:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super(with_output, self).__init__(*args, **kwargs)
        if self._output is None and type(self).compute is base.compute:
            compute_now(self)

    def compute_now(self: Any) -> None:
        self.output_is_wanted = False  # while it is computed
        self._compute_output()
        if get_selected_backend() == "template":
            raise InferredInInit(self)
        _merge_beam(self)

    def get_output(self: Any) -> Any:  # also for who calls `__init__` of the built-in class by its name
        if self._output is None and self.output_is_wanted and type(self).compute is base.compute:
            compute_now(self)
        return base.output.fget(self)

    output = property(get_output, base.output.fset)
    namespace = {"__init__": __init__, "output": output, "output_is_wanted": True}
    namespace |= {"__module__": base.__module__, "__doc__": base.__doc__}
    with_output = type(base)(base.__name__, (base,), namespace)
    return with_output
