"""
Dims of which each hypothesis has lengths of its own, such as the labels that a search has found.

For hypotheses of a later beam, which continue these, the lengths are those of what each one continues. So a tensor
with such a dim gets another dim in its place: the same one for the same dim and beam, that all tensors agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from returnn.tensor import Dim, Tensor, dim_math


def beam_of_lengths(dim: Dim) -> Dim | None:
    """:return: the beam whose hypotheses have lengths of their own; None if they have not"""
    lengths = None if dim.size is not None or dim.is_batch_dim() else dim.dyn_size_ext
    return None if lengths is None else next((other for other in lengths.dims if other.is_beam_dim()), None)


class DimsOfHypotheses:
    """All such dims of a network, and what they are for other beams."""

    def __init__(self) -> None:
        self._by_beam: dict[tuple[Dim, Dim], Dim] = {}  # by the first one, and the beam
        self._first: dict[Dim, tuple[Dim, Dim]] = {}  # of each: the first one, with its beam

    def for_beam(self, dim: Dim, beam: Dim) -> Dim:
        """
        :param dim: with lengths for each hypothesis
        :param beam: another one
        :return: the dim that hypotheses of that beam have in its place. Its lengths may not be known yet
        """
        own = beam_of_lengths(dim)
        if own is None or own == beam:
            return dim
        if dim.is_derived():
            derived: Dim = dim_math.evaluate(dim.expression, lambda atom: self.for_beam(atom, beam))
            return derived
        first, first_beam = self._first.setdefault(dim, (dim, own))
        self._by_beam.setdefault((first, first_beam), first)
        if (first, beam) not in self._by_beam:
            # In memory, all are as long as the first one, whichever hypotheses are left.
            new = Dim(None, name=f"{first.name}:{beam.name}", kind=first.kind, bounded_by=first)
            self._by_beam[first, beam] = new
            self._first[new] = first, first_beam
        return self._by_beam[first, beam]

    def of_beam(self, beam: Dim) -> Iterator[tuple[Dim, Dim, Dim]]:
        """:yield: dims whose lengths follow from another one: it, that one, and the beam of that one"""
        for (first, other), dim in self._by_beam.items():
            if other == beam and dim is not first:
                yield dim, first, self._first[dim][1]


def with_dims(x: Tensor, replace: Callable[[Dim], Dim]) -> Tensor:
    """
    :param x: perhaps a template
    :param replace: function from a dim to the one in its place, which has the same size in memory
    :return: x with other dims, also as what its values are indices into
    """
    for axis, dim in enumerate(x.dims):
        new = replace(dim)
        if new is not dim:
            raw, x = x.raw_tensor, x.copy_template_replace_dim_tag(axis, new)
            if raw is not None:
                x.raw_tensor = raw
    if x.sparse_dim is not None and (new := replace(x.sparse_dim)) is not x.sparse_dim:
        x = x.copy_with_roles(sparse_dim=new)
    return x
