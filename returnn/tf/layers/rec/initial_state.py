"""The state of a unit before the first frame as raw tensors, as code of users asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from returnn.frontend import get_default_float_dtype
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.rec.state_options import split_state
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
    parts = tuple(_as_raw(value, batch_size, size, where=where) for value in values.values())
    if names == LSTMStateTuple._fields:
        return LSTMStateTuple(*parts)
    return parts if len(parts) > 1 else parts[0]


def _as_raw(value: Any, batch_size: tf.Tensor, size: int, *, where: str) -> tf.Tensor:
    """:return: (B, F)"""
    value = {"zeros": 0, "ones": 1}.get(value, value) if isinstance(value, str) else value
    value = value() if callable(value) and not isinstance(value, LayerBase) else value
    value = value.output if isinstance(value, LayerBase) else value
    if isinstance(value, Tensor):
        return value.copy_as_batch_major().raw_tensor
    if not isinstance(value, (int, float)):
        raise ConfigError(f"{where}: option 'initial_state': {value!r} is known by the layer alone, after it is made.")
    return tf.fill([batch_size, size], tf.cast(value, get_default_float_dtype()))
