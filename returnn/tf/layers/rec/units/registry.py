"""Units by the names that configs use: without "Cell" at the end, in upper or lower case."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from returnn.tf.layers.options.layer_options import options_of
from returnn.tf.layers.rec.units.base import RecUnit
from returnn.tf.layers.rec.units.blocksparse import (
    BlocksparseLSTMCell,
    BlocksparseMultiplicativeMultistepLSTMCell,
)
from returnn.tf.layers.rec.units.layer_norm_lstm import LayerNormVariantsLSTMCell
from returnn.tf.layers.rec.units.lstm_cells import BasicLSTMCell, LSTMCell, ZoneoutLSTMCell
from returnn.tf.layers.rec.units.native_lstm import (
    NativeLstm2,
    NativeLstmCell,
    NativeLstmLowMemCell,
    VanillaLSTMCell,
)
from returnn.tf.layers.rec.units.raw_cell import RawCellUnit, unit_of_raw_cell
from returnn.tf.layers.rec.units.rhn import RHNCell
from returnn.tf.layers.rec.units.seq_cells import RecSeqCellOp
from returnn.tf.layers.rec.units.simple_cells import BasicRNNCell, GRUCell
from returnn.util.errors import ConfigError, check_known, nearest_hint

_CLASSES = (
    BasicLSTMCell,
    BasicRNNCell,
    BlocksparseLSTMCell,
    BlocksparseMultiplicativeMultistepLSTMCell,
    GRUCell,
    LayerNormVariantsLSTMCell,
    LSTMCell,
    NativeLstm2,
    NativeLstmCell,
    NativeLstmLowMemCell,
    RHNCell,
    VanillaLSTMCell,
    ZoneoutLSTMCell,
)
_UNITS: dict[str, type[RecUnit]] = {name: unit for unit in _CLASSES for name in unit.unit_names}
_AS_CELL = dict.fromkeys(("cudnnlstm", "lstm", "lstmblock", "lstmblockfused", "lstme", "lstmp"), LSTMCell)
_CONTRIB = (  # cells of `tf.contrib.rnn`
    *("bidirectionalgridlstm", "cfn", "conv1dlstm", "conv2dlstm", "conv3dlstm", "convlstm"),
    *("coupledinputforgetgatelstm", "glstm", "gridlstm", "grublock", "grublockcellv2", "indrnn", "indygru", "indylstm"),
    *("intersectionrnn", "layernormbasiclstm", "layernormlstm", "minimalrnn", "nas", "ntm", "phasedlstm", "sru"),
    *("timefreqlstm", "ugrnn", "weightnormlstm"),
)
_LIKE_CONTRIB = {
    **dict.fromkeys(("grublock", "grublockcellv2"), "gru"),
    **dict.fromkeys(("layernormbasiclstm", "layernormlstm"), "layernormvariantslstm"),
}
_INTERNAL = ("self", "num_units")


def known_units() -> list[str]:
    """:return: all names of units"""
    return sorted(_UNITS)


def get_unit_class(
    unit: Any, *, as_cell: bool = False, opts: Mapping[str, Any] | None = None, where: str = "option 'unit'"
) -> type[RecUnit]:
    """
    :param unit: name; or a class that derives from `RecUnit`, or one of cells as `BaseRNNCell` describes them; or a
        class of `returnn.tf.native_op`
    :param as_cell: some names mean another unit where a single step is wanted
    :param opts: options of the unit, for cells on raw tensors
    :param where: for the error message
    :raises ConfigError: if there is no such unit
    """
    if inspect.isclass(unit) and issubclass(unit, RecUnit):
        return unit
    if inspect.isclass(unit) and issubclass(unit, RecSeqCellOp):
        unit = unit.__name__
    if inspect.isclass(unit) and hasattr(unit, "state_size"):
        return unit_of_raw_cell(unit, opts or {})
    if not isinstance(unit, str):
        raise ConfigError(f"{where}: expected the name of a unit, got {unit!r}.")
    name = unit.lower()
    name = name[: -len("cell")] if name.endswith("cell") else name
    if name in _CONTRIB:
        raise ConfigError(f"{where}: {unit!r} was a cell of tf.contrib, which is gone.\n  {_instead_of_contrib(name)}")
    check_known("unit", name, _UNITS, where=where)
    return _AS_CELL[name] if as_cell and name in _AS_CELL else _UNITS[name]


def _instead_of_contrib(name: str) -> str:
    if name in _LIKE_CONTRIB:
        return f"Alike is {_LIKE_CONTRIB[name]!r}; its parameters have other names."
    return "Nothing here is like it, but 'unit' can be a class of the config, with `state_size`, as such cells had it."


def check_unit_opts(unit_class: type[RecUnit], opts: dict[str, Any], *, where: str) -> None:
    """:raises ConfigError: if the unit has no such option"""
    if issubclass(unit_class, RawCellUnit):
        return
    options = options_of(unit_class)  # type: ignore[arg-type]  # mypy takes `__hash__` of the class for its own
    known = [name for name in options if name not in _INTERNAL]
    for name in opts:
        if name not in known:
            hint = nearest_hint(name, known) if known else "This unit has no options."
            raise ConfigError(f"{where}: unit_opts: there is no option {name!r}.\n  {hint}")


def unit_names() -> list[str]:
    """:return: all names of units that there are kernels for"""
    return sorted(name for name, unit in _UNITS.items() if unit is not BlocksparseMultiplicativeMultistepLSTMCell)
