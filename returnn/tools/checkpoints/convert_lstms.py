"""All LSTMs of a checkpoint in another layout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy

from returnn.util.errors import UserError, check_known
from returnn.util.numbers.lstm_layouts import LAYOUTS, convert_lstm


def convert_lstms(
    values: Mapping[str, numpy.ndarray], source: str, target: str, *, forget_bias: float = 1.0
) -> dict[str, numpy.ndarray]:
    """
    Converts all LSTMs that there are; what is before the names of their parameters stays.

    :param values: parameters by name
    :param source: one of `LAYOUTS`
    :param target: one of `LAYOUTS`
    :param forget_bias: what units of those layouts add to the forget gate that do so
    :raises UserError: if there is no LSTM in that layout, or it has other shapes
    """
    for name in (source, target):
        check_known("layout", name, LAYOUTS, where="option '--lstm'")
    old, new = LAYOUTS[source], LAYOUTS[target]
    prefixes = [
        name.removesuffix(old.suffixes[0])
        for name in values
        if name.endswith(old.suffixes[0]) and name.removesuffix(old.suffixes[0])[-1:] in ("", "/", ".")
    ]
    prefixes = [prefix for prefix in prefixes if all(f"{prefix}{suffix}" in values for suffix in old.suffixes)]
    if not prefixes:
        raise UserError(f"option '--lstm': no LSTM has the layout {source!r}, with {', '.join(old.suffixes[:4])}.")
    converted = dict(values)
    for prefix in prefixes:
        parts = [converted.pop(f"{prefix}{suffix}") for suffix in old.suffixes]
        try:
            written = convert_lstm(parts, old, new, forget_bias=forget_bias)
        except ValueError as exc:
            shapes = ", ".join(str(part.shape) for part in parts[:4])
            raise UserError(f"option '--lstm': {prefix!r} has the shapes {shapes}, which are of no LSTM.") from exc
        converted.update({f"{prefix}{suffix}": value for suffix, value in zip(new.suffixes, written, strict=True)})
    return converted
