"""Which dims are equal, strictly (`==`) and under the looser rules that look-ups by old configs need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from returnn.tensor.dim_types import DimKind

if TYPE_CHECKING:
    from returnn.tensor.dim import Dim
    from returnn.tensor.tensor import Tensor


class DimComparison:
    """The part of `Dim` that compares."""

    size: int | None
    special: bool
    undefined: bool
    _key_cache: tuple[int, Any]  # the version that the key is of; the key

    @property
    def key(self: Dim) -> Any:
        """Two dims are equal if and only if their keys are."""
        if self._key_cache[0] != same_as_version[0]:
            self._key_cache = same_as_version[0], _key_of_base(self.get_same_base())
        return self._key_cache[1]

    def __eq__(self: Dim, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, DimComparison):
            return False
        a, b = self._key_cache, other._key_cache
        if a[0] == b[0] == same_as_version[0]:  # most often; a property costs as much as all the rest
            return bool(a[1] == b[1])
        return bool(self.key == other.key)

    def __ne__(self: Dim, other: object) -> bool:
        return not self == other

    def __hash__(self: Dim) -> int:
        return hash(self.key)

    def __lt__(self: Dim, other: Dim) -> bool:
        """An order by name and size, so that a set of dims can be sorted in a way that does not change."""
        return NotImplemented if not isinstance(other, DimComparison) else _order_key(self) < _order_key(other)

    def __gt__(self: Dim, other: Dim) -> bool:
        return NotImplemented if not isinstance(other, DimComparison) else _order_key(self) > _order_key(other)

    def __le__(self: Dim, other: Dim) -> bool:
        return NotImplemented if not isinstance(other, DimComparison) else self == other or self < other

    def __ge__(self: Dim, other: Dim) -> bool:
        return NotImplemented if not isinstance(other, DimComparison) else self == other or self > other

    def is_equal(
        self: Dim,
        other: Dim,
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
        feature = _both(DimKind.Feature, self, other)
        spatial = _both(DimKind.Spatial, self, other)
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
        cls, other: Dim, tags: Collection[Dim], is_equal_opts: dict[str, Any] | None = None
    ) -> Dim | None:
        """:return: the first of `tags` which is equal to `other`; strictly equal ones go first"""
        for tag in tags:
            if tag == other:
                return tag
        return next((tag for tag in tags if tag.is_equal(other, **(is_equal_opts or {}))), None)

    @classmethod
    def get_uniq_collection(cls, tags: Collection[Dim], is_equal_opts: dict[str, Any] | None = None) -> list[Dim]:
        """:return: `tags` without repetitions, in order"""
        unique: list[Dim] = []
        for tag in tags:
            if cls.get_existing_tag_from_collection(tag, unique, is_equal_opts) is None:
                unique.append(tag)
        return unique

    @classmethod
    def get_all_dimension_tags(
        cls,
        data_list: Sequence[Tensor],
        is_equal_opts: dict[str, Any] | None = None,
        unique_separate_axes: bool = True,
    ) -> tuple[list[Dim], dict[Tensor, list[Dim]]]:
        """
        :param data_list: tensors
        :param is_equal_opts: for `is_equal`
        :param unique_separate_axes: two axes of one tensor stay two dims, even if `is_equal_opts` would make them equal
        :return: all dims of the tensors; and for each tensor the ones that stand for its axes
        """
        tags: list[Dim] = []
        tags_of_data: dict[Tensor, list[Dim]] = {}
        for data in data_list:
            found: list[Dim] = []
            for dim in data.dims:
                candidates = [tag for tag in tags if tag not in found] if unique_separate_axes else tags
                tag = cls.get_existing_tag_from_collection(dim, candidates, is_equal_opts)
                if tag is None:
                    tag = dim
                    tags.append(dim)
                found.append(tag)
            tags_of_data[data] = found
        return tags, tags_of_data


same_as_version = [0]  # counts the calls of `declare_same_as`, which can change the key of any dim


def _key_of_base(base: Dim) -> Any:
    """:return: for a dim which was not computed an object of its own, as this is what is compared fastest"""
    if base.size is not None and base.auto_generated:
        return "number", base.size, base.kind
    if base._expression is None:
        return base._token
    single = base.expression.as_atom()
    return base.expression if single is None else single.key


def _both(kind: DimKind, a: Dim, b: Dim) -> bool:
    return a.kind is kind and b.kind is kind


def _order_key(dim: Dim) -> tuple[str, int, str, int]:
    return dim.name or "", -1 if dim.size is None else dim.size, dim.short_repr(), dim.match_priority
