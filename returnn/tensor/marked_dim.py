"""Marks on dims, as they stand in a promise about the dims of a tensor (`out_shape`)."""

from __future__ import annotations

from returnn.tensor.dim import Dim


class MarkedDim:
    """A dim with a mark; which one, the class says."""

    def __init__(self, tag: Dim) -> None:
        self.tag = tag

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tag!r})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, MarkedDim) and self.tag == other.tag

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), self.tag))

    def __lt__(self, other: MarkedDim) -> bool:
        """An order by class and dim, so that a set of them can be sorted in a way that does not change."""
        return (type(self).__name__, self.tag) < (type(other).__name__, other.tag)

    def __gt__(self, other: MarkedDim) -> bool:
        return other < self

    def __le__(self, other: MarkedDim) -> bool:
        return self == other or self < other

    def __ge__(self, other: MarkedDim) -> bool:
        return self == other or self > other


class ImplicitDim(MarkedDim):
    """The tensor has no such axis, but its content depends on it."""


class ImplicitSparseDim(ImplicitDim):
    """The dim of the labels of a sparse tensor."""


class ImplicitDynSizeDim(ImplicitDim):
    """A dim which the lengths of some axis depend on."""


class OptionalDim(MarkedDim):
    """The tensor may have this dim, or not."""
