"""All LSTMs of a checkpoint in another layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from returnn.tools.checkpoints.lstm_stacks import NamedLstm, find_lstms, joined, names_of, with_directions
from returnn.util.errors import UserError, check_known
from returnn.util.numbers.lstm_layouts import LAYOUTS, Layout, LstmParams, read_lstm, write_lstm
from returnn.util.texts.counted import counted

_STACKED = ("torch", "cudnn")  # have several layers and directions in one LSTM


@dataclass(frozen=True)
class ConvertedLstms:
    """All parameters, and what a user should know of the conversion."""

    values: dict[str, numpy.ndarray]
    notes: Sequence[str]


def convert_lstms(
    values: Mapping[str, numpy.ndarray],
    source: str,
    target: str,
    *,
    forget_bias: float = 1.0,
    directions: int | None = None,
) -> ConvertedLstms:
    """
    Converts all LSTMs that there are, with all layers and directions, see `lstm_stacks`; what is before the names of
    their parameters stays.

    :param values: parameters by name
    :param source: one of `LAYOUTS`
    :param target: one of `LAYOUTS`
    :param forget_bias: what units of those layouts add to the forget gate that do so
    :param directions: of LSTMs of cuDNN, where their sizes do not say it
    :raises UserError: if there is no LSTM in that layout, or it has other shapes
    """
    for name in (source, target):
        check_known("layout", name, LAYOUTS, where="option '--lstm'")
    if directions is not None and source != "cudnn":
        raise UserError(f"option '--directions': it is for LSTMs of cuDNN, names in {source!r} have the directions.")
    old, new = LAYOUTS[source], LAYOUTS[target]
    lstms = find_lstms(values, old)
    if not lstms:
        raise UserError(f"option '--lstm': no LSTM has the layout {source!r}, with {', '.join(old.suffixes[:4])}.")
    params = {names[0]: _read(values, lstm, names, old, forget_bias) for lstm in lstms for names in lstm.parts.values()}
    sizes = {first: (len(x.forward), len(x.recurrent)) for first, x in params.items()}
    if source == "cudnn":
        lstms = [with_directions(x, [sizes[names[0]] for names in x.parts.values()], directions) for x in lstms]
    elif source not in _STACKED and target in _STACKED:
        lstms = joined(lstms, {lstm.prefix: sizes[lstm.parts["l0"][0]] for lstm in lstms})
    converted = dict(values)
    lost: dict[str, int] = {}
    for lstm in lstms:
        parts = [params[names[0]] for names in lstm.parts.values()]
        for name in (name for names in lstm.parts.values() for name in names):
            del converted[name]
        written = [write_lstm(part, new, forget_bias=forget_bias) for part in parts]
        for part, arrays in zip(parts, written, strict=True):
            if reason := what_is_lost(part, arrays, old, new, forget_bias):
                lost[reason] = lost.get(reason, 0) + 1
        for names, arrays in zip(names_of(lstm.prefix, list(lstm.parts), new, len(written[0])), written, strict=True):
            converted.update(zip(names, arrays, strict=True))
    num = sum(len(lstm.parts) for lstm in lstms)
    of_parts = f", all {num} layers and directions" if num > len(lstms) else ""
    notes = [f"{counted(len(lstms), 'LSTM')} from {source} to {target}{of_parts}"]
    return ConvertedLstms(converted, [*notes, *(f"{reason}, in {count} of {num}" for reason, count in lost.items())])


def _read(
    values: Mapping[str, numpy.ndarray], lstm: NamedLstm, names: Sequence[str], layout: Layout, forget_bias: float
) -> LstmParams:
    parts = [values[name] for name in names]
    try:
        return read_lstm(parts, layout, forget_bias=forget_bias)
    except (ValueError, IndexError) as exc:
        shapes = ", ".join(str(part.shape) for part in parts[:4])
        raise UserError(f"option '--lstm': {lstm} has the shapes {shapes}, which are of no LSTM.") from exc


def what_is_lost(
    params: LstmParams, written: Sequence[numpy.ndarray], old: Layout, new: Layout, forget_bias: float
) -> str:
    """
    :param params: of a layer and direction
    :param written: the same, in the order of the suffixes of `new`
    :param old: layout that they were in
    :param new: layout that they are in now
    :param forget_bias: what units of LSTMs add to the forget gate, which do so
    :return: why it would not be the same when it is converted back; "" if it would
    """
    if not params.biases and new.needs_biases:
        return "zeros as biases, as there were none"
    back = write_lstm(read_lstm(written, new, forget_bias=forget_bias), old, forget_bias=forget_bias)
    again = write_lstm(params, old, forget_bias=forget_bias)
    if all(a.tobytes() == b.tobytes() for a, b in zip(back, again, strict=True)):
        return ""
    if len(params.biases) > new.num_biases:
        return "the sum of the two biases is left, and not each of them"
    return "biases of forget gates are rounded, unless '--forget_bias 0'"
