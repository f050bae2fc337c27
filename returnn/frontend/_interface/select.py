"""Operations which pick values, by index, by mask, by order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor


class SelectOps:
    """Operations which pick values."""

    @staticmethod
    def gather(source: Tensor, *, indices: Tensor | int, axis: Dim, clip_to_valid: bool = False) -> Tensor:
        """
        :param source: {batch..., axis, ...}
        :param indices: {batch..., new...}, each below the size of `axis` in memory; or a number
        :param axis: which the indices are into
        :param clip_to_valid: bring the indices into the range of the sequence; in an empty one, anything can come out
        :return: [batch..., (dims of source before axis), new..., (dims of source behind axis)]
        """
        raise NotImplementedError

    @staticmethod
    def scatter(
        source: Tensor,
        *,
        indices: Tensor,
        indices_dim: Dim | Sequence[Dim],
        mode: str,
        fill_value: Any,
        out_dim: Dim | Sequence[Dim],
    ) -> Tensor:
        """
        :param source: {batch..., indices_dim..., ...}
        :param indices: {batch..., indices_dim...}; what has a negative index is left out
        :param indices_dim: the dims to reduce over
        :param mode: "sum", "max", "min"
        :param fill_value: where there is no index
        :param out_dim: which the indices are into; if several, into all of them merged
        :return: [batch..., out_dim..., (other dims of source)]
        """
        raise NotImplementedError

    @staticmethod
    def masked_select(
        tensor: Tensor, *, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """
        :param tensor: {dims..., ...}
        :param mask: {dims...}, bool
        :param dims: in this order
        :param out_dim: for `dims`; gets a size
        :return: [out_dim, ...], with what is true in the mask; out_dim
        """
        raise NotImplementedError

    @staticmethod
    def masked_scatter(
        source: Tensor, backup: Tensor | None = None, *, mask: Tensor, dims: Sequence[Dim], in_dim: Dim
    ) -> Tensor:
        """
        :param source: {in_dim, ...}
        :param backup: {dims..., ...}, for what is false in the mask; default 0
        :param mask: {dims...}, bool
        :param dims: in this order
        :param in_dim: the frames to put where the mask is true
        :return: [dims..., ...]
        """
        raise NotImplementedError

    @staticmethod
    def search_sorted(
        sorted_seq: Tensor, values: Tensor, *, axis: Dim, side: str = "left", out_dtype: str = "int32"
    ) -> Tensor:
        """See `returnn.frontend.search_sorted`."""
        raise NotImplementedError

    @staticmethod
    def sort(source: Tensor, *, axis: Dim, descending: bool, stable: bool) -> tuple[Tensor, Tensor]:
        """See `returnn.frontend.sort`. All frames in memory count."""
        raise NotImplementedError

    @staticmethod
    def top_k(
        source: Tensor, *, axis: Dim | Sequence[Dim], k: int | Tensor, k_dim: Dim | None = None, sorted: bool = True
    ) -> tuple[Tensor, Tensor | Sequence[Tensor], Dim]:
        """See `returnn.frontend.top_k`. All frames in memory count."""
        raise NotImplementedError
