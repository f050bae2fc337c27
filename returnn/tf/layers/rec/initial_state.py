"""The state of a unit before the first frame as raw tensors, as code of users asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from returnn.frontend import get_default_float_dtype
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.rec.state_options import part_of_state, split_state
from returnn.tf.layers.rec.units.registry import get_unit_class
from returnn.tf.util.lstm_state import LSTMStateTuple
from returnn.util.errors import ConfigError


def make_raw_initial_state(
    unit: Any,
    batch_size: tf.Tensor,
    *,
    as_cell: bool,
    name: str,
    n_out: Any = None,
    out_dim: Dim | None = None,
    initial_state: Any = None,
    unit_opts: Mapping[str, Any] | None = None,
    **_further_options: Any,
) -> Any:
    """
    :param unit: name or class
    :param batch_size: raw scalar, with the beam
    :param as_cell: whether names of units mean those for single steps
    :param name: of the layer, for error messages, like all that follows one of its options
    :param n_out: size of the output, if `out_dim` does not say it
    :param out_dim: feature dim of the output
    :param initial_state: option of this name, with layers in place of their names
    :param unit_opts: options of the unit
    :return: raw (B, n_out); a tuple if the state has parts
    :raises ConfigError: if only the layer itself can make it, as a parameter or from the batch before
    """
    where = f"layer {name!r}"
    size = n_out if out_dim is None else out_dim.dimension
    if not isinstance(size, int):
        raise ConfigError(f"{where}: the size of the state is not known. Give 'n_out' or 'out_dim'.")
    names = get_unit_class(unit, as_cell=as_cell, opts=unit_opts).state_names
    values = split_state(0 if initial_state is None else initial_state, names, option="initial_state", where=where)
    parts = tuple(_as_raw(value, (batch_size, size), where=where) for value in values.values())
    if names == LSTMStateTuple._fields:
        return LSTMStateTuple(*parts)
    return parts if len(parts) > 1 else parts[0]


def make_raw_state_part(
    shape: Sequence[Any],
    *,
    name: str,
    state_key: str | None = None,
    key: int | str | None = None,
    initial_state: Any = None,
    shape_invariant: Sequence[Any] | None = None,
) -> Any:
    """
    :param shape: numbers and raw scalars, the batch with the beam first
    :param name: of the layer, for error messages
    :param state_key: which one of its states, for error messages. Default: "state"
    :param key: name or number of a part of this state; None if it has none
    :param initial_state: option of this name, with layers in place of their names
    :param shape_invariant: what stays of the shape in all frames, None for axes that grow. Default: what is known
    :return: raw (B, ...)
    :raises ConfigError: if only the layer itself can make it
    """
    where = f"layer {name!r}" + (f", state {state_key!r}" if state_key not in (None, "state") else "")
    value = _as_raw(part_of_state(0 if initial_state is None else initial_state, key, where=where), shape, where=where)
    if shape_invariant is None:
        return value
    return tf.compat.v1.placeholder_with_default(value, shape_invariant)


def _as_raw(value: Any, shape: Sequence[Any], *, where: str) -> tf.Tensor:
    """:return: of this shape, or as the value has it"""
    value = {"zeros": 0, "ones": 1}.get(value, value) if isinstance(value, str) else value
    value = value() if callable(value) and not isinstance(value, LayerBase) else value
    value = value.output if isinstance(value, LayerBase) else value
    if isinstance(value, Tensor):
        return value.copy_as_batch_major().raw_tensor
    if not isinstance(value, (int, float)):
        raise ConfigError(f"{where}: option 'initial_state': {value!r} is known by the layer alone, after it is made.")
    return tf.fill(list(shape), tf.cast(value, get_default_float_dtype()))
