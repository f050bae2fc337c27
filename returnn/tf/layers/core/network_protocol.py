"""
What a layer may ask of the network that it is in. `returnn.tf.network.TFNetwork` has all of it.

Beside what is documented of networks, there are three parts: `step` is about the loop, `params` about variables,
`construction` makes layers and networks inside of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from returnn.tensor import Dim, Tensor
from returnn.tensor.batch_info import BatchInfo
from returnn.tf.layers.core.layer_dims import DimsOfLayers

if TYPE_CHECKING:
    import tensorflow as tf

AnyLayer: TypeAlias = Any  # a LayerBase. That one knows networks, so it has no name here
NetDict: TypeAlias = dict[str, Any]  # options of each layer, by name
GetLayer: TypeAlias = Callable[[str], AnyLayer]


@dataclass(frozen=True)
class InnerNetwork:
    """Describes a network inside of a layer, as `Construction.make_network_inside` wants it."""

    layer: AnyLayer
    data: Mapping[str, Tensor]  # what it sees as "data:KEY"
    name: str
    name_prefix: str  # what absolute names begin with
    scope_prefix: str  # what names of variables begin with
    net_dict: Mapping[str, Any] = field(default_factory=dict)
    frame: Any = None  # returnn.tf.layers.loop.frame.Frame: what it stands for in a loop
    inside_time: Dim | None = None  # of the loop of which it is one frame
    over_time: Dim | None = None  # of the loop of which it is all frames at once
    layer_options: Mapping[str, Any] | None = None  # that hold for all layers inside, such as `trainable`
    only_template: bool | None = None  # its layers only infer dims; default: as around
    view_around: Callable[[Any], AnyLayer] | None = None  # names are those of the network around, so seen


class LoopStep(Protocol):
    """The loop whose step a network is part of."""

    def innermost_frame(self) -> Any:
        """:return: the `returnn.tf.layers.loop.frame.Frame` of the step; None outside of loops"""

    def is_inside(self) -> bool:
        """:return: whether this is part of a single step of a loop, so that its values are of no use outside"""

    def batch_dims(self) -> list[Dim]:
        """:return: dims that an output in a loop has at least: the batch"""

    def state_before(self, layer: AnyLayer, key: str, template: Tensor) -> Tensor:
        """:return: state of a layer after the frame before, inside of a loop"""


class NetworkParams(Protocol):
    """The variables of a network."""

    @property
    def are_trainable(self) -> bool:
        """Whether training changes them, as far as the layers around say."""

    def shared_owner(self) -> tuple[Any, AnyLayer | None]:
        """:return: `reuse_params` of the innermost layer around that has this option, and the layer"""

    def value_of(self, param: Any) -> tf.Tensor:
        """:return: raw value of a variable"""

    def note_training(self, param: Any, *, is_trained: bool) -> None:
        """Notes whether training changes a variable, as far as a layer that has it says."""

    def note_template(self, layer: AnyLayer, template: Tensor, *, trainable: bool) -> None:
        """Notes that a layer declares a parameter while only dims are inferred."""

    def add_layer(self, layer: AnyLayer) -> None:
        """Takes its parameters as those of the network, although it is not found by name."""


class Construction(Protocol):
    """Makes layers, and networks inside of them."""

    under_construction: list[str]
    partly_used: list[tuple[Network, str]]  # subnetworks of which only some layers were asked for

    @property
    def current(self) -> str | None:
        """Name of the layer that is being made."""

    def resolve(self, name: str, desc: dict[str, Any], get_layer: GetLayer) -> tuple[type[AnyLayer], dict[str, Any]]:
        """:return: class, and options with layers in place of their names"""

    def create(self, name: str, layer_class: type[AnyLayer], **options: Any) -> AnyLayer:
        """:return: a layer, which is not known to the network"""

    def compute_scope(self, layer: AnyLayer, suffix: str = "") -> AbstractContextManager[None]:
        """:return: what `compute` of a layer runs in"""

    def make_subnetwork(self, name: str, options: dict[str, Any], layer: AnyLayer | None = None) -> Network:
        """:return: the network inside of a layer, which need not exist yet; always the same one"""

    def note_layer_around(self, layer: AnyLayer | None, options: Mapping[str, Any]) -> None:
        """Called when the layer that this network is inside of is there, or more is known of it."""

    def make_network_inside(self, inner: InnerNetwork) -> Network:
        """:return: a new network inside of a layer"""


class Network(Protocol):
    """Layers by name, what they compute with, and the networks around."""

    name: str
    layers: dict[str, AnyLayer]
    layers_desc: NetDict
    subnets: dict[str, Any]  # networks inside of layers, by name of the layer
    extern_data: Any  # returnn.tf.network.extern_data.ExternData
    train_flag: bool | tf.Tensor
    eval_flag: bool
    search_flag: bool
    only_template: bool  # there are no values: layers are made to infer dims alone
    float_dtype: str
    beams: Any  # returnn.tf.layers.search.beam.Beams
    dims_of_layers: DimsOfLayers

    @property
    def parent_net(self) -> Network | None:
        """The network around, None for the outermost one."""

    @property
    def parent_layer(self) -> AnyLayer | None:
        """The layer that it is inside of."""

    @property
    def extra_nets(self) -> Mapping[str, Network]:
        """Other versions of it, by name."""

    @property
    def step(self) -> LoopStep:
        """The loop that it is part of."""

    @property
    def params(self) -> NetworkParams:
        """Its variables."""

    @property
    def construction(self) -> Construction:
        """Makes its layers."""

    # Layers.

    def construct_from_dict(self, net_dict: NetDict, get_layer: GetLayer | None = None) -> None:
        """Makes all layers that are needed."""

    def construct_layer(
        self,
        net_dict: NetDict,
        name: str,
        get_layer: GetLayer | None = None,
        add_layer: Callable[..., AnyLayer] | None = None,
        check_existing: bool = True,
    ) -> AnyLayer:
        """:return: the layer, made if necessary"""

    def add_layer(self, name: str, layer_class: type[AnyLayer], **layer_desc: Any) -> AnyLayer:
        """:return: a new layer"""

    def get_layer(self, layer_name: str) -> AnyLayer:
        """:return: the layer, which is not made if it does not exist"""

    def get_default_output_layer_name(self) -> str:
        """:return: "output" """

    def get_default_output_layer(self, must_exist: bool = True) -> AnyLayer | None:
        """:return: the output layer"""

    def get_all_layers_shallow(self) -> list[AnyLayer]:
        """:return: the layers of this network, each once"""

    def get_all_layers_deep(self) -> list[AnyLayer]:
        """:return: the layers of this network and of all networks inside of them"""

    # Networks around, and names.

    def get_root_network(self) -> Network:
        """:return: the outermost network"""

    def get_network_hierarchy(self) -> Sequence[Network]:
        """:return: the networks from the outermost to this one"""

    def get_absolute_name_prefix(self) -> str:
        """:return: what absolute names of layers begin with: "" or "outer/" """

    def get_absolute_name_scope_prefix(self) -> str:
        """:return: what names of variables begin with: "" or "outer/" """

    @property
    def extra_name_prefix_text(self) -> str:
        """What names begin with in another version of a network."""

    def get_config(self, consider_global_config: bool = True, fallback_dummy_config: bool = True) -> Any:
        """:return: options"""

    # Data.

    def get_extern_data(self, key: str, mark_data_key_as_used: bool = True) -> Tensor:
        """:return: data of the network"""

    def get_used_data_keys(self, exclude_extra_added: bool = True) -> set[str]:
        """:return: keys of the data that the layers use"""

    def has_value_of_data(self, key: str | None) -> bool:
        """:return: whether it is there"""

    def get_seq_tags(self, mark_data_key_as_used: bool = True, beam: Any = None) -> Any:
        """:return: raw (B,): tags of the sequences"""

    def get_global_batch_info(self) -> BatchInfo:
        """:return: what the batch axis of the data consists of"""

    @property
    def used_data_keys(self) -> set[str]:
        """Keys of the data that the layers use."""

    # Loops and search.

    @property
    def inside_rec_time_dim(self) -> Dim | None:
        """The dim of the loop of which this network is one frame."""

    @property
    def over_rec_time_dim(self) -> Dim | None:
        """The dim of the loop which this network stands for, all frames at once."""

    def is_inside_rec_layer(self, inside_loop: bool = True) -> bool:
        """:return: whether this is one frame of a loop, or else stands for all"""

    def get_inside_rec_time_dim(self, inside_loop: bool = True) -> Dim | None:
        """:return: the dim of the innermost loop that this network is part of"""

    def get_all_rec_time_dims(self) -> set[Dim]:
        """:return: the dims of all loops that this network is part of"""

    def get_rec_parent_layer(self, inside_loop: bool = True) -> AnyLayer | None:
        """:return: the loop that this network is part of"""

    def get_rec_step_info(self, must_exist: bool = True) -> AnyLayer | None:
        """:return: the layer ":i", with the number of the frame"""

    def get_rec_step_index(self) -> Any:
        """:return: raw scalar, number of the frame in the loop, from 0 on"""

    def set_rec_step_info(
        self,
        i: Any,
        prev_end_flag: Any = None,
        prev_end_layer: Any = None,
        seq_lens: Any = None,
        offset: Tensor | None = None,
    ) -> None:
        """Makes the layer ":i"."""

    def get_search_choices(self, sources: Any = None, src: AnyLayer | None = None) -> Any:
        """:return: the latest choice that the layers depend on, None without search"""

    # Losses.

    @property
    def is_training_objective(self) -> bool:
        """Whether the objective of this network can be one of training."""

    def wants_loss(self, target: Any, loss_class: Any) -> bool:
        """:return: whether a layer with this loss and target has to compute it"""

    def unknown_targets(self, target: Any) -> list[str]:
        """:return: keys of this option `target` which are neither data nor registered as such by a layer"""

    def get_losses_initialized(
        self, reduce_func: Callable[[Any], Any] | None = None, with_total: bool = False
    ) -> tuple[dict[str, Any], Any, Any]:
        """:return: losses by name, total loss, total constraints"""

    def get_constraints(self) -> Any:
        """:return: raw scalar: the sum of all constraints"""

    def subnets_without_layer(self) -> Mapping[str, Network]:
        """:return: by name: networks of which only layers inside were made, and not the layer that they belong to"""

    # Runs.

    def cond_on_train(self, fn_train: Callable[[], Any], fn_eval: Callable[[], Any]) -> Any:
        """:return: raw tensor: fn_train() in training, fn_eval() otherwise"""

    def random_seed(self) -> int:
        """:return: seed for the next random operation or parameter"""

    @property
    def global_train_step(self) -> tf.Tensor:
        """Number of the training step."""

    def get_epoch_step(self) -> tf.Tensor:
        """:return: int64 scalar: number of the step in this epoch"""

    def get_run_opts(self) -> dict[str, Any]:
        """:return: epoch and name of the data set"""

    def register_post_control_dependencies(self, deps: Sequence[Any]) -> None:
        """:param deps: operations which run at the end of each training step"""

    def register_run_finished_callback(self, cb: Callable[..., None]) -> None:
        """:param cb: called when an epoch of training, evaluation or forwarding is over"""

    def register_graph_reset_callback(self, cb: Callable[[], None]) -> None:
        """:param cb: called when the graph goes, as before the network of another epoch"""
