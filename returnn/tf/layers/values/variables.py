"""Variables of their own: parameters which a layer has as output, and what reads and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.no_sources import NoSourcesLayer
from returnn.tf.layers.core.param_dims import with_dims_of_param
from returnn.tf.layers.core.side_effects import in_each_step
from returnn.util.errors import ConfigError, check_known


class VariableLayer(NoSourcesLayer):
    """
    A parameter.

    Output: the dims in `shape`. The parameter has the name of the layer.
    """

    layer_class = "variable"

    def __init__(
        self,
        shape: Sequence[int | Dim],
        dtype: str = "float32",
        add_batch_axis: bool = False,
        add_time_axis: bool = False,
        trainable: bool = True,
        saveable: bool = True,
        non_critical_for_restore: bool = False,
        init: Any = None,
        init_by_layer: LayerBase | None = None,
        param_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param shape: dims or sizes
        :param dtype: of the values
        :param add_batch_axis: the output has a batch dim in front
        :param add_time_axis: the output has a time dim of size 1 in front, behind the batch dim
        :param trainable: whether training changes it
        :param saveable: whether it goes into checkpoints
        :param non_critical_for_restore: a checkpoint need not have it
        :param init: initial value, see `returnn.tf.util.basic.get_initializer`. Default: 0
        :param init_by_layer: layer whose output is the initial value
        :param param_name: of the parameter, default: the name of the layer
        """
        super().__init__(trainable=trainable, **kwargs)
        if init is not None and init_by_layer is not None:
            raise ConfigError(f"{self.where()}: the options 'init' and 'init_by_layer' exclude each other.")
        self.shape = shape
        self.dtype = dtype
        self.add_batch_axis = add_batch_axis
        self.add_time_axis = add_time_axis
        self.saveable = saveable
        self.non_critical_for_restore = non_critical_for_restore
        self.init = 0 if init is None else init
        self.init_by_layer = init_by_layer
        self.param_name = param_name or self.name.rsplit("/", 1)[-1]

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: the parameter"""
        value = self.parameter(
            self.param_name,
            self.dims_of_variable(),
            initial=self._initial(),
            dtype=self.dtype,
            saveable=None if self.saveable else False,
        )
        if self.non_critical_for_restore and self.own_params:
            self.own_params[self.param_name]._returnn_non_critical_for_restore = True
        if self.add_time_axis:
            value = rf.expand_dim(value, self.new_dim("time", 1))
        return rf.expand_dim(value, batch_dim) if self.add_batch_axis else value

    def variable(self) -> tf.Variable:
        """:return: the variable"""
        return self.own_params[self.param_name]

    def like_variable(self, layer: LayerBase, given: LayerBase) -> Tensor:
        """
        :param layer: which needs the value, for errors
        :param given: has it as output
        :return: value for the variable
        """
        return with_dims_of_param(layer, given, given.output, self.dims_of_variable())

    def dims_of_variable(self) -> list[Dim]:
        """:return: the dims in `shape`"""
        return self.dims_of_shape(self.shape, last_is_feature=True)

    def _initial(self) -> Any:
        if self.init_by_layer is None:
            return self.init
        value = self.like_variable(self, self.init_by_layer)
        return lambda shape, dtype=None, **_: tf.reshape(value.raw_tensor, shape)


class _WithVariable(NoSourcesLayer):
    """Base class of layers that do something with the variable of another layer."""

    def __init__(
        self, var: LayerBase, control_dependencies: Sequence[LayerBase] | LayerBase | None = None, **kwargs: Any
    ) -> None:
        """
        :param var: layer of class "variable"
        :param control_dependencies: other layers that are computed before
        """
        super().__init__(**kwargs)
        self.var = var
        self.control_dependencies = control_dependencies
        if not isinstance(var, VariableLayer):
            raise ConfigError(f"{self.where()}: option 'var': {var.where()} is no layer of class 'variable'.")

    def after_dependencies(self) -> Any:
        """:return: context for operations that run after the other layers"""
        layers = self.control_dependencies or []
        layers = [layers] if isinstance(layers, LayerBase) else layers
        return tf.control_dependencies([layer.output.raw_tensor for layer in layers])

    def variable_of(self) -> tf.Variable:
        """:return: the variable"""
        assert isinstance(self.var, VariableLayer)
        return self.var.variable()


class VariableAssignLayer(_WithVariable):
    """
    Changes a variable, in each step. The output, a scalar 0, is there when that is done.

    The variable keeps its new value. To see it in the same step, see `VariableReadLayer`.
    """

    layer_class = "variable_assign"

    def __init__(self, value: LayerBase, op: str = "assign", **kwargs: Any) -> None:
        """
        :param value: layer with the new value, or what is added
        :param op: "assign", "add" or "sub"
        """
        super().__init__(**kwargs)
        check_known("op", op, ("assign", "add", "sub"), where=self.where())
        self.value = value
        self.op = op

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: scalar 0"""
        output = Tensor(self.name, dims=(), dtype="int32")
        assert isinstance(self.var, VariableLayer)
        value = self.var.like_variable(self, self.value)
        if value.raw_tensor is None:
            return output
        variable = self.variable_of()
        with self.after_dependencies():
            method = {"assign": "assign", "add": "assign_add", "sub": "assign_sub"}[self.op]
            done = getattr(variable, method)(tf.cast(value.raw_tensor, variable.dtype), read_value=False)
        output.raw_tensor = in_each_step(self, tf.constant(0), [done])
        return output


class VariableReadLayer(_WithVariable):
    """The value of a variable, read when other layers have been computed."""

    layer_class = "variable_read"

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [...]: the dims of the variable"""
        assert isinstance(self.var, VariableLayer)
        output = Tensor(self.name, dims=self.var.dims_of_variable(), dtype=self.var.dtype)
        if self.var.output.raw_tensor is not None:
            with self.after_dependencies():
                output.raw_tensor = self.variable_of().read_value()
        return output
