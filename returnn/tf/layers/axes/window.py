"""Sliding windows over the frames of a sequence, and back."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.axes.dims_apart import apart_from
from returnn.tf.layers.axes.gather import only_valid_frames, valid_or_negative
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.values.ranges import frame_numbers
from returnn.util.errors import ConfigError, check_known


class WindowLayer(_ConcatInputLayer):
    """
    Each frame with those around it.

    Source [..., T, F], output [..., T', W, F]. Inside of a loop, over its frames: source [..., F], output [..., W, F],
    with the frames up to this one.
    """

    layer_class = "window"
    recurrent = True

    def __init__(
        self,
        window_size: int | None = None,
        window_dim: Dim | None = None,
        window_left: int | None = None,
        window_right: int | None = None,
        axis: Any = "T",
        out_spatial_dim: Dim | None = None,
        padding: str = "same",
        stride: int = 1,
        _use_opt_dim_order: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param window_size: number of frames
        :param window_dim: the new dim; it has the size, which need not be given then
        :param window_left: number of frames before the current one. Default: half of the window
        :param window_right: number of frames behind it
        :param axis: the dim of the frames, by description
        :param out_spatial_dim: the dim of the windows
        :param padding: "same": frames outside of the axis in memory are 0; "valid": only windows inside of the sequence
        :param stride: distance of the windows, in frames
        """
        super().__init__(**kwargs)
        if window_size is None and window_dim is None:
            raise ConfigError(f"{self.where()}: give the option 'window_size' or 'window_dim'.")
        if window_dim is not None and window_size not in (None, window_dim.size):
            raise ConfigError(
                f"{self.where()}: option 'window_size' is {window_size}, but 'window_dim' is {window_dim}."
            )
        self.window_size = window_size if window_dim is None else window_dim.size
        self.window_dim = window_dim
        self.window_left = window_left
        self.window_right = window_right
        self.axis = axis
        self.out_spatial_dim = out_spatial_dim
        self.padding = padding.lower()
        self.stride = stride
        check_known("padding", self.padding, ("same", "valid"), where=self.where())

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T', W, F]"""
        axis, is_frame = self.sequence_dim_of(source, self.axis, option="axis")
        size = self.window_dim.size if self.window_dim else self.window_size
        frames = (axis.sub_right(size - 1) if self.padding == "valid" else axis).ceildiv_right(self.stride)
        window_dim = self.window_dim or self.new_dim_beside("window", size, [*source.dims, frames])
        if is_frame and self._is_only_past():
            return self._past_of_frame(source, window_dim)
        if is_frame:
            return self._of_frame_with_later_ones(source, window_dim)
        source, named = apart_from(self, frames, rf.expand_to(source, [axis]), axis=axis)
        left, right = self.window_left, self.window_right
        out, new_dim = rf.window(
            source,
            spatial_dim=axis,
            window_dim=window_dim,
            window_left=left,
            window_right=right,
            padding=self.padding,
            stride=self.stride,
            use_mask=False,
        )
        if self.out_spatial_dim is not None:
            self.out_spatial_dim.declare_same_as(new_dim)
        return named(out)

    def _past_of_frame(self, frame: Tensor, window_dim: Dim) -> Tensor:
        """:return: the frames before, and this one; zeros before the first one"""
        one = self.new_dim("frame", 1)
        past = self.new_dim("past", window_dim.size - 1)
        template = rf.expand_dim(frame.copy_template(), past)
        before = self.previous_state("past", template)
        out, _ = rf.concat((before, past), (rf.expand_dim(frame, one), one), out_dim=window_dim, allow_broadcast=True)
        self.new_state("past", rf.slice(out, axis=window_dim, start=1, out_dim=past)[0])
        return out

    def looks_ahead(self) -> bool:
        """:return: whether there is more in it than the frames up to each one"""
        return not self._is_only_past()

    def _is_only_past(self) -> bool:
        right = self.window_right or 0
        if self.window_right is None and self.window_left is not None:
            right = self.window_size - 1 - self.window_left
        return right == 0 and self.padding == "same" and self.stride == 1

    def _of_frame_with_later_ones(self, frame: Tensor, window_dim: Dim) -> Tensor:
        """
        :return: template of the window of a frame
        :raises ConfigError: with values, as only all frames at once have it
        """
        if self.padding != "same" or self.stride != 1 or rf.get_selected_backend() != "template":
            raise ConfigError(
                f"{self.where()}: in a loop, frame by frame, a window has the frames up to the current one.\n"
                "  Only window_right=0, padding='same' and stride=1 are possible, and window_right above 0 if nothing\n"
                "  that it depends on needs the frame before, as it is made for all frames at once then."
            )
        return rf.expand_dim(frame, window_dim)


class FoldLayer(LayerBase):
    """
    The inverse of `WindowLayer`: adds up windows which overlap, or takes their mean.

    Source [..., T', W, F], output [..., T, F].
    """

    layer_class = "fold"
    recurrent = True

    def __init__(
        self,
        mode: str,
        in_spatial_dim: Any,
        window_dim: Any,
        out_spatial_dim: Dim | None = None,
        window_left: int | None = None,
        window_right: int | None = None,
        padding: str = "same",
        stride: int = 1,
        **kwargs: Any,
    ) -> None:
        """
        :param mode: "sum" or "mean"
        :param in_spatial_dim: the dim of the windows, by description
        :param window_dim: the dim of the frames in a window, by description
        :param out_spatial_dim: the dim of all frames
        :param window_left: number of frames before the current one, see `WindowLayer`
        :param window_right: number of frames behind it
        :param padding: "same": windows go beyond the sequence; "valid": they do not
        :param stride: distance of the windows, in frames
        """
        super().__init__(**kwargs)
        self.mode = mode
        self.in_spatial_dim = in_spatial_dim
        self.window_dim = window_dim
        self.out_spatial_dim = out_spatial_dim
        self.window_left = window_left
        self.window_right = window_right
        self.padding = padding.lower()
        self.stride = stride
        check_known("mode", mode, ("sum", "mean"), where=self.where())
        check_known("padding", self.padding, ("same", "valid"), where=self.where())

    def compute(self, source: Tensor, *_others: Tensor) -> Tensor:
        """:return: [..., T, F]"""
        windows = self.dim_of(source, self.in_spatial_dim, option="in_spatial_dim")
        frames = self.dim_of(source, self.window_dim, option="window_dim")
        self._check_sides(frames)
        out_dim = self._out_dim_of(windows, frames)
        start = rf.combine_bc(frame_numbers(windows), "*", self.stride)
        position = rf.combine_bc(start, "+", frame_numbers(frames)) - self._left(frames)
        position = only_valid_frames(valid_or_negative(position, out_dim), [windows, frames])
        scatter = rf.scatter if self.mode == "sum" else rf.scatter_mean
        return scatter(source, indices=position, indices_dim=[windows, frames], out_dim=out_dim)

    def _check_sides(self, frames: Dim) -> None:
        sides = self.window_left, self.window_right
        if self.padding == "valid" and sides != (None, None):
            raise ConfigError(f"{self.where()}: 'window_left' and 'window_right' are for padding 'same'.")
        if None not in sides and sum(sides) + 1 != frames.size:
            raise ConfigError(
                f"{self.where()}: 'window_left' {self.window_left} and 'window_right' {self.window_right} with the "
                f"frame between them do not make up {frames} (option 'window_dim')."
            )

    def _left(self, frames: Dim) -> int:
        if self.padding == "valid":
            return 0
        if self.window_left is not None:
            return self.window_left
        if self.window_right is not None:
            return frames.size - 1 - self.window_right
        return (frames.size - 1) // 2

    def _out_dim_of(self, windows: Dim, frames: Dim) -> Dim:
        out_dim = windows * self.stride
        if self.padding == "valid":
            out_dim = (windows - 1) * self.stride + frames.size
        if self.out_spatial_dim is None:
            return out_dim
        if not self.out_spatial_dim.is_dim_known():
            self.out_spatial_dim.declare_same_as(out_dim)
        return self.out_spatial_dim
