"""Operations which change dims and keep values: merge, split, reshape, concatenate, pad, slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor


class ShapeOps:
    """Operations on axes in memory. What becomes of the lengths of sequences is up to the functions which call them."""

    @staticmethod
    def merge_dims(source: Tensor, *, dims: Sequence[Dim], out_dim: Dim) -> tuple[Tensor, Dim]:
        """:return: source with `out_dim` for all of `dims`, the first one outermost; `out_dim`"""
        raise NotImplementedError

    @staticmethod
    def split_dims(
        source: Tensor,
        *,
        axis: Dim,
        dims: Sequence[Dim],
        pad_to_multiples: bool | None = None,
        pad_value: Any = None,
    ) -> Tensor:
        """
        :param source: {..., axis}
        :param axis: to split
        :param dims: the new dims, the first one outermost
        :param pad_to_multiples: whether `axis` may be shorter than the product of the dims, and is padded first
        :param pad_value: with this number; default 0
        """
        raise NotImplementedError

    @staticmethod
    def reshape(source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim]) -> Tensor:
        """:return: source with `out_dims` for `in_dims`, the values in the order of `in_dims`"""
        raise NotImplementedError

    @staticmethod
    def replace_dim(source: Tensor, *, in_dim: Dim, out_dim: Dim) -> Tensor:
        """:return: source with `out_dim` for `in_dim`, the values as they are; both have the same size in memory"""
        raise NotImplementedError

    @staticmethod
    def set_sparse_dim(source: Tensor, sparse_dim: Dim | None) -> Tensor:
        """:return: source, whose values are indices into `sparse_dim`"""
        raise NotImplementedError

    @staticmethod
    def concat(*sources: tuple[Tensor, Dim], allow_broadcast: bool = False, out_dim: Dim) -> Tensor:
        """
        :param sources: tensors, each with its dim along which it is concatenated
        :param allow_broadcast: a source may lack some of the other dims; its values are repeated there
        :param out_dim: for these dims
        """
        raise NotImplementedError

    @staticmethod
    def split(source: Tensor, *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
        """:return: pieces of source along `axis`, of the sizes of `out_dims`"""
        raise NotImplementedError

    @staticmethod
    def stack(sources: Sequence[Tensor], *, out_dim: Dim) -> Tensor:
        """:return: all sources behind each other along the new dim"""
        raise NotImplementedError

    @staticmethod
    def unstack(source: Tensor, *, axis: Dim) -> tuple[Tensor, ...]:
        """:return: the entries of the static `axis`"""
        raise NotImplementedError

    @staticmethod
    def pad(
        source: Tensor,
        *,
        axes: Sequence[Dim],
        padding: Sequence[tuple[Dim | int, Dim | int]],
        out_dims: Sequence[Dim],
        handle_dynamic_dims: bool,
        mode: str = "constant",
        value: Any = None,
    ) -> Tensor:
        """
        :param source: {..., axes...}
        :param axes: to pad
        :param padding: for each of them, the number of frames before and behind
        :param out_dims: for the axes
        :param handle_dynamic_dims: whether frames come right behind the end of each sequence
        :param mode: "constant", "reflect", "symmetric", "replicate", "circular"
        :param value: for "constant"; default 0
        """
        raise NotImplementedError

    @staticmethod
    def slice(
        source: Tensor,
        *,
        axis: Dim,
        start: Any = None,
        end: Any = None,
        step: Any = None,
        size: Any = None,
        out_dim: Dim,
    ) -> Tensor:
        """:return: the frames `start`, `start + step`, ... before `end` (a Dim: its size) of the axis in memory"""
        raise NotImplementedError

    @staticmethod
    def flip_no_mask(source: Tensor, *, axis: Dim) -> Tensor:
        """:return: source with the frames in memory in reverse order, also those beyond the ends of the sequences"""
        raise NotImplementedError
