"""
Signatures of kernels, which say what goes in and comes out: `x: real[T, N, 4F], d: real[N]?; backward: bool -> y: ...`.

`src/signature.h` explains them. What is here is for bindings in Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from returnn.util.errors import UserError

_HALF_TYPES = ("float16", "bfloat16")
_DIM = re.compile(r"(?P<factor>\d*)(?P<name>[A-Za-z]\w*)(?:\+(?P<plus>\d+))?|(?P<number>\d+)")
_ARRAY = re.compile(r"\s*(?P<name>\w+)\s*:\s*(?P<type>\w+)\s*\[(?P<dims>[^\]]*)\]\s*(?P<optional>\??)\s*")


@dataclass(frozen=True)
class DimExpression:
    """`factor * name + plus`. Without a name, only `plus` counts."""

    name: str
    factor: int
    plus: int

    def __str__(self) -> str:
        if not self.name:
            return str(self.plus)
        return f"{self.factor if self.factor > 1 else ''}{self.name}{f'+{self.plus}' if self.plus else ''}"

    def value(self, known: Mapping[str, int]) -> int:
        """
        :param known: sizes by name
        :return: the size
        """
        return self.factor * known[self.name] + self.plus if self.name else self.plus


@dataclass(frozen=True)
class ArraySpec:
    """One array of a signature."""

    name: str
    dtype: str  # "real": a type of floats, all the same; "state": the same, but float32 where that has 16 bits
    dims: tuple[DimExpression, ...]
    optional: bool  # may have no elements: then it is not there

    def dtype_for(self, real: str) -> str:
        """
        :param real: name of the type of arrays that are "real"
        :return: name of the type of this one
        """
        if self.dtype == "state":
            return "float32" if real in _HALF_TYPES else real
        return real if self.dtype == "real" else self.dtype

    def match(self, shape: Sequence[int], known: dict[str, int], *, where: str) -> None:
        """
        :param shape: of an array
        :param known: sizes by name, to which those are added that follow
        :param where: for the error message
        :raises UserError: if the shape does not fit
        """
        if self.optional and 0 in shape:
            return
        fits = len(shape) == len(self.dims)
        for dim, size in zip(self.dims, shape, strict=False):
            if dim.name and dim.name not in known and size >= dim.plus and (size - dim.plus) % dim.factor == 0:
                known[dim.name] = (size - dim.plus) // dim.factor
            fits = fits and (not dim.name or dim.name in known) and dim.value(known) == size
        if not fits:
            dims = ", ".join(map(str, self.dims))
            sizes = ", ".join(f"{name} = {size}" for name, size in known.items())
            raise UserError(
                f"{where}: {self.name} has the shape {tuple(shape)}, but [{dims}] is expected"
                f"{f', with {sizes}' if sizes else ''}."
            )


@dataclass(frozen=True)
class Signature:
    """What goes into a kernel and comes out."""

    inputs: tuple[ArraySpec, ...]
    options: dict[str, str]  # name -> bool, int, float
    outputs: tuple[ArraySpec, ...]


def parse_signature(text: str) -> Signature:
    """:return: what the text says"""
    given, results = text.split("->")
    inputs, _, options = given.partition(";")
    named = (option.split(":") for option in options.split(",") if option.strip())
    return Signature(
        inputs=tuple(map(_array, _ARRAY.finditer(inputs))),
        options={name.strip(): kind.strip() for name, kind in named},
        outputs=tuple(map(_array, _ARRAY.finditer(results))),
    )


def _array(match: re.Match[str]) -> ArraySpec:
    dims = tuple(map(_dim, _DIM.finditer(match["dims"])))
    return ArraySpec(name=match["name"], dtype=match["type"], dims=dims, optional=bool(match["optional"]))


def _dim(match: re.Match[str]) -> DimExpression:
    if match["number"]:
        return DimExpression("", 0, int(match["number"]))
    return DimExpression(match["name"], int(match["factor"] or 1), int(match["plus"] or 0))
