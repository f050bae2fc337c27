"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.frontend._ops.nn.conv_windows import windows
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.zero_padding import have_zero_padding
from returnn.tf.layers.linear.conv import AxisOption, PerAxis, SpatialLayer
from returnn.util.errors import check_known
from returnn.util.not_specified import NotSpecified


class PoolLayer(SpatialLayer):
    """
    Maximum or mean over windows, over one to three dims.

    Source [..., T, F], output [..., T', F].
    """

    layer_class = "pool"
    keeps_feature_dim = True

    def __init__(
        self,
        mode: str,
        pool_size: int | Sequence[int],
        padding: str | PerAxis = "VALID",
        dilation_rate: PerAxis = 1,
        strides: PerAxis | None = None,
        in_dim: Dim | None = None,
        in_spatial_dims: Sequence[AxisOption] | AxisOption | None = None,
        out_dim: Dim | None = None,
        out_spatial_dims: Sequence[Dim] | None = None,
        use_channel_first: bool | type[NotSpecified] = NotSpecified,
        use_time_mask: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param mode: "max" or "avg"
        :param pool_size: one, two or three sizes of the window
        :param padding: "valid", "same", "same_static"; or so many frames. With "same" and strides, the longest
            sequence of the batch decides where windows begin, with "same_static" none does. What is beyond the border
            does not count with "same"; with "same_static" and numbers, it is 0. With all but "valid", windows at the
            end of a sequence see what is beyond it in the batch, see `use_time_mask`
        :param dilation_rate: distance of frames within a window
        :param strides: distance of the windows. Default: the sizes
        :param in_dim: which dim of the source is the feature dim
        :param in_spatial_dims: dims along which the window moves. Default: all that are neither batch nor feature
        :param out_dim: the feature dim of the source
        :param out_spatial_dims: the new spatial dims
        :param use_channel_first: on a GPU, the feature axis stands before the spatial ones in memory
        :param use_time_mask: frames beyond the end of a sequence do not count, so that it gets what it gets alone
        """
        super().__init__(in_dim=in_dim, out_dim=out_dim, **kwargs)
        check_known("mode", mode, ("max", "avg"), where=self.where())
        self.mode = mode
        self.pool_size = [pool_size] if isinstance(pool_size, int) else list(pool_size)
        self.padding = self.padding_of(padding)
        self.dilation_rate = dilation_rate
        self.strides = strides
        self.in_spatial_dims = in_spatial_dims
        self.out_spatial_dims = self.out_dims_of(out_spatial_dims)
        self.use_channel_first = use_channel_first is True
        self.use_time_mask = use_time_mask

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T', F]"""
        spatial: Sequence[Dim] = self.spatial_dims(source, self.in_spatial_dims, len(self.pool_size))
        if all(size == 1 for size in self.pool_size) and self.strides in (None, 1) and self.out_spatial_dims is None:
            return source
        strides = self.pool_size if self.strides is None else self.strides
        padding = self.padding
        is_zero_beyond = padding not in ("valid", "same_dynamic")
        padding_counts = not (self.use_time_mask or (is_zero_beyond and have_zero_padding(self.sources)))
        self.note_windows(spatial, self.pool_size, strides, self.dilation_rate, padding_counts=padding_counts)
        if is_zero_beyond:
            source, spatial = self._with_zeros(source, spatial)
            padding = "valid"
        output, _ = rf.pool(
            source,
            mode=self.mode,
            pool_size=self.pool_size,
            padding=padding,
            dilation_rate=self.dilation_rate,
            strides=self.strides,
            in_spatial_dims=spatial,
            out_spatial_dims=self.out_spatial_dims,
            use_mask=self.use_time_mask,
        )
        return self.with_channels_first(output, self.use_channel_first)

    def _with_zeros(self, source: Tensor, spatial: Sequence[Dim]) -> tuple[Tensor, Sequence[Dim]]:
        """:return: source with the padding around it in memory; its spatial dims"""
        strides = self.pool_size if self.strides is None else self.strides
        moved = windows(
            self.where(),
            len(spatial),
            size=self.pool_size,
            strides=strides,
            dilation_rate=self.dilation_rate,
            padding=self.padding,
        )
        sides = [window.static_padding() or (0, 0) for window in moved]
        if self.use_time_mask:
            source = source.copy_masked(0, dims=[dim for dim in spatial if dim.is_dim_known()])
        return rf.pad(source, axes=spatial, padding=sides, value=0, handle_dynamic_dims=False)
