"""Cells of a user, which work on raw tensors, as units."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.tf.layers.rec.units.base import RecUnit, State
from returnn.tf.layers.rec.units.rnn_cell_base import names_of_state
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1


class RawCellUnit(RecUnit):
    """
    A cell with the methods of `BaseRNNCell`, as unit.

    Its parameters are those that it makes by `tf.compat.v1.get_variable` when it is called.
    """

    cell_class: ClassVar[Callable[..., Any]]

    def __init__(self, num_units: int, **opts: Any) -> None:
        """
        :param num_units: size of the output
        :param opts: further arguments of the class
        """
        super().__init__(num_units)
        self.cell = self.cell_class(num_units, **opts)
        self.trainable = getattr(self.cell, "trainable", True)
        self.variables: dict[str, Any] = {}

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`: calls the cell once, outside of all loops."""
        sizes = tf.nest.flatten(self.cell.state_size)
        if self.cell.output_size != self.num_units or any(size != self.num_units for size in sizes):
            raise ConfigError(
                f"{self.layer.where()}: unit {type(self.cell).__name__}: output and each part of the state have to be "
                f"of size n_out = {self.num_units}.\n  They are {self.cell.output_size} and {self.cell.state_size}."
            )
        if rf.get_selected_backend() == "template":
            return
        with outermost_graph():
            dtype = rf.get_default_float_dtype()
            frame = tf.zeros([1, self.in_dim.dimension], dtype)
            state = self.cell.zero_state(1, dtype)
            with self._scope():
                self.cell(self._transformed(frame), state)
        for variable in self.variables.values():
            self.layer.add_param(variable, trainable=self.trained())

    def project(self, source: Tensor) -> Tensor:
        """See `RecUnit.project`."""
        if source.sparse:
            source = rf.one_hot(source)
        axis = source.get_axis_from_description(self.in_dim)
        x = source.copy_move_axis(axis, -1)
        if rf.get_selected_backend() == "template":
            return x
        with self._scope():
            raw = self._transformed(x.raw_tensor)
        gates = self.layer.new_dim("transformed", raw.shape[-1], auto_generated=False)
        return Tensor("transformed", dims=[*x.dims[:-1], gates], dtype=raw.dtype.name, raw_tensor=raw)

    def step(self, x: tf.Tensor, state: State, *once: tf.Tensor) -> tuple[tf.Tensor, State]:
        """See `RecUnit.step`."""
        with self._scope():
            output, new = self.cell(x, tf.nest.pack_sequence_as(self.cell.state_size, state))
        return output, tuple(tf.nest.flatten(new))

    def _transformed(self, x: tf.Tensor) -> tf.Tensor:
        transform = getattr(self.cell, "get_input_transformed", None)
        transformed = x if transform is None else transform(x)
        if not tf.is_tensor(transformed):
            raise ConfigError(f"{self.layer.where()}: get_input_transformed: expected a tensor, got {transformed!r}.")
        return transformed

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """Inside of it, `get_variable` makes parameters of the layer, each once."""

        def getter(getter: Callable[..., Any], name: str, **options: Any) -> Any:
            if name not in self.variables:
                with outermost_graph():
                    self.variables[name] = getter(name, **options)
            return self.variables[name]

        with (
            self.layer.var_creation_scope(),
            tf1.variable_scope(tf1.get_variable_scope(), custom_getter=getter, auxiliary_name_scope=False),
        ):
            yield


def unit_of_raw_cell(cell_class: Callable[..., Any], opts: Mapping[str, Any]) -> type[RawCellUnit]:
    """
    :param cell_class: class of a cell; called with the size of its output, and options
    :param opts: options
    :return: unit. The parts of its state are those of a cell with output size 1
    """
    names = names_of_state(cell_class(1, **opts).state_size)
    return _unit_class(cell_class, names)


@functools.cache
def _unit_class(cell_class: Callable[..., Any], names: tuple[str, ...]) -> type[RawCellUnit]:
    attributes = {"cell_class": cell_class, "state_names": names, "__doc__": cell_class.__doc__}
    return type(cell_class.__name__, (RawCellUnit,), attributes)
