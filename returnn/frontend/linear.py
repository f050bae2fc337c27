"""Linear transformation and embedding."""

from __future__ import annotations

from returnn.frontend import init
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend.array_ import gather
from returnn.frontend.dims import dim_match_priority_when_needed
from returnn.frontend.matmul import matmul
from returnn.frontend.module import Module
from returnn.frontend.parameter import Parameter
from returnn.tensor import Dim, Tensor

__all__ = ["Embedding", "Linear"]


class Linear(Module):
    """`y = x * weight + bias`. Parameters: `weight` [in_dim, out_dim], `bias` [out_dim]."""

    def __init__(self, in_dim: Dim | int, out_dim: Dim | int, *, with_bias: bool = True) -> None:
        """
        :param in_dim: features that come in; they may be sparse
        :param out_dim: features that come out
        :param with_bias: whether there is one
        """
        super().__init__()
        self.in_dim = in_dim = feature_dim(in_dim, "in_dim")
        self.out_dim = out_dim = feature_dim(out_dim, "out_dim")
        self.weight = _weight(in_dim, out_dim)
        self.with_bias = with_bias
        self.bias = Parameter([out_dim], initial=0.0) if with_bias else None

    def __call__(self, source: Tensor) -> Tensor:
        """
        :param source: {..., in_dim}; or {...}, sparse, indices into `in_dim`
        :return: {..., out_dim}
        """
        out = _apply(source, self.weight, self.in_dim)
        if self.bias is not None:
            out = out + self.bias
        out.feature_dim = self.out_dim
        return out


class Embedding(Module):
    """A vector for each label. Parameter: `weight` [in_dim, out_dim]."""

    def __init__(self, in_dim: Dim | int, out_dim: Dim | int) -> None:
        """
        :param in_dim: labels that come in
        :param out_dim: features that come out
        """
        super().__init__()
        self.in_dim = in_dim = feature_dim(in_dim, "in_dim")
        self.out_dim = out_dim = feature_dim(out_dim, "out_dim")
        self.weight = _weight(in_dim, out_dim)

    def __call__(self, source: Tensor) -> Tensor:
        """
        :param source: {...}, sparse, indices into `in_dim`; or {..., in_dim}, weights of the labels
        :return: {..., out_dim}
        """
        return _apply(source, self.weight, self.in_dim).copy_with_roles(feature_dim=self.out_dim)


def _weight(in_dim: Dim, out_dim: Dim) -> Parameter:
    return Parameter([dim_match_priority_when_needed(in_dim, out_dim), out_dim], initial=init.Glorot())


def _apply(source: Tensor, weight: Tensor, in_dim: Dim) -> Tensor:
    if source.sparse_dim == in_dim and in_dim not in source.dims:
        return gather(weight, indices=source, axis=in_dim)
    return matmul(source, weight, reduce=in_dim)
