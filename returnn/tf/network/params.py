"""`NetworkParams`: parameters of all layers of a network."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.checkpoint import CheckpointWriter, CustomCheckpointLoader, run_custom_post_inits
from returnn.tf.layers.core.floors.layer_params import saved_params
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.network.load_on_init import set_load_on_init
from returnn.tf.network.place import NetworkPlace
from returnn.tf.util.parameters.variables import VariableAssigner
from returnn.util.errors import ConfigError, nearest_hint

tf1 = tf.compat.v1


@dataclass
class TFNetworkParamsSerialized:
    """The parameters of a network, as they can get into another one."""

    values_dict: dict[str, dict[str, numpy.ndarray]]  # by layer and name
    global_train_step: int


class NetworkParams:
    """The variables of a network, and which of them training changes."""

    def __init__(self, net: Network, place: NetworkPlace, parent: NetworkParams | None, outer: NetworkParams | None):
        """
        :param net: the network
        :param place: of the network
        :param parent: of the network around
        :param outer: the same, or of that which this one is another version of; it shares what is noted here
        """
        self.net = net
        self.place = place
        self.parent = parent
        self.root: NetworkParams = self if outer is None else outer.root
        self.extra_saved: list[Any] = []  # variables that belong to no layer
        self.loaded_on_init: list[Any] = []  # variables whose values come from files of subnetworks, once initialized
        self.more_layers: list[LayerBase] = []  # not found by name, as for initial outputs of a loop
        self.is_dict_trainable = True  # key "#trainable" of the net dict
        self._writer: CheckpointWriter | None = None
        self._var_assigners: dict[Any, VariableAssigner] = {} if outer is None else outer._var_assigners
        self._is_trained: dict[str, bool] = {} if outer is None else outer._is_trained  # by name
        self._not_selected: set[str] = set() if outer is None else outer._not_selected

    # What layers ask and say.

    @property
    def are_trainable(self) -> bool:
        """Whether training changes parameters in here, as far as the layers around say."""
        if self.place.option_of_layer("trainable") is False or not self.is_dict_trainable:
            return False
        return self.parent is None or self.parent.are_trainable

    def shared_owner(self) -> tuple[Any, LayerBase | None]:
        """
        :return: `reuse_params` of the innermost loop or masked computation around that has this option, and its layer.
            Not of a subnetwork: it has no parameters of its own, and those of the layers inside are theirs
        """
        is_subnetwork = "subnetwork" in (self.place.layer_options or {})
        reuse = None if is_subnetwork else getattr(self.place.layer, "reuse_params", None)
        if reuse is not None:
            return reuse, self.place.layer
        return (None, None) if self.parent is None else self.parent.shared_owner()

    def note_template(self, layer: LayerBase, template: Tensor, *, trainable: bool) -> None:
        """
        Called when a layer declares a parameter while only dims are inferred. There is no variable; who wants to know
        about parameters before there is a graph can note it.

        :param layer: the layer
        :param template: the parameter
        :param trainable: whether training changes it, as far as the layer says
        """

    def value_of(self, param: Any) -> tf.Tensor:
        """:return: raw value of a variable: always the same tensor, by the one operation that all variables have"""
        return param.graph.as_graph_element(param) if isinstance(param, tf.Variable) else tf.convert_to_tensor(param)

    def note_training(self, param: Any, *, is_trained: bool) -> None:
        """Notes whether training changes a variable, as far as a layer that has it says. Each one can forbid it."""
        self._is_trained[param.name] = self._is_trained.get(param.name, True) and is_trained

    def add_layer(self, layer: LayerBase) -> None:
        """Takes the parameters of a layer as those of the network, although it is not found by name."""
        self.more_layers.append(layer)

    # All of them.

    def all(self) -> list[Any]:
        """:return: all parameters, each once, in the order of the names of their layers"""
        params: list[Any] = []
        for layer in self.net.get_all_layers_deep():
            params += [param for _, param in sorted(layer.own_params.items()) if not _is_in(param, params)]
        return params

    def all_saved(self) -> list[Any]:
        """:return: all variables that go into checkpoints"""
        params: list[Any] = []
        for layer in self.net.get_all_layers_deep():
            found = [p for _, p in sorted(saved_params(layer, layer.own_params).items())]
            params += [param for param in found if not _is_in(param, params)]
        return params + [var for var in self.extra_saved if not _is_in(var, params)]

    def all_trained(self) -> list[Any]:
        """:return: all variables that training changes"""
        trainable = {var.name for var in tf1.trainable_variables()} - self._not_selected
        return [p for p in self.all() if p.name in trainable and self._is_trained.get(p.name, True)]

    def num_values(self) -> int:
        """:return: number of values in all parameters"""
        return sum(int(numpy.prod(param.shape.as_list())) for param in self.all())

    def values_by_layer(self, session: Any) -> dict[str, dict[str, numpy.ndarray]]:
        """:return: values, by layer and name; layers with others inside have the values of all of them"""
        return {
            layer.get_absolute_name(): values
            for layer in self.net.get_all_layers_shallow()
            if (values := layer.get_param_values_dict(session))
        }

    def values_by_inner_layer(self, session: Any) -> dict[str, dict[str, numpy.ndarray]]:
        """:return: values, by the layer that they belong to, whatever it is inside of, and name"""
        params: dict[str, dict[str, Any]] = {}
        for layer in self.net.get_all_layers_deep():
            params.setdefault(layer.get_absolute_name(), {}).update(saved_params(layer, layer.own_params))
        return session.run({name: own for name, own in params.items() if own})  # type: ignore[no-any-return]

    def set_values(self, values_dict: Mapping[str, Any], ignore_non_existing: bool = False, **kwargs: Any) -> None:
        """
        :param values_dict: values, by layer and name
        :param ignore_non_existing: whether there may be layers in it which do not exist
        :param kwargs: for `LayerBase.set_param_values_by_dict`
        """
        layers = {layer.get_absolute_name(): layer for layer in self.net.get_all_layers_deep()}
        for name, values in values_dict.items():
            if name in layers:
                layers[name].set_param_values_by_dict(values, **kwargs)
            elif not ignore_non_existing:
                raise ConfigError(
                    f"there is no layer {name!r} to load parameters into.\n  {nearest_hint(name, layers)}"
                )

    def all_auxiliary(self) -> list[Any]:
        """:return: parameters which no optimizer changes, such as running averages"""
        trainable = {var.ref() for var in tf1.trainable_variables()}
        return [param for param in self.all() if param.ref() not in trainable]

    def select_trained(
        self,
        hidden_layer_selection: Collection[str] | None = None,
        with_output: bool | None = None,
        global_trainable: bool | None = None,
    ) -> None:
        """
        :param hidden_layer_selection: training changes these layers only; default: all
        :param with_output: and the output layers; default: it does
        :param global_trainable: whether training changes anything at all; default: it does
        """
        with_output = with_output is not False
        selected: set[str] = set()
        for layer in self.net.get_all_layers_deep():
            is_selected = hidden_layer_selection is None or layer.get_absolute_name() in hidden_layer_selection
            is_selected = with_output if layer.is_output_layer() else is_selected
            if is_selected and global_trainable is not False:
                selected.update(param.name for param in layer.own_params.values())
        self._not_selected.clear()
        self._not_selected.update(param.name for param in self.all() if param.name not in selected)

    def assigner_of(self, var: Any) -> VariableAssigner:
        """:return: what assigns values to a variable; always the same one"""
        if var.ref() not in self._var_assigners:
            self._var_assigners[var.ref()] = VariableAssigner(var)
        return self._var_assigners[var.ref()]

    def saved_instead(self) -> dict[Any, Any]:
        """:return: for some parameters what is saved instead of them, None for nothing; by `ref()`"""
        layers = self.net.get_all_layers_deep()
        return {_ref(param): other for layer in layers for param, other in layer.saveable_param_replace.items()}

    def save(self, filename: str, session: Any) -> None:
        """
        :param filename: of a checkpoint, without suffix
        :param session: session with the values
        """
        if self._writer is None:
            self._writer = CheckpointWriter({var.op.name: var for var in self.all_saved()})
        self._writer.save(session, filename)

    def load(self, filename: str, session: Any) -> None:
        """
        Parameters that come from a file of their own (`load_on_init`) have their values already.

        :param filename: of a checkpoint, without suffix
        :param session: session to write the values in
        """
        loaded = {param.ref() for param in self.loaded_on_init}
        params = [param for param in self.all_saved() if _ref(param) not in loaded]
        CustomCheckpointLoader(filename, params, network=self.net).load_now(session)

    def reset_saver(self) -> None:
        """Other variables are to be saved than before."""
        self._writer = None

    def initialize(self, session: Any, *, trained: Collection[str] = ()) -> None:
        """
        Gives all variables their initial values, and then those that come from elsewhere, such as other models.

        :param session: session to write the values in
        :param trained: names of parameters that a checkpoint of the same training gives next, so that no other file
            is needed for them
        """
        self.set_loaded_on_init(trained=trained)
        variables = tf1.global_variables()
        session.run(tf1.variables_initializer(variables))
        run_custom_post_inits(variables, session)

    def set_loaded_on_init(self, *, trained: Collection[str] = ()) -> None:
        """See `set_load_on_init`."""
        self.loaded_on_init = set_load_on_init(self.net.get_all_layers_deep(), trained=trained)


def _is_in(param: Any, params: list[Any]) -> bool:
    return any(param is other for other in params)


def _ref(param: Any) -> Any:
    return param.ref() if hasattr(param, "ref") else param
