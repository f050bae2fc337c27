"""
Arithmetic on dims: `time * 2 + 1`, `time.ceildiv_right(3)`.

The result is a dim whose lengths follow from the operands. Its normal form is in `returnn.tensor.dim_math`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from returnn.tensor import dim_math
from returnn.tensor.dim_comparison import same_as_version
from returnn.tensor.dim_types import DimKind
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from returnn.tensor.dim import Dim

    Operand: TypeAlias = Dim | int

_derived_dims: WeakValueDictionary[Any, Any] = WeakValueDictionary()  # key of expression -> Dim


class DimArithmetic:
    """The part of `Dim` that computes."""

    size: int | None
    dyn_size_ext: Any
    derived_from_tag: Dim | None
    kind: DimKind | None
    auto_generated: bool
    special: bool
    _expression: dim_math.Sum | None
    _same_as: Any

    @property
    def expression(self: Dim) -> dim_math.Sum:
        """The dim as expression over dims which were not computed, in normal form."""
        return _expression_of(self.get_same_base())

    def is_derived(self: Dim) -> bool:
        """:return: whether the dim was computed from others"""
        return self.get_same_base()._expression is not None

    @property
    def derived_from_op(self: Dim) -> dim_math.Sum | None:
        """The expression that it was computed by, None if it was not computed."""
        return self.expression if self.is_derived() else None

    def get_derived_bases_set(self: Dim) -> set[Dim]:
        """:return: all dims which this one was computed from, directly or not, and itself"""
        bases = {self, self.get_same_base()}
        todo = [self.get_same_base()]
        while todo:
            dim = todo.pop()
            sources = [*dim.expression.atoms(), *([dim.derived_from_tag] if dim.derived_from_tag else [])]
            todo += [source for source in sources if source not in bases]
            bases.update(sources)
        return bases

    def get_same_derived_base(self: Dim, *, same_dim: bool = False) -> Dim:
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

    def derive_from(self: Dim, base: Dim, *, set_derived_from_flag: bool = True) -> None:
        """
        Takes what is missing here (kind, lengths) from the dim that this one comes from.

        :param base: the dim that this one comes from
        :param set_derived_from_flag: whether `derived_from_tag` notes it
        """
        if set_derived_from_flag and self.derived_from_tag is None and base != self:
            self.derived_from_tag = base
        if self.kind is None:
            self.kind = base.kind
        if self.size is None and self.dyn_size_ext is None and base.dyn_size_ext is not None:
            self.dyn_size_ext = base.dyn_size_ext.copy_template()

    def declare_same_as(self: Dim, other: Dim) -> None:
        """
        From now on, this dim equals `other`, and what is known of one is known of both.

        :raises DimError: if both are static, of different sizes, or one is the other plus a number
        """
        a, b = self.get_same_base(), other.get_same_base()
        if a is b or a.key == b.key:
            return
        _check_can_be_same(a, b)
        if _is_replaced_by_other(b, a):
            a, b = b, a
        lengths_a, lengths_b = a.dyn_size_ext, b.dyn_size_ext
        a._same_as = b
        same_as_version[0] += 1
        _remember(a)
        b._same_dims += [weakref.ref(a), *a._same_dims]
        known = next((dim for dim in (b, a) if dim.kind is not None), b)
        for dim in [b, *(dim for ref in b._same_dims if (dim := ref()) is not None)]:
            dim.size = dim.size if b.size is None else b.size
            dim.kind = known.kind if dim.kind is None else dim.kind
            dim.vocab = (b.vocab or a.vocab) if dim.vocab is None else dim.vocab
        if b.size is None and lengths_a is not None and (lengths_b is None or lengths_b.raw_tensor is None):
            b.dyn_size_ext = lengths_a

    def __add__(self: Dim, other: Operand) -> Dim:
        return _derive(dim_math.add, self, other)

    def __radd__(self: Dim, other: Operand) -> Dim:
        return _derive(dim_math.add, other, self)

    def __sub__(self: Dim, other: Operand) -> Dim:
        return self.sub_right(other)

    def sub_right(self: Dim, other: Operand) -> Dim:
        """:return: self without `other` frames at its end"""
        return _derive(dim_math.sub_right, self, other)

    def sub_left(self: Dim, other: Operand) -> Dim:
        """:return: self without `other` frames at its beginning"""
        return _derive(dim_math.sub_left, self, other)

    def __neg__(self: Dim) -> Dim:
        return _derive(lambda x, _: dim_math.neg(x), self, 0)

    def __mul__(self: Dim, other: Operand) -> Dim:
        return _derive(dim_math.mul, self, other)

    def __rmul__(self: Dim, other: Operand) -> Dim:
        return _derive(dim_math.mul, other, self)

    def __floordiv__(self: Dim, other: Operand) -> Dim:
        return _derive(dim_math.floordiv, self, other)

    def __truediv__(self: Dim, other: Operand) -> Dim:
        return self.div_right(other)

    def div_right(self: Dim, other: Operand) -> Dim:
        """:return: self / other, where `other` is an inner factor and the division exact"""
        return _derive(dim_math.truediv, self, other)

    def div_left(self: Dim, other: Operand) -> Dim:
        """:return: self / other, where `other` is an outer factor and the division exact"""
        return _derive(dim_math.truediv, self, other)

    def ceildiv_right(self: Dim, other: Operand) -> Dim:
        """:return: self / other, rounded up"""
        return _derive(dim_math.ceildiv, self, other)

    def ceildiv_left(self: Dim, other: Operand) -> Dim:
        """:return: self / other, rounded up, where `other` is an outer factor"""
        return _derive(dim_math.ceildiv, self, other)


def _check_can_be_same(a: Dim, b: Dim) -> None:
    if a.size is not None and b.size is not None and a.size != b.size:
        raise DimError(f"dim {a} cannot be the same as {b}: their sizes are {a.size} and {b.size}.")
    difference = dim_math.sub_right(a.expression, b.expression).as_constant()
    if difference and None in (a.size, b.size):
        raise DimError(f"dim {a} cannot be the same as {b}: their sizes differ by {abs(difference)}.")


def _is_replaced_by_other(dim: Dim, other: Dim) -> bool:
    """
    :return: of two dims that become the same, whether `other` is the one that stays. A number stays a number. What was
        computed from other dims stays so, and its lengths follow from them, unless it was computed from the dim itself.
    """
    if dim.is_permanent or other.is_permanent:
        return other.is_permanent
    if (dim.size is None) != (other.size is None):
        return other.size is not None
    if any(atom is dim for atom in other.expression.atoms()):
        return False
    if any(atom is other for atom in dim.expression.atoms()):
        return True
    return other.is_derived() and not dim.is_derived()


def _remember(dim: Dim) -> None:
    """Keeps a computed dim for as long as it can be computed again, so that what was declared about it stays known."""
    if dim._expression is not None:
        for atom in dim._expression.atoms():
            atom._computed_dims.append(dim)
            return


def _expression_of(base: Dim) -> dim_math.Sum:
    if base._expression is None:
        if base.size is not None and base.auto_generated:
            return dim_math.constant(base.size)
        return dim_math.atom(base)

    def replace(dim: Dim) -> dim_math.Sum | None:
        other = dim.get_same_base()
        return _expression_of(other) if other is not dim or other._expression is not None else None

    return dim_math.substitute(base._expression, replace)


def _derive(operation: Callable[[dim_math.Sum, dim_math.Sum], dim_math.Sum], left: Operand, right: Operand) -> Dim:
    """
    :return: the dim for `operation(left, right)`; the same object for the same expression
    :raises DimError: if an operand is neither a dim nor a number, or a marker, or the result is a negative number
    """
    operands = [_check_operand(x) for x in (left, right)]
    dims = [x for x in operands if not isinstance(x, int)]
    expression = operation(*(dim_math.constant(x) if isinstance(x, int) else x.expression for x in operands))
    single = expression.as_atom()
    if single is not None:
        return next((d for d in dims if d.get_same_base() is single), single)
    kind = _common_kind([dim.kind for dim in dims])
    auto_generated = expression.as_constant() is not None or (
        all(dim.auto_generated for dim in expression.atoms())
        and all(dim.auto_generated for dim in dims if dim.is_static() and not dim.is_derived())
    )
    cache_key = (expression, kind, auto_generated)
    known = _derived_dims.get(cache_key)
    if known is not None:
        return known
    size = (
        dim_math.evaluate(expression, lambda d: d.size) if all(d.size is not None for d in expression.atoms()) else None
    )
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


def _check_operand(x: Operand) -> Operand:
    if isinstance(x, bool) or not (isinstance(x, (int, DimArithmetic))):
        raise DimError(f"dim arithmetic: expected a dim or a number, got {x!r} of type {type(x).__name__}.")
    if isinstance(x, DimArithmetic) and x.special:
        raise DimError(f"dim arithmetic: {x} is a marker, not an axis with a size.")
    return x


def _common_kind(kinds: list[DimKind | None]) -> DimKind | None:
    for kind in (DimKind.Batch, DimKind.Feature, DimKind.Spatial, DimKind.Beam):
        if kind in kinds:
            return kind
    return None
