"""Convolution and pooling."""

from returnn.frontend._conv.functions import conv, max_pool, max_pool1d, pool, pool1d, pool2d, pool3d, transposed_conv
from returnn.frontend._conv.modules import Conv1d, Conv2d, Conv3d, TransposedConv1d, TransposedConv2d, TransposedConv3d
from returnn.frontend._conv.out_dims import (
    calc_conv_out_length,
    calc_transposed_conv_out_length,
    make_conv_out_spatial_dims,
    make_transposed_conv_out_spatial_dims,
)

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "TransposedConv1d",
    "TransposedConv2d",
    "TransposedConv3d",
    "calc_conv_out_length",
    "calc_transposed_conv_out_length",
    "conv",
    "make_conv_out_spatial_dims",
    "make_transposed_conv_out_spatial_dims",
    "max_pool",
    "max_pool1d",
    "pool",
    "pool1d",
    "pool2d",
    "pool3d",
    "transposed_conv",
]
