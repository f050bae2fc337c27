"""Interfaces of encoders, by what happens to the frames."""

from __future__ import annotations

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor


class IEncoder(rf.Module):
    """From features to features. `out_dim`: those that come out."""

    out_dim: Dim

    def __call__(self, source: Tensor) -> Tensor:
        """
        :param source: {..., in_dim}
        :return: {..., out_dim}
        """
        raise TypeError(f"{type(self).__name__} defines no __call__.")


class ISeqFramewiseEncoder(rf.Module):
    """From sequences to sequences with the same frames. `out_dim`: the features that come out."""

    out_dim: Dim

    def __call__(self, source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """
        :param source: {..., spatial_dim, in_dim}
        :param spatial_dim: of the frames
        :return: {..., spatial_dim, out_dim}
        """
        raise TypeError(f"{type(self).__name__} defines no __call__.")


class ISeqDownsamplingEncoder(rf.Module):
    """
    From sequences to sequences with fewer frames. `out_dim`: the features that come out; `downsample_factor`: how many
    frames become one.
    """

    out_dim: Dim
    downsample_factor: int

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """
        :param source: {..., in_spatial_dim, in_dim}
        :param in_spatial_dim: of the frames that come in
        :return: {..., out_spatial_dim, out_dim}; out_spatial_dim
        """
        raise TypeError(f"{type(self).__name__} defines no __call__.")
