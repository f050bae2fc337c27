"""Tensors of a checkpoint, in words: a table, or the values of one."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from returnn.util.errors import UserError
from returnn.util.texts.counted import are, counted


@dataclass(frozen=True)
class TensorInfo:
    """Name, shape and type of a tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of values."""
        return int(numpy.prod(self.shape, dtype="int64"))


def tensor_table(tensors: Sequence[TensorInfo]) -> str:
    """:return: a line for each, and the number of values"""
    width = max((len(tensor.name) for tensor in tensors), default=0)
    lines = [f"{tensor.name:<{width}}  {tensor.dtype}{list(tensor.shape)}  {tensor.size:,}" for tensor in tensors]
    return "\n".join([*lines, f"{counted(len(tensors), 'tensor')}, {sum(tensor.size for tensor in tensors):,} values"])


def tensor_stats(value: Any) -> str:
    """:return: mean, standard deviation, smallest and largest value, and what is not finite"""
    value = numpy.asarray(value)
    if value.size == 0 or value.dtype.kind not in "fiub":
        return "no numbers"
    numbers = value.astype("float64")
    finite = numbers[numpy.isfinite(numbers)]
    wrong = value.size - finite.size
    text = f"{counted(wrong, 'value')} {are(wrong)} not finite" if wrong else ""
    if finite.size:
        spread = f"mean {finite.mean():.6g}, std {finite.std():.6g}, min {finite.min():.6g}, max {finite.max():.6g}"
        text = f"{spread}; {text}" if text else spread
    return text


def parse_print_options(texts: Sequence[str] | None) -> Mapping[str, Any]:
    """
    :param texts: such as "precision=3", for `numpy.printoptions`
    :raises UserError: if it is something else
    """
    options = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"option '--printoptions': {text!r}: expected NAME=VALUE, such as precision=3.")
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = value
    try:
        with numpy.printoptions(**options):
            pass
    except (TypeError, ValueError) as exc:
        raise UserError(f"option '--printoptions': {exc}.") from exc
    return options
