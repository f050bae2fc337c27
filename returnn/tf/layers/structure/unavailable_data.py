"""
Layers whose data is not there.

A graph for inference has no targets: no placeholders for data with `available_for_inference=False`. What is computed
from such data cannot be there either. Most of that is of no use then, such as what a loss compares with. Where it is
needed after all, `TargetNotAvailable` says which data it is: an export makes that an input, see `build_graph`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from returnn.frontend import backend_ctx, get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.options.layer_options import layers_in_options
from returnn.util.errors import ConfigError


class TargetNotAvailable(ConfigError):
    """What is wanted needs a target, and the graph has none."""

    def __init__(self, what: str, keys: Collection[str] = ()) -> None:
        """
        :param what: is wanted
        :param keys: of the data that it is computed from, and that is not there; none: not known
        """
        self.keys = frozenset(keys)
        super().__init__(
            f"{what} is not there without targets.\n"
            "  If it is there, give this data the option 'available_for_inference': True in 'extern_data'."
        )


_ONLY_FOR_LOSSES = ("_target_layers",)


class DataNotAvailableLayer(InternalLayer):
    """Stands for a layer whose data is not there. Its output is a template, with `available_for_inference=False`."""

    def __init__(
        self,
        layer_class: type[LayerBase],
        layer_desc: Mapping[str, Any],
        needs: Sequence[LayerBase] = (),
        **kwargs: Any,
    ) -> None:
        """
        :param layer_class: class of the layer that it would be
        :param layer_desc: its options, with layers in place of their names
        :param needs: layers that are not there, and that it would be computed from, beside those of its options
        """
        super().__init__(debug_type_name=layer_class.class_name(), **kwargs)
        self.represented_class = layer_class
        self.represented_options = dict(layer_desc)
        self._needs = tuple(needs)
        self.output.available_for_inference = False

    @classmethod
    def instead_of(
        cls, layer_class: type[LayerBase], options: Mapping[str, Any], *, needs: Sequence[LayerBase] = (), **names: Any
    ) -> Any:
        """
        :param layer_class: class of the layer that it would be
        :param options: its options, with layers in place of their names
        :param needs: see `__init__`
        :param names: its `name` and `network`
        """
        output = layer_class.get_out_data_from_opts(**names, **options)
        return cls(layer_class=layer_class, layer_desc=options, needs=needs, output=output, **names)

    @cached_property
    def _represented(self) -> LayerBase:
        """The layer that it would be, as a template: what others ask of it beside its output."""
        with backend_ctx("template"):
            return self.represented_class(name=self.name, network=self.network, **self.represented_options)

    def has_hidden_state(self) -> bool:
        """:return: whether the layer would have one"""
        return self._represented.has_hidden_state()

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: templates of those of the layer"""
        return self._represented.hidden_state_parts()

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: what stands for this sub layer, None if there is no such"""
        with backend_ctx("template"):
            sub_layer = self._represented.get_sub_layer(layer_name)
        if sub_layer is None:
            return None
        return DataNotAvailableLayer(
            layer_class=type(sub_layer),
            layer_desc={},
            name=f"{self.name}/{layer_name}",
            network=self.network,
            output=sub_layer.output.copy_template(),
            sources=[self],
        )

    def get_dep_layers(self) -> list[LayerBase]:
        """:return: all layers that the output would be computed from"""
        return [*layers_in_options(self.represented_options), *self._needs, *self.sources]


def needs_unavailable_data(options: Mapping[str, Any]) -> bool:
    """:return: whether the output cannot be computed from the layers in these options"""
    inputs = {name: value for name, value in options.items() if name not in _ONLY_FOR_LOSSES}
    return any(isinstance(layer, DataNotAvailableLayer) for layer in layers_in_options(inputs))


def check_value_of_target(layer: LayerBase, target: Tensor) -> None:
    """
    :param layer: which needs its values, and not only its dims
    :param target: of the layer
    :raises TargetNotAvailable: if this is no template, and the target has no value
    """
    is_template = layer.network.only_template or get_selected_backend() == "template"
    if target.raw_tensor is None and not is_template:
        known = layer.network.get_root_network().extern_data.data
        keys = [target.name] if target.name in known else []
        raise TargetNotAvailable(f"{layer.where()}: the target {target.name!r}", keys)


def require_lengths(layer: LayerBase, dims: Sequence[Dim]) -> None:
    """
    :param layer: which has values with these dims
    :param dims: such as the frames that attention remembers the weights of
    :raises TargetNotAvailable: if lengths are those of data that is not there
    """
    if layer.network.only_template or get_selected_backend() == "template":
        return
    missing = [dim for dim in dims if dim.size is None and dim.dyn_size_ext is not None and dim.dyn_size is None]
    missing = [dim for dim in missing if not dim.is_batch_dim()]
    if missing:
        known = layer.network.get_root_network().extern_data.data
        keys = [key for key, data in known.items() if any(dim in data.dims for dim in missing)]
        raise TargetNotAvailable(f"{layer.where()}: the dim {str(missing[0])!r}", keys)


def require_available(layer: LayerBase) -> Tensor:
    """
    :return: the output of the layer
    :raises TargetNotAvailable: if its data is not there
    """
    if not isinstance(layer, DataNotAvailableLayer):
        return layer.output
    last, keys = _origins(layer)
    raise TargetNotAvailable(f"{layer.where()}: needs {last.name!r}, which", keys)


def missing_below(layer: LayerBase) -> list[LayerBase]:
    """:return: layers that are not there, and that this one is computed from"""
    return [x for x in layer.get_dep_layers() if isinstance(x, DataNotAvailableLayer)]


def _origins(layer: DataNotAvailableLayer) -> tuple[LayerBase, set[str]]:
    """:return: the first layer found that needs no other one, and the keys of all data that is not there"""
    todo: list[LayerBase] = [layer]
    seen: list[LayerBase] = []
    first: LayerBase | None = None
    keys = set()
    while todo:
        x = todo.pop()
        if any(x is other for other in seen):
            continue
        seen.append(x)
        deps = missing_below(x)
        todo += reversed(deps)
        if not deps and first is None:
            first = x
        if key := getattr(x, "represented_options", {}).get("data_key"):
            keys.add(key)
    return first or layer, keys
