"""
Encodings of positions: sinusoidal (Vaswani et al. 2017, section 3.5), relative (Dai et al. 2019), and learned
ones (Shaw et al. 2018).
"""

from __future__ import annotations

import math

from returnn.frontend import init
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._ranges import positions
from returnn.frontend.array_ import cast, concat, convert_to_tensor, gather
from returnn.frontend.dims import range_over_dim, set_sparse_dim
from returnn.frontend.dtype import get_default_float_dtype
from returnn.frontend.math_ import clip_by_value, combine_bc, cos, exp, sin
from returnn.frontend.module import Module
from returnn.frontend.parameter import Parameter
from returnn.tensor import Dim, Tensor, single_step_dim
from returnn.tensor.dim_rules import padded_dim
from returnn.util.errors import DimError


def sinusoidal_encoding(indices: Tensor, *, feat_dim: Dim, base: int | float = 1e4, dtype: str | None = None) -> Tensor:
    """
    :param indices: {...}, positions
    :param feat_dim: of even size n
    :param base: the wavelengths go from 2 pi to almost base * 2 pi
    :param dtype: default: the default float dtype
    :return: {..., feat_dim}: sin(position / base ** (2 * i / n)) for the first n/2 features, then the cosines
    """
    if feat_dim.size is None or feat_dim.size % 2:
        raise DimError(f"sinusoidal_encoding: the features {feat_dim} should be of a fixed even size.")
    dtype = dtype or get_default_float_dtype()
    half = feat_dim.div_left(2)
    frequency = exp(cast(positions(half), dtype) * (-2.0 * math.log(base) / feat_dim.size))
    angle = combine_bc(cast(indices, dtype), "*", frequency)
    out, _ = concat((sin(angle), half), (cos(angle), half), out_dim=feat_dim)
    out.feature_dim = feat_dim
    return out


def sinusoidal_positional_encoding(
    *,
    spatial_dim: Dim,
    feat_dim: Dim,
    offset: int | Tensor | None = None,
    base: int | float = 1e4,
    dtype: str | None = None,
    device: str | None = None,
) -> Tensor:
    """
    :param spatial_dim: the positions 0, 1, 2, ...; or `single_step_dim`: just the position `offset`
    :param feat_dim: of even size
    :param offset: added to the positions
    :param base: see `sinusoidal_encoding`
    :param dtype: default: the default float dtype
    :param device: such as "cpu"
    :return: [spatial_dim, feat_dim], and the dims of the offset
    """
    return sinusoidal_encoding(_positions(spatial_dim, offset, device), feat_dim=feat_dim, base=base, dtype=dtype)


def relative_positional_encoding(
    *,
    query_spatial_dim: Dim,
    key_value_spatial_dim: Dim,
    feat_dim: Dim,
    query_offset: int | Tensor = 0,
    dtype: str | None = None,
    device: str | None = None,
) -> tuple[Tensor, Dim]:
    """
    Sinusoidal encoding of all `key position - query position` that occur, from the lowest one on.

    :param query_spatial_dim: or `single_step_dim`: a single query, at the position `query_offset`
    :param key_value_spatial_dim: of the keys
    :param feat_dim: of even size
    :param query_offset: added to the positions of the queries
    :param dtype: default: the default float dtype
    :param device: such as "cpu"
    :return: [out_spatial_dim, feat_dim], and the dims of the offset; out_spatial_dim, in memory one less than both dims
        together
    """
    indices, out_spatial_dim = _relative_positions(query_spatial_dim, key_value_spatial_dim, query_offset, device)
    return sinusoidal_encoding(indices, feat_dim=feat_dim, dtype=dtype), out_spatial_dim


class LearnedRelativePositionalEncoding(Module):
    """
    A vector for each `key position - query position` (Shaw et al. 2018, section 3.2). Parameter: `pos_emb`
    [clipped_spatial_dim, feat_dim].
    """

    def __init__(
        self, feat_dim: Dim | int, *, clipping: int = 16, dtype: str | None = None, causal: bool = False
    ) -> None:
        """
        :param feat_dim: features that come out
        :param clipping: greater distances get the same vector as this one
        :param dtype: of the parameter
        :param causal: keys behind the query get the same vector as the one at the query
        """
        super().__init__()
        self.feat_dim = feat_dim = feature_dim(feat_dim, "feat_dim")
        self.clipping = clipping
        self.causal = causal
        self.clipped_spatial_dim = Dim(clipping + 1 if causal else 2 * clipping + 1, name="clipped-spatial-dim")
        self.pos_emb = Parameter([self.clipped_spatial_dim, feat_dim], dtype=dtype, initial=init.Glorot())

    def __call__(
        self, *, query_spatial_dim: Dim, key_value_spatial_dim: Dim, query_offset: int | Tensor | None = None
    ) -> tuple[Tensor, Dim]:
        """
        :param query_spatial_dim: or `single_step_dim`: a single query, at the position `query_offset`
        :param key_value_spatial_dim: of the keys
        :param query_offset: added to the positions of the queries
        :return: [out_spatial_dim, feat_dim], and the dims of the offset; out_spatial_dim. See
            `relative_positional_encoding`
        """
        offset = 0 if query_offset is None else query_offset
        indices, out_spatial_dim = _relative_positions(query_spatial_dim, key_value_spatial_dim, offset, None)
        return self._embed(indices), out_spatial_dim

    def full_matrix(
        self, *, query_spatial_dim: Dim, key_value_spatial_dim: Dim, query_offset: int | Tensor | None = None
    ) -> Tensor:
        """:return: [query_spatial_dim, key_value_spatial_dim, feat_dim], and the dims of the offset"""
        keys = _positions(key_value_spatial_dim, None, None)
        queries = _positions(query_spatial_dim, query_offset, None)
        return self._embed(combine_bc(keys, "-", queries))

    def _embed(self, indices: Tensor) -> Tensor:
        clipped = clip_by_value(indices, -self.clipping, 0 if self.causal else self.clipping) + self.clipping
        return gather(
            self.pos_emb, indices=set_sparse_dim(clipped, self.clipped_spatial_dim), axis=self.clipped_spatial_dim
        ).copy_with_roles(feature_dim=self.feat_dim)


def _positions(dim: Dim, offset: int | Tensor | None, device: str | None) -> Tensor:
    """:return: [dim]: offset, offset + 1, ...; for a single step, the offset"""
    if dim == single_step_dim:
        if offset is None:
            raise DimError("positional encoding: a single step has no position of its own.\n  Give its offset.")
        return convert_to_tensor(offset, device=device)
    frames = positions(dim) if device is None else set_sparse_dim(range_over_dim(dim, device=device), None)
    return frames if offset is None else combine_bc(frames, "+", offset)


def _relative_positions(
    query_dim: Dim, key_dim: Dim, query_offset: int | Tensor, device: str | None
) -> tuple[Tensor, Dim]:
    """:return: [out_spatial_dim]: key position - query position, from the lowest one on; out_spatial_dim"""
    if query_dim == single_step_dim:
        out_dim = padded_dim(key_dim)
        first = query_offset
    else:
        queries_before_last = padded_dim(query_dim) - 1
        out_dim = queries_before_last + padded_dim(key_dim)
        first = queries_before_last.get_size_tensor_or_int()
        if isinstance(first, Tensor) or isinstance(query_offset, Tensor):
            first = combine_bc(first, "+", query_offset)
        else:
            first += query_offset
    return combine_bc(_positions(out_dim, None, device), "-", first), out_dim
