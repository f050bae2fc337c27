"""
`LayerCore`: how a layer is made, and what it is called. The lowest floor of `LayerBase`.

Each floor has one theme, and imports only those below: `LayerCore`, `LayerAxes`, `LayerParams`, `LayerRec`, then
`LayerTargets` and `LayerLosses` on one side, `LayerBatchNorm` on the other, and `LayerBase` on top.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.name_scope import scope_name
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.layer_options import layers_in, options_of
from returnn.tf.layers.user_code.outside_view import OutsideView, view_from_here
from returnn.util.not_specified import NotSpecified


class LayerCore:
    """The part of `LayerBase` about its options, as they are, and its names."""

    layer_class: ClassVar[str | tuple[str, ...] | None] = None
    allow_inf_in_output: ClassVar[bool] = False
    outside_view: OutsideView | None = None  # with batch and beam as one axis, once the layer is complete

    def __init__(
        self,
        name: str,
        network: Network,
        output: Tensor | None = None,
        n_out: int | type[NotSpecified] | None = NotSpecified,
        out_dim: Dim | None = None,
        out_type: dict[str, Any] | Callable[..., Tensor] | None = None,
        out_shape: Any = None,
        sources: Sequence[Any] = (),
        in_dim: Dim | None = None,
        target: str | list[str] | None = None,
        _target_layers: dict[str, Any] | None = None,
        size_target: str | None = None,
        loss: Any = None,
        reuse_params: Any = None,
        name_scope: str | None = None,
        param_device: str | None = None,
        L2: float | None = None,
        darc1: float | None = None,
        spatial_smoothing: float = 0.0,
        param_variational_noise: float | None = None,
        param_dropout: float | None = None,
        param_dropout_min_ndim: int | None = None,
        updater_opts: dict[str, Any] | None = None,
        is_output_layer: bool | None = None,
        only_on_eval: bool = False,
        only_on_search: bool = False,
        copy_output_loss_from_source_idx: int | None = None,
        batch_norm: bool | dict[str, Any] = False,
        initial_output: Any = None,
        state: Any = None,
        need_last: bool = False,
        rec_previous_layer: Any = None,
        encapsulate: bool = False,
        collocate_with: str | list[str] | None = None,
        trainable: bool | None = None,
        custom_param_importer: str | Callable[..., Any] | None = None,
        register_as_extern_data: str | None = None,
        control_dependencies_on_output: Callable[[Any], Any] | None = None,
        debug_print_layer_output: bool | dict[str, Any] | None = None,
        _network: Network | None = None,
        _name: str | None = None,
        _src_common_search_choices: Any = None,
        _loss_left_out: Any = None,
    ) -> None:
        """
        :param name: name in its network
        :param network: the network
        :param output: the template of the output; default: it is inferred
        :param n_out: size of the feature dim of the output
        :param out_dim: feature dim of the output
        :param out_type: what the output looks like, as options for `Tensor`; or a function that returns a template,
            with arguments such as `sources`, `network`, `name`, `n_out` and `target`
        :param out_shape: promise about the dims of the output: a set of all of them
        :param sources: the layers that `from` names
        :param in_dim: which dim of the source is the feature dim
        :param target: key of the data which the loss compares with; or "layer:name"
        :param _target_layers: layers by those names
        :param size_target: key of the data which has the lengths of the output
        :param loss: by its name in the net dict
        :param reuse_params: take the parameters of another layer, see `ReuseParams`
        :param name_scope: of the parameters, instead of the layer's name; absolute with "/" in front
        :param param_device: device for the parameters, such as "CPU"
        :param L2: scale of the sum of squares of all parameters, added to the loss
        :param darc1: scale of the regularization in Kawaguchi et al. 2017, added to the loss
        :param spatial_smoothing: scale of the differences between neighbours in the output, added to the loss
        :param param_variational_noise: standard deviation of noise on the parameters, in training
        :param param_dropout: probability to drop an entry of a parameter, in training
        :param param_dropout_min_ndim: only in parameters with at least so many axes
        :param updater_opts: options of the updater for the parameters of this layer
        :param is_output_layer: compute it although nothing needs it; inside a loop, keep all frames
        :param only_on_eval: only in evaluation, not in training
        :param only_on_search: only in search
        :param copy_output_loss_from_source_idx: the source whose `output_loss` it takes over
        :param batch_norm: batch normalization on the output; a dict has options for it
        :param initial_output: output before the first frame of a loop, which "prev:" of this layer is there: number;
            "zeros"; "ones"; "var" for a trained one; "apply(0)": the layer on zeros; or a layer. Default: zeros, also
            where the layer depends on one with another `initial_output`: "prev:embedded" is not the embedding of what
            "prev:output" is
        :param state: state before this frame, inside a loop; otherwise it is the one after the frame before
        :param need_last: inside a loop, keep the last frame
        :param rec_previous_layer: this layer in the frame before
        :param encapsulate: a network inside of this layer is only seen as a whole
        :param collocate_with: layers which have to be in the loop if this one is, and vice versa
        :param trainable: whether training changes the parameters
        :param custom_param_importer: function, or name of one, that brings values from elsewhere into the parameters
        :param register_as_extern_data: key under which the output becomes data of the network
        :param control_dependencies_on_output: function from layer to operations which run before the output is used
        :param debug_print_layer_output: print the output in each step; a dict has options of the layer "print".
            Default: as the option of the config with this name says
        :param _network: same as `network`
        :param _name: same as `name`
        :param _src_common_search_choices: the search that all sources belong to
        :param _loss_left_out: class of the loss, where the network wants none
        """
        self.name = name
        self.network = network
        self.sources: list[Any] = list(sources)  # layers
        self.output: Tensor = output  # type: ignore[assignment]  # set by `_compute_output` at the latest
        self.output_before_activation: Any = None
        self.output_loss: Any = None
        self.rec_vars_outputs: dict[str, Any] = {}
        self.state_templates: dict[str, Any] = {}
        self.new_states: dict[str, Tensor] = {}
        self.search_choices: Any = None
        self.own_params: dict[str, Any] = {}
        self.saveable_param_replace: dict[Any, Any] = {}
        self.stats: dict[str, Any] = {}
        self.num_uncounted_seqs: Tensor | None = None  # those in the batch whose loss is 0, as they have no alignment
        self.is_without_path: Tensor | None = (
            None  # [B], bool: the sequences which a layer of alignments finds none for
        )
        self.in_dim = in_dim
        keys = target_keys(target)
        self.target, self.targets = (keys[0], keys) if keys else (None, None)
        self._target_layers = _target_layers or {}
        self.size_target = size_target
        self.loss = loss
        self._loss_left_out = _loss_left_out
        self.reuse_params = reuse_params
        if reuse_params is not None and network.step.innermost_frame() is not None:
            reuse_params.note_use()  # now: the variables are made in another graph, which has no frames to read
        self.name_scope = name_scope
        self.param_device = param_device
        self.L2 = L2
        self.darc1 = darc1
        self.spatial_smoothing = spatial_smoothing
        self.param_variational_noise = param_variational_noise
        self.param_dropout = param_dropout
        self.param_dropout_min_ndim = param_dropout_min_ndim
        self.updater_opts = updater_opts or {}
        self._is_output_layer = is_output_layer
        self.only_on_eval = only_on_eval
        self.only_on_search = only_on_search
        self.copy_output_loss_from_source_idx = copy_output_loss_from_source_idx
        self.use_batch_norm = batch_norm
        self._initial_output = initial_output
        self.state = state
        self.need_last = need_last
        self._rec_previous_layer = rec_previous_layer
        self.encapsulate = encapsulate
        self.collocate_with = [collocate_with] if isinstance(collocate_with, str) else list(collocate_with or [])
        self.trainable = trainable if trainable is not None else True
        self.custom_param_importer = custom_param_importer
        self.register_as_extern_data = register_as_extern_data
        self.control_dependencies_on_output = control_dependencies_on_output
        self.debug_print_layer_output = debug_print_layer_output
        self.post_init_hooks: list[Callable[[], None]] = []
        self._src_common_search_choices = _src_common_search_choices
        self._n_out, self._out_dim, self._out_type, self._out_shape = n_out, out_dim, out_type, out_shape
        self._asked_for: Counter[tuple[str | None, tuple[str | int, ...]]] = Counter()  # see `LayerAxes`
        self.kwargs: dict[str, Any] = {}

    @property
    def output(self) -> Tensor:
        """
        The output, with the beam as a dim or merged, see `returnn.tf.layers.user_code.outside_view`. While dims are
        inferred, also a layer that has a value only counts as a template.
        """
        view = view_from_here(self)
        output = self._output if view is None else view.output
        has_value = output is not None and output.raw_tensor is not None
        return output.copy_template() if has_value and get_selected_backend() == "template" else output

    @output.setter
    def output(self, output: Tensor) -> None:
        self._output = output
        self.outside_view = None

    @property
    def output_before_activation(self) -> Any:
        """`OutputWithActivation`, if there is an activation function."""
        view = view_from_here(self)
        return self._before_activation if view is None else view.before_activation

    @output_before_activation.setter
    def output_before_activation(self, output: Any) -> None:
        self._before_activation = output

    def where(self) -> str:
        """:return: the layer, as an error message begins with it"""
        return f"layer {self.get_absolute_name()!r} (class {self.class_name()!r})"

    @classmethod
    def class_name(cls) -> str:
        """:return: the first of its names in the option "class"; for internal layers, the one of the Python class"""
        names = cls.layer_class or cls.__name__
        return names if isinstance(names, str) else names[0]

    def is_output_layer(self) -> bool:
        """:return: whether it is to be computed although no other layer needs it"""
        if self._is_output_layer is not None:
            return self._is_output_layer
        return self.loss is not None or self.get_absolute_name() == self.network.get_default_output_layer_name()

    def get_absolute_name(self) -> str:
        """:return: name from the root network on, such as "encoder/lstm" """
        return self.network.get_absolute_name_prefix() + self.name

    def get_full_ctx_name(self) -> str:
        """:return: absolute name, with the extra networks that it lives in"""
        return f"{self.network.get_absolute_name_prefix()}{self.network.extra_name_prefix_text}{self.name}"

    @property
    def tf_scope_name(self) -> str:
        """Name scope of the operations."""
        return self.cls_get_tf_scope_name(self.name)

    @classmethod
    def cls_get_tf_scope_name(cls, name: str) -> str:
        """:return: name scope for a layer of this name: what TensorFlow allows as such"""
        return scope_name(name)

    def get_dep_layers(self) -> list[Any]:
        """:return: all layers that the output is computed from"""
        layers: list[Any] = list(self.sources)
        for name, option in options_of(type(self)).items():  # type: ignore[arg-type]  # it has a hash
            if option.holds_layer and name not in ("sources", "rec_previous_layer"):
                layers += layers_in(self.kwargs.get(name))
        return list(dict.fromkeys(layers))

    def get_sub_networks(self) -> list[Any]:
        """:return: networks inside of this layer"""
        return []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.get_absolute_name()!r} out_type={self.output}>"


def target_keys(target: str | Sequence[str] | None) -> list[str]:
    """:return: the option `target`, which is one key or several, as list"""
    return [target] if isinstance(target, str) else list(target or ())
