"""
Arithmetic on dims: `time * 2 + 1`, `time.ceildiv_right(3)`.

The result is a dim whose lengths follow from the operands. Its normal form is in `returnn.tensor.dim_math`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from returnn.tensor import dim_math
from returnn.tensor.dim_lengths import DimLengths
from returnn.tensor.dim_types import DimKind
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from typing_extensions import Self

D = TypeVar("D", bound="DimArithmetic")
Operation: TypeAlias = Callable[[dim_math.Sum, dim_math.Sum], dim_math.Sum]
_derived_dims: WeakValueDictionary[Any, Any] = WeakValueDictionary()  # key of expression -> Dim


class DimArithmetic(DimLengths):
    """The floor of `Dim` that computes."""

    def get_derived_bases_set(self) -> set[Self]:
        """:return: all dims which this one was computed from, directly or not, and itself"""
        bases = {self, self.get_same_base()}
        todo = [self.get_same_base()]
        while todo:
            dim = todo.pop()
            sources = [*dim.expression.atoms(), *([dim.derived_from_tag] if dim.derived_from_tag else [])]
            todo += [source for source in sources if source not in bases]
            bases.update(sources)
        return bases

    def get_same_derived_base(self, *, same_dim: bool = False) -> Self:
        """
        :param same_dim: only go on while the size stays the same
        :return: the first dim which this one was computed from, and so on; itself if it was not computed
        """
        dim = self.get_same_base()
        while True:
            source = dim.derived_from_tag or next((d for d in dim.expression.atoms() if d is not dim), None)
            if source is None or (same_dim and source.size != dim.size):
                return dim
            dim = source.get_same_base()

    def axis_split_info(self) -> list[Self | int]:
        """:return: the factors of the dim if it is a product (as of merged axes), otherwise just itself"""
        terms = self.expression.terms
        if len(terms) != 1 or len(terms[0].factors) < 2:
            return [self]
        dims = [factor.dim for factor in terms[0].factors if isinstance(factor, dim_math.Atom)]
        if len(dims) != len(terms[0].factors):
            return [self]
        coefficient = terms[0].coefficient
        return [*([coefficient] if coefficient != 1 else []), *dims]

    def __add__(self, other: Self | int) -> Self:
        return _derive(dim_math.add, self, other)

    def __radd__(self, other: Self | int) -> Self:
        return _derive(dim_math.add, other, self)

    def __sub__(self, other: Self | int) -> Self:
        return self.sub_right(other)

    def sub_right(self, other: Self | int) -> Self:
        """:return: self without `other` frames at its end"""
        return _derive(dim_math.sub_right, self, other)

    def sub_left(self, other: Self | int) -> Self:
        """:return: self without `other` frames at its beginning"""
        return _derive(dim_math.sub_left, self, other)

    def __neg__(self) -> Self:
        return _derive(lambda x, _: dim_math.neg(x), self, 0)

    def __mul__(self, other: Self | int) -> Self:
        return _derive(dim_math.mul, self, other)

    def __rmul__(self, other: Self | int) -> Self:
        return _derive(dim_math.mul, other, self)

    def __floordiv__(self, other: Self | int) -> Self:
        return _derive(dim_math.floordiv, self, other)

    def __truediv__(self, other: Self | int) -> Self:
        return self.div_right(other)

    def div_right(self, other: Self | int) -> Self:
        """:return: self / other, where `other` is an inner factor and the division exact"""
        return _derive(dim_math.truediv, self, other)

    def div_left(self, other: Self | int) -> Self:
        """:return: self / other, where `other` is an outer factor and the division exact"""
        return _derive(dim_math.truediv, self, other)

    def ceildiv_right(self, other: Self | int) -> Self:
        """:return: self / other, rounded up"""
        return _derive(dim_math.ceildiv, self, other)

    def ceildiv_left(self, other: Self | int) -> Self:
        """:return: self / other, rounded up, where `other` is an outer factor"""
        return _derive(dim_math.ceildiv, self, other)


def _derive(operation: Operation, left: D | int, right: D | int) -> D:
    """
    :return: the dim for `operation(left, right)`; the same object for the same expression
    :raises DimError: if an operand is neither a dim nor a number, or a marker, or the result is a negative number
    """
    operands = [_check_operand(x) for x in (left, right)]
    dims = [x for x in operands if not isinstance(x, int)]
    expression = operation(*(dim_math.constant(x) if isinstance(x, int) else x.expression for x in operands))
    single: D | None = expression.as_atom()
    if single is not None:
        return next((d for d in dims if d.get_same_base() is single), single)
    kind = _choose_kind([dim.kind for dim in dims])
    auto_generated = expression.as_constant() is not None or (
        all(dim.auto_generated for dim in expression.atoms())
        and all(dim.auto_generated for dim in dims if dim.is_static() and not dim.is_derived())
    )
    cache_key = (expression, kind, auto_generated)
    known: D | None = _derived_dims.get(cache_key)
    if known is not None:
        return known
    has_size = all(d.size is not None for d in expression.atoms())
    size = dim_math.evaluate(expression, lambda d: d.size) if has_size else None
    # A negated dim stands for itself only until it is added to another one, so it may be negative.
    result = type(dims[0])(
        None if size is not None and size < 0 else size,
        kind=kind,
        auto_generated=auto_generated,
        derived_from_tag=dims[0],
        _expression=expression,
    )
    _derived_dims[cache_key] = result
    return result


def _check_operand(x: D | int) -> D | int:
    if isinstance(x, bool) or not (isinstance(x, (int, DimArithmetic))):
        raise DimError(f"dim arithmetic: expected a dim or a number, got {x!r} of type {type(x).__name__}.")
    if isinstance(x, DimArithmetic) and x.special:
        raise DimError(f"dim arithmetic: {x} is a marker, not an axis with a size.")
    return x


def _choose_kind(kinds: list[DimKind | None]) -> DimKind | None:
    for kind in (DimKind.Batch, DimKind.Feature, DimKind.Spatial, DimKind.Beam):
        if kind in kinds:
            return kind
    return None
