"""
`TemplateNetwork`: a network whose layers are made to infer dims alone. There is no graph and no value.

An error in one layer does not end the construction: it is noted, all that needs the layer is left out, and the rest is
made. So there is one error for each cause, and not only the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import returnn.frontend as rf
from returnn.engine.data import dataset_names, dataset_option
from returnn.engine.report.compared_lengths import ComparedDims
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.inspection.found_layers import found_layers
from returnn.tf.inspection.initial_values import infer_initial_values
from returnn.tf.inspection.lengths import compared_dims
from returnn.tf.inspection.losses import check_loss
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.reuse_params import ReuseParams
from returnn.tf.layers.core.step_state import UndefinedSource
from returnn.tf.network import TFNetwork
from returnn.tf.network.construction import Construction
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.params import NetworkParams
from returnn.util.errors import ConfigError, UserError


class NeedsWrongLayer(ConfigError):
    """A layer cannot be made because of an error in another one, which is noted already."""


@dataclass(frozen=True)
class ParameterTemplate:
    """A parameter, as a layer declares it."""

    name: str  # of the variable
    layer: str  # absolute name
    shape: tuple[int, ...]
    is_trainable: bool

    @property
    def size(self) -> int:
        """Number of values."""
        size = 1
        for dim in self.shape:
            size *= dim
        return size


@dataclass
class Notes:
    """What is found out during the construction, for the network and all networks inside of it."""

    errors: dict[str, UserError] = field(default_factory=dict)  # by absolute name of the layer
    params: dict[str, ParameterTemplate] = field(default_factory=dict)  # by name of the variable
    made_up_lengths: list[Dim] = field(default_factory=list)
    compared_dims: list[ComparedDims] = field(default_factory=list)


class TemplateConstruction(Construction):
    """Notes errors, and goes on."""

    @property
    def notes(self) -> Notes:
        """What is found out."""
        return self.net.notes

    def construct(self, net_dict: dict[str, Any], name: str, *args: Any, **kwargs: Any) -> LayerBase:
        """See `Construction.construct`. For the wanted layers of the whole network, an error is noted only."""
        if self.net.parent_net is not None or self.under_construction:
            return super().construct(net_dict, name, *args, **kwargs)
        try:
            return super().construct(net_dict, name, *args, **kwargs)
        except NeedsWrongLayer:
            return None  # type: ignore[return-value]  # nobody uses it

    def construct_new(self, net_dict: dict[str, Any], name: str, *args: Any, **kwargs: Any) -> LayerBase:
        full_name = self.place.name_prefix() + name
        if full_name in self.notes.errors:
            raise NeedsWrongLayer(f"layer {full_name!r}: is wrong.")
        try:
            return super().construct_new(net_dict, name, *args, **kwargs)
        except UserError as exc:
            is_in_loop = self.step.innermost_frame() is not None
            if isinstance(exc, NeedsWrongLayer) or (isinstance(exc, UndefinedSource) and is_in_loop):
                raise
            cause = _first_cause(exc)
            if isinstance(cause, NeedsWrongLayer):
                raise cause from exc
            if name not in net_dict:
                raise  # whoever uses that name is wrong
            raise self._noted(full_name, cause) from exc
        except Exception as exc:  # one broken layer must not hide the errors of the others
            raise self._noted(full_name, ConfigError(f"layer {full_name!r}: {type(exc).__name__}: {exc}")) from exc

    def _noted(self, full_name: str, error: UserError) -> NeedsWrongLayer:
        self.notes.errors[full_name] = error
        return NeedsWrongLayer(f"layer {full_name!r}: is wrong.")

    def add(self, name: str, layer_class: type[LayerBase], **layer_desc: Any) -> LayerBase:
        """See `Construction.add`. The lengths of a loop that ends by itself are made up."""
        axis = layer_desc.get("axis")
        if isinstance(layer_desc.get("unit"), dict) and axis in self.notes.made_up_lengths:  # by an earlier round
            axis.dyn_size_ext = None
            self.notes.made_up_lengths.remove(axis)
        layer = super().add(name, layer_class, **layer_desc)
        loop = getattr(layer, "compiled", None)
        if loop is not None:
            time_dim = loop.inputs.time_dim
            if time_dim.dyn_size_ext is None:
                time_dim.dyn_size_ext = Tensor("lengths", dims=[batch_dim], dtype="int32")
            if not loop.inputs.has_known_length:
                self.notes.made_up_lengths.append(time_dim)
            infer_initial_values(loop)
        return layer


class TemplateParams(NetworkParams):
    """Notes parameters."""

    def note_template(self, layer: LayerBase, template: Tensor, *, trainable: bool) -> None:
        """See `NetworkParams.note_template`."""
        shape = [dim.dimension for dim in template.dims]
        if None in shape:
            dims = [str(dim) for dim in template.dims]
            raise ConfigError(f"{layer.where()}: the parameter {template.name!r} cannot have dynamic dims: {dims}.")
        name = layer.get_absolute_name_scope_prefix() + template.name
        reuse, owner = (layer.reuse_params, layer) if layer.reuse_params else self.shared_owner()
        own_name = name.removeprefix(owner.get_absolute_name_scope_prefix()) if owner is not None else name
        if reuse is not None:
            reuse.note_use()  # nobody else may need the layer that the parameter comes from
            if self._is_shared(reuse, owner, own_name):
                return
        is_trainable = trainable and layer.trainable and self.are_trainable
        param = ParameterTemplate(name, layer.get_absolute_name(), tuple(shape), is_trainable)
        self.net.notes.params[name] = param  # in a loop, what is declared last is what the dims are

    def _is_shared(self, reuse: ReuseParams, owner: LayerBase, name: str) -> bool:
        """:return: whether the parameter comes from elsewhere, and is not the layer's own"""
        if reuse.param_map is not None:
            inner = reuse.param_map.get(name)
            return inner is not None and self._is_shared(inner, owner, name)
        if reuse.custom_func is not None or reuse.layer_output is not None or not reuse.auto_create_missing:
            return True
        return reuse.reuse_layer.get_absolute_name_scope_prefix() + name in self.net.notes.params


class TemplateNetwork(TFNetwork):
    """See the head of this module."""

    construction_class = TemplateConstruction
    params_class = TemplateParams

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "only_template": True})
        outer = self.parent_net or self.extra_parent_net
        self.notes: Notes = outer.notes if isinstance(outer, TemplateNetwork) else Notes()

    @classmethod
    def of_net_dict(
        cls, net_dict: dict[str, Any], config: Any, *, train_flag: bool = True, search_flag: bool = False
    ) -> TemplateNetwork:
        """
        :param net_dict: options of each layer, by name
        :param config: its `extern_data`
        :param train_flag: whether this is training
        :param search_flag: whether choices search
        :return: the network, as far as it can be made; see `notes`
        :raises ConfigError: if `extern_data` is wrong
        """
        extern_data = ExternData()
        extern_data.init_from_config(config)
        network = cls(
            name="root",
            config=config,
            extern_data=extern_data,
            train_flag=train_flag,
            eval_flag=True,
            search_flag=search_flag,
        )
        with rf.backend_ctx("template"), network._made_up_lengths():
            network._note_what_is_no_layer(net_dict)
            network.construct_from_dict({name: desc for name, desc in net_dict.items() if isinstance(desc, dict)})
            network._note_wrong_losses()
        return network

    @contextmanager
    def _made_up_lengths(self) -> Iterator[None]:
        """Inside, all dims have lengths, also those which only a graph can give them. Dims outlive this network."""
        batch_dim.reset_raw()
        batch_dim.dyn_size_ext = Tensor("batch_dim:size", dims=(), dtype="int32")
        try:
            yield
        finally:
            for dim in (batch_dim, *self.notes.made_up_lengths):
                dim.dyn_size_ext = None

    def wanted_layers(self, net_dict: dict[str, Any]) -> list[str]:
        """:return: the layers that are made for their own sake"""
        return [
            name
            for name, desc in net_dict.items()
            if isinstance(desc, dict) and self.construction.is_wanted(name, desc)
        ]

    def wants_loss(self, target: Any, loss_class: Any) -> bool:
        """:return: see `Network.wants_loss`. Where nothing is trained or evaluated, data need not have targets"""
        if not super().wants_loss(target, loss_class):
            return False
        config = self.get_config()
        is_computed = dataset_option(config, "train") is not None or bool(dataset_names(config))
        return is_computed or not self.unknown_targets(target)

    # Errors.

    def _note_what_is_no_layer(self, net_dict: dict[str, Any]) -> None:
        for name, desc in net_dict.items():
            if not isinstance(desc, dict) and not name.startswith("#"):
                error = ConfigError(f"layer {name!r}: expected a dict of options, got {desc!r}.")
                self.notes.errors[name] = error

    def _note_wrong_losses(self) -> None:
        for found in found_layers(self):
            try:
                if found.layer.loss is not None:
                    check_loss(found.layer)
                self.notes.compared_dims += compared_dims(found)
            except UserError as exc:
                self.notes.errors[found.name] = exc


def _first_cause(exc: UserError) -> UserError:
    """:return: what a layer of a loop could not be made for"""
    while isinstance(exc, UndefinedSource) and isinstance(exc.__cause__, UserError):
        exc = exc.__cause__
    return exc
