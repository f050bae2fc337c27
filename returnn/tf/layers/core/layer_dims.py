"""
The dims that layers make. `compute` of a layer runs several times: on templates, on values, for one frame and for all.
Each time it has to give the same dims, so they are kept here, by layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from returnn.tensor import Dim, Tensor

_FactT = TypeVar("_FactT")


@dataclass(frozen=True)
class Description:
    """What a layer asked for, so that it means the same dims in all runs."""

    option: str | None  # of the layer
    axes: tuple[str | int, ...]  # such as "T"
    number: int  # it is asked for that many times before, e.g. of another source


@dataclass
class LayerDims:
    """Dims of one layer."""

    new: dict[tuple[str, int | None], Dim] = field(default_factory=dict)  # by what they are for, and size
    described: dict[Description, list[Dim]] = field(default_factory=dict)
    of_out_type: dict[tuple[Dim, ...], list[Dim]] = field(default_factory=dict)  # what a function gave, by the input's
    lengths_of: Dim | None = None  # whose lengths the output is

    def made(self, key: str, size: int | None, make: Callable[[], Dim]) -> Dim:
        """
        :param key: what it is for
        :param size: None if dynamic
        :param make: called the first time
        """
        if (key, size) not in self.new:
            self.new[key, size] = make()
        return self.new[key, size]


class DimsOfLayers:
    """Dims of all layers of a network and of the networks inside, and what is known of such dims."""

    def __init__(self) -> None:
        self._layers: dict[str, LayerDims] = {}
        self._facts: dict[tuple[type, Dim], object] = {}

    def of(self, layer: str) -> LayerDims:
        """:return: dims of the layer with this absolute name"""
        return self._layers.setdefault(layer, LayerDims())

    def note(self, dim: Dim, fact: object) -> None:
        """:param fact: what is known of this dim now; there is one of each type"""
        self._facts[type(fact), dim] = fact

    def find(self, dim: Dim, kind: type[_FactT]) -> _FactT | None:
        """:return: what is known of this dim, None if nothing"""
        fact = self._facts.get((kind, dim))
        assert fact is None or isinstance(fact, kind)
        return fact


@dataclass(frozen=True)
class InPlaceOf:
    """What is known of a dim: it has the same frames as this one, with lengths over other dims."""

    dim: Dim


def dim_in_place_of(dims: DimsOfLayers, dim: Dim, source: Tensor) -> Dim:
    """:return: the dim of the source with the frames of this dim, if the source has one, or else this dim"""
    if dim in source.dims:
        return dim
    return next((own for own in source.dims if dim in originals_of(dims, own)), dim)


def originals_of(dims: DimsOfLayers, dim: Dim | None) -> list[Dim]:
    """:return: the dims with the same frames which this one is in place of, the last one first"""
    found = []
    while dim is not None and (fact := dims.find(dim, InPlaceOf)) is not None:
        dim = fact.dim
        found.append(dim)
    return found
