"""Networks inside of a network."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from returnn.log import log
from returnn.tensor import Tensor
from returnn.tf.layers.core.floors.layer_params import params_in_scope
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.sources import joined_sources
from returnn.tf.util.gradient_checkpoint import gradient_checkpoint_scope
from returnn.util.errors import ConfigError


class SubnetworkLayer(LayerBase):
    """
    A network inside of this layer. Its output is the output of its layer "output".

    Inside, "data" is what the sources give, and "base:layer" is a layer of the network around. From outside,
    "sub/layer" is a layer inside; it is made on its own, so that others inside can depend on what is made of it.

    The layers inside take their parameters from elsewhere by options of their own: `reuse_params` of the subnetwork
    only sees to it that the other layer is made. To share all of them, give both subnetworks the same `name_scope`.
    """

    layer_class = "subnetwork"
    recurrent = True  # it depends on what is inside

    def __init__(
        self,
        subnetwork: dict[str, Any],
        concat_sources: bool = True,
        load_on_init: str | dict[str, Any] | None = None,
        dropout: float = 0,
        dropout_noise_shape: Any = None,
        gradient_checkpoint: bool = False,
        _subnet: Any = None,
        _parent_layer_cache: Any = None,
        _from: Any = None,
        _output: Tensor | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param subnetwork: options of the layers inside, by name
        :param concat_sources: "data" is all sources, joined in their feature dim; otherwise they are "data:0", "data:1"
        :param load_on_init: checkpoint of another model that the parameters inside come from; or options of
            `CustomCheckpointLoader`. A training that goes on keeps what it has of them; in other tasks this file
            counts, whether or not the model has them
        :param dropout: on the joined sources, in training
        :param dropout_noise_shape: see the layer `linear`
        :param gradient_checkpoint: what the layers inside compute is not kept for the gradient, but computed again when
            that needs it: less memory and more time. All values are the same, also those of dropout. Kept are the
            sources, what is inside of loops, and layers that others outside have asked for before. Not inside of a loop
        """
        super().__init__(**kwargs)
        self.concat_sources = concat_sources
        self.gradient_checkpoint = gradient_checkpoint
        self.load_on_init = load_on_init
        self.dropout = dropout
        self.dropout_noise_shape = dropout_noise_shape
        if self.reuse_params is not None:
            self.reuse_params.note_use()
            if not self.network.only_template:
                print(f"{self.where()}: option 'reuse_params': the layers inside have own parameters.", file=log.v3)
        net = self.network.construction.make_subnetwork(self.name, _subnet_options(self, subnetwork), layer=self)
        self.subnetwork = net
        with self._scope():
            net.construct_from_dict(subnetwork)
        self._inner_output = net.get_default_output_layer()
        self.output_before_activation = self._inner_output.output_before_activation
        self.output_loss = self._inner_output.output_loss
        self.search_choices = self._inner_output.search_choices

    def _scope(self) -> AbstractContextManager[None]:
        """:return: that the layers inside are made in"""
        if not self.gradient_checkpoint or self.network.only_template:
            return nullcontext()
        if self.network.is_inside_rec_layer():
            raise ConfigError(
                f"{self.where()}: option 'gradient_checkpoint': True is not possible inside of a loop, which keeps its"
                " frames itself.\n  Give it to a subnetwork around or outside of the loop."
            )
        return gradient_checkpoint_scope()

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`."""
        if not isinstance(d.get("subnetwork"), dict):
            name = f"{network.get_absolute_name_prefix()}{d['_name']}"
            raise ConfigError(f"layer {name!r}: option 'subnetwork': expected a dict, got {d.get('subnetwork')!r}.")
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    @classmethod
    def cls_get_sub_network(cls, name: str, network: Network, layer_desc: dict[str, Any]) -> Any:
        """:return: the network inside, of which no layer need exist; None if it is encapsulated"""
        return None if layer_desc.get("encapsulate") else network.construction.make_subnetwork(name, layer_desc)

    def checkpoint_on_init(self) -> dict[str, Any] | None:
        """:return: options of the `CustomCheckpointLoader` which gives the parameters inside their first values"""
        option = self.load_on_init
        return {"filename": option} if isinstance(option, str) else option and dict(option)

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: the output of the layer "output" inside"""
        return self._inner_output.output

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: layer inside"""
        return self.subnetwork.construct_layer(self.subnetwork.layers_desc, layer_name)

    def get_sub_networks(self) -> list[Any]:
        """:return: the network inside"""
        return [self.subnetwork]

    def get_sub_layers(self) -> list[LayerBase]:
        """:return: layers inside"""
        return list(self.subnetwork.layers.values())

    def get_dep_layers(self) -> list[LayerBase]:
        """:return: the layer "output" inside, and the sources"""
        return [self._inner_output, *super().get_dep_layers()]

    def get_losses_initialized(self, reduce_func: Callable[[Any], Any] | None = None) -> list[Any]:
        """:return: its own loss, and those of the layers inside, named by their path"""
        losses = super().get_losses_initialized(reduce_func=reduce_func)
        inner, _, _ = self.subnetwork.get_losses_initialized(reduce_func=reduce_func)
        for loss in inner.values():
            loss.name = f"{self.name}/{loss.name}"
        return [*losses, *inner.values()]

    def get_constraints_value(self) -> Any:
        """:return: raw scalar, for this layer and those inside"""
        return super().get_constraints_value() + self.subnetwork.get_constraints()

    def has_zero_padding(self) -> bool:
        """:return: whether the layer "output" inside has 0 beyond the end of sequences"""
        return self._inner_output.has_zero_padding() and not self.use_batch_norm

    def has_hidden_state(self) -> bool:
        """:return: whether the layer "output" inside has one"""
        return self._inner_output.has_hidden_state()

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: hidden state of the layer "output" inside"""
        return self._inner_output.hidden_state_parts()

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of all layers inside, such as "layer/W"."""
        return params_in_scope(self)


def subnetwork_sources(options: dict[str, Any], sources: list[LayerBase]) -> dict[str, Tensor]:
    """:return: the data inside of a subnetwork, by key"""
    if not sources:
        return {}
    if not options.get("concat_sources", True):
        return {str(i): source.output for i, source in enumerate(sources)} | {"data": sources[0].output}
    noise_shape = options.get("dropout_noise_shape")
    joined = joined_sources(sources, dropout=options.get("dropout", 0), dropout_noise_shape=noise_shape)
    return {"data": joined}


def _subnet_options(layer: SubnetworkLayer, subnetwork: dict[str, Any]) -> dict[str, Any]:
    return {
        "sources": layer.sources,
        "subnetwork": subnetwork,
        "concat_sources": layer.concat_sources,
        "dropout": layer.dropout,
        "dropout_noise_shape": layer.dropout_noise_shape,
        "name_scope": layer.name_scope,
        "trainable": layer.trainable,
    }
