"""Parameters of layers: making them, sharing them, reading and writing their values, regularization."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.frontend import get_default_float_dtype, get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.tf.layers.core.floors.layer_axes import LayerAxes
from returnn.tf.layers.core.name_scope import scope_of_params
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.reuse_params import ReuseParams
from returnn.tf.util.parameters.assign import assign_values
from returnn.tf.util.parameters.initializers import get_initializer
from returnn.tf.util.parameters.param_noise import with_param_noise
from returnn.tf.util.parameters.param_split import (
    copy_with_new_split_axes,
    get_param_axes_split_info,
    parts_of_dim,
    set_param_axes_split_info,
    transform_param_axes_split_info_to_new_shape,
)
from returnn.tf.util.parameters.regularization import spatial_smoothing_of_output
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1


class LayerParams(LayerAxes):
    """The part of `LayerBase` about parameters."""

    own_params: dict[str, Any]
    reuse_params: ReuseParams | None

    @property
    def have_params(self) -> bool:
        """Whether the layer has parameters."""
        return bool(self.params)

    @property
    def params(self) -> dict[str, Any]:
        """Parameters by name; of layers inside of this one, by path. See `own_params`, which are without those."""
        return self.own_params

    def parameter(
        self,
        name: str,
        dims: Sequence[Dim],
        *,
        initial: Any = "glorot_uniform",
        dtype: str | None = None,
        trainable: bool | None = None,
        saveable: bool | None = None,
        noise: bool = True,
        axes_split_info: Any = None,
    ) -> Tensor:
        """
        :param name: such as "W"
        :param dims: its axes, in the order of the variable
        :param initial: initializer or number, see `returnn.tf.util.parameters.initializers.get_initializer`
        :param dtype: of the values; default: the default dtype of floats
        :param trainable: whether training changes it; default: as the layer says
        :param saveable: whether it goes into checkpoints
        :param noise: whether `param_variational_noise` and `param_dropout` of the layer count for it
        :param axes_split_info: sizes of the parts of each axis, None for one that has none; default: as the dims say
        :return: parameter of this layer, a template if we only infer dims. If the first dims are equal to later ones,
            they have a higher priority, so that a matrix product with them means the first ones.
        """
        parts = axes_split_info or [self.parts_of(dim) for dim in dims]
        dims, dtype = _with_priorities(dims), dtype or get_default_float_dtype()
        if get_selected_backend() == "template":
            template = Tensor(name, dims=dims, dtype=dtype)
            self.network.params.note_template(
                self, template, trainable=self.trainable if trainable is None else trainable
            )
            return template
        shape = [dim.dimension for dim in dims]
        if None in shape:
            raise ConfigError(
                f"{self.where()}: the parameter {name!r} cannot have dynamic dims: {list(map(str, dims))}."
            )
        with self.var_creation_scope(), outermost_graph():
            initializer = self._initializer(name, initial, dtype)
            with _naming_shared_parameter(self, name, shape):
                variable = tf1.get_variable(
                    name,
                    shape=shape,
                    dtype=dtype,
                    initializer=initializer,
                    trainable=self._is_trained(trainable),
                    use_resource=True,
                )
        variable = self.add_param(variable, trainable=trainable, saveable=saveable, axes_split_info=parts, name=name)
        value = self.network.params.value_of(variable)
        if noise:
            value = with_param_noise(self, value)
        return Tensor(name, dims=dims, dtype=dtype, raw_tensor=value)

    def _initializer(self, name: str, initial: Any, dtype: str) -> Any:
        try:
            return get_initializer(initial, seed=self.network.random_seed(), dtype=dtype)
        except ConfigError as exc:
            raise ConfigError(f"{self.where()}: initial value of the parameter {name!r}: {exc}") from exc

    def parts_of(self, dim: Dim) -> list[int] | None:
        """:return: sizes of the parts of a dim of a parameter, such as the feature dims of the joined sources"""
        joined = getattr(self, "input_data", None)
        if joined is not None and len(self.sources) > 1 and dim is joined.feature_dim:
            return [source.output.dim for source in self.sources]
        return parts_of_dim(dim)

    def get_absolute_name_scope_prefix(self) -> str:
        """:return: name scope of the parameters, with a "/" at the end; "" for the root"""
        outer = self.get_base_absolute_name_scope_prefix()
        return scope_of_params(self.tf_scope_name, name_scope=self.name_scope, outer=outer)

    def get_base_absolute_name_scope_prefix(self) -> str:
        """:return: name scope that the one of the layer is in"""
        return self.network.get_absolute_name_scope_prefix()

    @classmethod
    def cls_setup_scope(cls, name: str, name_scope: str | None = None, **_kwargs: Any) -> Any:
        """:return: context: name scope for the operations of a layer"""
        scope = cls.cls_get_tf_scope_name(name) if name_scope is None else name_scope.strip("/")
        return tf1.name_scope(scope) if scope else contextlib.nullcontext()

    @contextlib.contextmanager
    def var_creation_scope(self, **kwargs: Any) -> Iterator[Any]:
        """Inside of it, `tf.compat.v1.get_variable` makes variables of this layer."""
        prefix = self.get_absolute_name_scope_prefix()
        getter = None
        reuse, owner = (self.reuse_params, self) if self.reuse_params else self.network.params.shared_owner()
        if reuse is not None:

            def getter(getter: Callable[..., Any], name: str, **options: Any) -> Any:
                return reuse.variable_custom_getter(base_layer=owner, getter=getter, name=name, **options)

        scope = tf1.VariableScope(
            reuse=tf1.AUTO_REUSE, name=prefix.rstrip("/"), use_resource=True, custom_getter=getter
        )
        with contextlib.ExitStack() as stack:
            if self.param_device:
                stack.enter_context(
                    tf.device(f"/device:{self.param_device}:0" if ":" not in self.param_device else self.param_device)
                )
            yield stack.enter_context(tf1.variable_scope(scope, auxiliary_name_scope=False, **kwargs))

    def add_param(
        self,
        param: Any,
        custom_update: Any = None,
        trainable: bool | None = None,
        saveable: bool | None = None,
        axes_split_info: Any = None,
        non_critical_for_restore: bool = False,
        name: str | None = None,
    ) -> Any:
        """
        Makes a variable a parameter of this layer.

        :param param: variable
        :param custom_update: how training changes it, instead of by its gradient
        :param trainable: whether training changes it; default: as the variable says
        :param saveable: whether it goes into checkpoints
        :param axes_split_info: for each axis, the sizes of what it consists of, if the variable was made of several
        :param non_critical_for_restore: a checkpoint need not have it
        :param name: key in `params`; default: as the variable is called in the scope of the layer
        :return: `param`
        """
        if not isinstance(param, tf.Variable):
            return param  # a shared parameter that was computed from another one
        if name is None:
            full_name, prefix = param.op.name, self.get_absolute_name_scope_prefix()
            name = full_name[len(prefix) :] if full_name.startswith(prefix) else full_name.rsplit("/", 1)[-1]
        self.own_params[name] = param
        if saveable is False:
            self.saveable_param_replace[param] = None
        if custom_update is not None:
            custom_update.set_on_var(param)
        if axes_split_info and any(axes_split_info):
            set_param_axes_split_info(param, axes_split_info)
        if non_critical_for_restore:
            param._returnn_non_critical_for_restore = True
        if self.updater_opts:
            param._returnn_updater_opts = self.updater_opts
        self.network.params.note_training(param, is_trained=self._is_trained(trainable))
        return param

    def _is_trained(self, given: bool | None) -> bool:
        """:return: whether training changes a parameter, as far as this layer and those around say"""
        return (self.trainable if given is None else given) and self.network.params.are_trainable

    def get_saveable_params_dict(self) -> dict[str, Any]:
        """:return: parameters by name that go into checkpoints"""
        return saved_params(self, self.params)

    @classmethod
    def _transform_reuse_params(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        if d.get("reuse_params") is not None:
            where = f"layer {network.get_absolute_name_prefix() + str(d.get('_name', '?'))!r}"
            try:
                d["reuse_params"] = ReuseParams.from_config_dict(d["reuse_params"], network, get_layer)
            except ConfigError as exc:
                raise ConfigError(str(exc) if str(exc).startswith("layer") else f"{where}: {exc}") from exc

    def get_param_values_dict(self, session: Any) -> dict[str, numpy.ndarray]:
        """:return: values of the parameters, by name"""
        return session.run(dict(self.get_saveable_params_dict()))  # type: ignore[no-any-return]

    def set_param_values_by_dict(
        self,
        values_dict: Mapping[str, numpy.ndarray],
        session: Any,
        ignore_wrong_shape: bool = False,
        copy_param_mode: str | None = None,
    ) -> None:
        """
        :param values_dict: values by name of the parameter
        :param session: session to write them in
        :param ignore_wrong_shape: leave a parameter as it is if its shape is another one
        :param copy_param_mode: "ifpossible": like `ignore_wrong_shape`; "subset": copy the part which both shapes have
        :raises ConfigError: if a parameter has no value, or one of another shape
        """
        if copy_param_mode == "ifpossible":
            ignore_wrong_shape = True
        importer = self._param_importer()
        if importer is not None:
            importer(layer=self, values_dict=values_dict, session=session)
            return
        for name, param in self.params.items():
            if name not in values_dict:
                if copy_param_mode in ("ifpossible", "subset"):
                    continue
                raise ConfigError(
                    f"{self.where()}: there is no value for the parameter {name!r}, only {sorted(values_dict)}."
                )
            value, shape = values_dict[name], tuple(param.shape.as_list())
            if value.shape != shape:
                if copy_param_mode == "subset":
                    value = _subset(value, session.run(param), get_param_axes_split_info(param))
                elif ignore_wrong_shape:
                    continue
                else:
                    raise ConfigError(
                        f"{self.where()}: the parameter {name!r} has the shape {shape}, not {value.shape}."
                    )
            assign_values(session, {param.ref(): value})

    def _param_importer(self) -> Callable[..., Any] | None:
        importer = self.custom_param_importer
        if isinstance(importer, str):
            method = getattr(self, importer, None)
            if method is None:
                raise ConfigError(f"{self.where()}: custom_param_importer: there is no function {importer!r}.")
            return lambda values_dict, session, **_: method(values_dict=values_dict, session=session)
        return importer

    def get_params_l2_norm(self) -> Any:
        """:return: raw scalar, the sum of squares of all parameters, also of those of layers inside of this one"""
        return 2 * sum(tf.nn.l2_loss(param) for param in self.params.values())

    def get_constraints_value(self) -> Any:
        """:return: raw scalar, what is added to the loss for the parameters and the output; 0 if nothing"""
        constraints: Any = 0
        if self.L2 and self.params:
            constraints += self.L2 * self.get_params_l2_norm()
        if self.spatial_smoothing:
            constraints += self.spatial_smoothing * self.get_output_spatial_smoothing_energy()
        if self.darc1:
            constraints += self.darc1 * self.get_darc1()
        return constraints

    def get_output_spatial_smoothing_energy(self) -> Any:
        """:return: raw scalar, see `returnn.tf.util.parameters.regularization.spatial_smoothing_energy`"""
        return spatial_smoothing_of_output(self.output)

    def get_darc1(self) -> Any:
        """
        :return: raw scalar: Kawaguchi et al. 2017, "Generalization in Deep Learning", regularization DARC1. It is about
            what comes before the activation function, such as the input of a softmax.
        """
        return tf.reduce_max(tf.reduce_sum(tf.abs(output_of_darc1(self).get_placeholder_flattened()), axis=0))


def output_of_darc1(layer: LayerParams) -> Tensor:
    """:return: what `LayerParams.get_darc1` is about"""
    act = layer.output_before_activation
    return layer.output if act is None or act.before is None else act.before


def params_in_scope(layer: LayerParams) -> dict[str, Any]:
    """
    :return: parameters of a layer and of those inside of it, each once, by the names of their variables in the scope of
        the layer; those that come from elsewhere, by the names that they would have
    """
    prefix = layer.get_absolute_name_scope_prefix()
    found = dict(layer.own_params)
    for inner in [inner for net in layer.get_sub_networks() for inner in net.get_all_layers_deep()]:
        for key, param in inner.own_params.items():
            name = param.op.name
            if not name.startswith(prefix):
                name = inner.get_absolute_name_scope_prefix() + key
            if not any(param is other for other in found.values()):
                found[name.removeprefix(prefix)] = param
    return found


def saved_params(layer: LayerParams, params: Mapping[str, Any]) -> dict[str, Any]:
    """
    :param layer: the layer
    :param params: some of its parameters
    :return: those that go into checkpoints
    """
    replace = dict(layer.saveable_param_replace)
    for net in layer.get_sub_networks():
        for inner in net.get_all_layers_deep():
            replace.update(inner.saveable_param_replace)
    found = {name: replace.get(param, param) for name, param in params.items()}
    return {name: param for name, param in found.items() if param is not None}


def _with_priorities(dims: Sequence[Dim]) -> list[Dim]:
    result: list[Dim] = []
    for i, dim in enumerate(dims):
        later = list(dims[i + 1 :]).count(dim)
        result.append(dim.copy(match_priority=later) if later else dim)
    return result


def _subset(value: numpy.ndarray, old: numpy.ndarray, split_info: Any) -> numpy.ndarray:
    """:return: the old value, with what fits of the new one copied into it, for each part of the parameter"""
    if value.ndim != old.ndim:
        return old
    known = split_info or [None] * old.ndim
    parts = [[size] if part is None else part for part, size in zip(known, old.shape, strict=True)]
    parts_of_value = transform_param_axes_split_info_to_new_shape(parts, value.shape)
    return copy_with_new_split_axes(parts_of_value, parts, value, old)


@contextlib.contextmanager
def _naming_shared_parameter(layer: LayerParams, name: str, shape: list[int | None]) -> Iterator[None]:
    try:
        yield
    except ValueError as exc:
        if "Trying to share variable" not in str(exc):
            raise
        raise ConfigError(
            f"{layer.where()}: the parameter {layer.get_absolute_name_scope_prefix() + name!r} would have the shape"
            f" {tuple(shape)}, but another layer\n"
            f"  has one of this name: {str(exc).partition('but ')[2] or exc}\n"
            "  Layers of the same 'name_scope', and both layers of a 'cond', share their parameters.\n"
            "  Give one of them another 'name_scope'."
        ) from exc
