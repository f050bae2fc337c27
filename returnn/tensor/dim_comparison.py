"""Which dims are the same by declaration, and which are equal under the looser rules that old configs need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from returnn.tensor import dim_math
from returnn.tensor.dim_arithmetic import DimArithmetic
from returnn.tensor.dim_base import DimBase
from returnn.tensor.dim_types import DimKind
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from typing_extensions import Self


class HasDims(Protocol):
    """A tensor."""

    @property
    def dims(self) -> Sequence[Any]:
        """Its axes."""

    def __hash__(self) -> int: ...


H = TypeVar("H", bound=HasDims)


class DimComparison(DimArithmetic):
    """The floor of `Dim` that compares."""

    def declare_same_as(self, other: Self) -> None:
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
        a._become(b)
        known = next((dim for dim in (b, a) if dim.kind is not None), b)
        for dim in b._list_same_dims():
            dim.size = dim.size if b.size is None else b.size
            dim.kind = known.kind if dim.kind is None else dim.kind
            dim.vocab = (b.vocab or a.vocab) if dim.vocab is None else dim.vocab
        if b.size is None and lengths_a is not None and (lengths_b is None or lengths_b.raw_tensor is None):
            b.dyn_size_ext = lengths_a

    def __lt__(self, other: Self) -> bool:
        """An order by name and size, so that a set of dims can be sorted in a way that does not change."""
        return NotImplemented if not isinstance(other, DimBase) else _order_key(self) < _order_key(other)

    def __gt__(self, other: Self) -> bool:
        return NotImplemented if not isinstance(other, DimBase) else _order_key(self) > _order_key(other)

    def __le__(self, other: Self) -> bool:
        return NotImplemented if not isinstance(other, DimBase) else self == other or self < other

    def __ge__(self, other: Self) -> bool:
        return NotImplemented if not isinstance(other, DimBase) else self == other or self > other

    def is_equal(
        self,
        other: Self,
        *,
        ignore_feature_dim: bool = False,
        allow_same_feature_dim: bool = False,
        allow_same_spatial_dim: bool | None = None,
        treat_feature_as_spatial: bool = False,
        broadcast_matches: bool = False,
        unknown_spatial_matches: bool = False,
        undefined_matches: bool = False,
        derived_matches: bool = False,
        allow_old_behavior: bool = False,
    ) -> bool:
        """
        `==`, and each option allows more to be equal.

        :param ignore_feature_dim: two feature dims
        :param allow_same_feature_dim: two feature dims of the same size
        :param allow_same_spatial_dim: two spatial dims of the same fixed size; None: like `allow_same_feature_dim`
        :param treat_feature_as_spatial: feature dims count as spatial, in the other options
        :param broadcast_matches: a dim of size 1 and any other, which it would be broadcast to
        :param unknown_spatial_matches: two spatial dims, if nothing is known about the lengths of one
        :param undefined_matches: a dim that is marked as undefined and any other
        :param derived_matches: two dims that were computed from the same dim
        :param allow_old_behavior: two dynamic spatial dims of which one has no lengths of its own; the rule of configs
            from before dims had names
        """
        if self == other:
            return True
        if self.special or other.special:
            return False
        if allow_same_spatial_dim is None:
            allow_same_spatial_dim = allow_same_feature_dim
        feature = _both_are(DimKind.Feature, self, other)
        spatial = _both_are(DimKind.Spatial, self, other)
        if treat_feature_as_spatial:
            kinds = (DimKind.Spatial, DimKind.Feature)
            spatial = self.kind in kinds and other.kind in kinds
        same_size = self.size is not None and self.size == other.size
        has_unknown = any(d.size is None and d.dyn_size_ext is None for d in (self, other))
        return (
            (ignore_feature_dim and feature)
            or (allow_same_feature_dim and feature and same_size)
            or (allow_same_spatial_dim and spatial and same_size)
            or (broadcast_matches and 1 in (self.size, other.size))
            or ((unknown_spatial_matches or allow_old_behavior) and spatial and not same_size and has_unknown)
            or (undefined_matches and (self.undefined or other.undefined))
            or (derived_matches and self.get_same_derived_base() == other.get_same_derived_base())
        )

    @classmethod
    def get_existing_tag_from_collection(
        cls, other: Self, tags: Collection[Self], is_equal_opts: dict[str, Any] | None = None
    ) -> Self | None:
        """:return: the first of `tags` which is equal to `other`; strictly equal ones go first"""
        for tag in tags:
            if tag == other:
                return tag
        return next((tag for tag in tags if tag.is_equal(other, **(is_equal_opts or {}))), None)

    @classmethod
    def get_uniq_collection(cls, tags: Collection[Self], is_equal_opts: dict[str, Any] | None = None) -> list[Self]:
        """:return: `tags` without repetitions, in order"""
        unique: list[Self] = []
        for tag in tags:
            if cls.get_existing_tag_from_collection(tag, unique, is_equal_opts) is None:
                unique.append(tag)
        return unique

    @classmethod
    def get_all_dimension_tags(
        cls,
        data_list: Sequence[H],
        is_equal_opts: dict[str, Any] | None = None,
        unique_separate_axes: bool = True,
    ) -> tuple[list[Self], dict[H, list[Self]]]:
        """
        :param data_list: tensors
        :param is_equal_opts: for `is_equal`
        :param unique_separate_axes: two axes of one tensor stay two dims, even if `is_equal_opts` would make them equal
        :return: all dims of the tensors; and for each tensor the ones that stand for its axes
        """
        tags: list[Self] = []
        tags_of_data: dict[H, list[Self]] = {}
        for data in data_list:
            found: list[Self] = []
            for dim in data.dims:
                candidates = [tag for tag in tags if tag not in found] if unique_separate_axes else tags
                tag = cls.get_existing_tag_from_collection(dim, candidates, is_equal_opts)
                if tag is None:
                    tag = dim
                    tags.append(dim)
                found.append(tag)
            tags_of_data[data] = found
        return tags, tags_of_data


def _check_can_be_same(a: DimBase, b: DimBase) -> None:
    if a.size is not None and b.size is not None and a.size != b.size:
        raise DimError(f"dim {a} cannot be the same as {b}: their sizes are {a.size} and {b.size}.")
    difference = dim_math.sub_right(a.expression, b.expression).as_constant()
    if difference and None in (a.size, b.size):
        raise DimError(f"dim {a} cannot be the same as {b}: their sizes differ by {abs(difference)}.")


def _is_replaced_by_other(dim: DimBase, other: DimBase) -> bool:
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


def _both_are(kind: DimKind, a: DimBase, b: DimBase) -> bool:
    return a.kind is kind and b.kind is kind


def _order_key(dim: DimBase) -> tuple[str, int, str, int]:
    return dim.name or "", -1 if dim.size is None else dim.size, dim.short_repr(), dim.match_priority
