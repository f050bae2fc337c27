"""More or fewer frames: shifts, repetitions, interpolation."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import padded_dim
from returnn.tf.layers.axes.dims_apart import apart_from
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.option_values import value_like, value_of
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.options.time_dims_of_data import hint_for_time_dims, with_one_time_dim
from returnn.tf.layers.values.ranges import frame_numbers
from returnn.util.errors import ConfigError, check_known

_KINDS = ("nn", "nearest_neighbor", "linear", "cubic", "fill")


class ShiftAxisLayer(_ConcatInputLayer):
    """
    Moves the frames of a dim to the left or to the right, in memory.

    Source [..., axis], output [..., axis], or if it is not padded, [..., axis - abs(amount)].
    """

    layer_class = "shift_axis"

    def __init__(
        self,
        axis: Any,
        amount: int,
        pad: bool = True,
        pad_value: LayerBase | float = 0,
        adjust_size_info: bool = True,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description
        :param amount: in frames, negative for the left
        :param pad: keep the size of the axis: put `pad_value` where nothing is
        :param pad_value: number or layer
        :param adjust_size_info: with `pad`: the lengths change by the amount, within the size of the axis, which stays;
            otherwise they stay as they are, and so does the dim
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.amount = amount
        self.pad = pad
        self.pad_value = pad_value
        self.adjust_size_info = adjust_size_info

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., axis]"""
        axis = self.dim_of(source, self.axis, option="axis")
        if not self.amount:
            return source
        if not self.pad:
            start, end = (0, -self.amount) if self.amount > 0 else (-self.amount, None)
            return rf.slice(source, axis=axis, start=start, end=end)[0]
        return self._padded(source, axis, self._out_dim_of(axis))

    def _padded(self, source: Tensor, axis: Dim, out_dim: Dim) -> Tensor:
        """:return: as many frames in memory as before"""
        in_memory = padded_dim(axis)
        if in_memory is not axis:
            source, _ = rf.replace_dim(source, in_dim=axis, out_dim=in_memory)
        value = value_like(self.pad_value, source.dtype)
        sides = (max(self.amount, 0), max(-self.amount, 0))
        out, (longer,) = rf.pad(source, axes=[in_memory], padding=[sides], value=value)
        out, shifted = rf.slice(out, axis=longer, start=sides[1], end=-sides[0] if sides[0] else None)
        return out if shifted is out_dim else rf.replace_dim(out, in_dim=shifted, out_dim=out_dim)[0]

    def _out_dim_of(self, axis: Dim) -> Dim:
        if not self.adjust_size_info or axis.size is not None:
            return axis
        dim = self.new_dim("shifted", kind=axis.kind)
        dim.bounded_by = padded_dim(axis)
        if dim.dyn_size is None:
            shifted = rf.maximum(axis.get_size_tensor() + self.amount, 0)
            dim.dyn_size_ext = rf.combine_bc(shifted, "min", axis.get_dim_value_tensor())
        return dim


class RepeatLayer(_ConcatInputLayer):
    """
    Each frame several times: `a b` becomes `a a b b`.

    Source [..., T], output [..., T'].
    """

    layer_class = "repeat"

    def __init__(
        self, repetitions: LayerBase | int, axis: Any = "T", out_dim: Dim | None = None, **kwargs: Any
    ) -> None:
        """
        :param repetitions: how often, 0 or more: the same for all, or for each frame, or for each sequence. Durations
            of another data key have a time dim of their own, unless `extern_data` says that it is that of the source;
            without `behavior_version`, it is taken to be
        :param axis: the dim, by description
        :param out_dim: the new dim
        """
        super().__init__(out_dim=out_dim, **kwargs)
        if isinstance(repetitions, int) and repetitions < 0:
            raise ConfigError(f"{self.where()}: option 'repetitions': {repetitions}. Possible: from 0 on.")
        self.repetitions = repetitions
        self.axis = axis

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T']"""
        axis = self.dim_of(source, self.axis, option="axis")
        repeats: Any = self.repetitions
        out_dim = self._out_dim
        if isinstance(repeats, LayerBase):
            repeats, out_dim = (
                self._repeats_of_frames(source, axis),
                out_dim or self.new_dim("repeated", kind=axis.kind),
            )
            if not repeats.dtype.startswith(("int", "uint")):
                raise ConfigError(f"{self.where()}: option 'repetitions': integers are required, not {repeats}.")
        new = axis * repeats if out_dim is None else out_dim
        source, named = apart_from(self, new, source, axis=axis)
        return named(rf.repeat(source, in_spatial_dim=axis, repeats=repeats, out_spatial_dim=out_dim)[0])

    def _repeats_of_frames(self, source: Tensor, axis: Dim) -> Tensor:
        """:return: the repetitions, along the frames of the source where they are data that is as long"""
        layer = self.repetitions
        assert isinstance(layer, LayerBase)
        loop_dims = self.network.get_all_rec_time_dims()
        hint = hint_for_time_dims(self.network, [source, layer.output], loop_dims)
        if not hint or axis in layer.output.dims:
            return layer.output
        _, repeats = with_one_time_dim([self.sources[0], layer], [source, layer.output], loop_dims)
        how = (
            "as if they were for the frames of the source" if axis in repeats.dims else "once for each of their frames"
        )
        self.warning = (
            f"{self.where()}: option 'repetitions': has the time dim of another data key, and counts {how}. {hint}"
        )
        return repeats


class ResizeLayer(_ConcatInputLayer):
    """
    More frames, with values in between.

    Source [..., axis], output [..., factor * axis]. Interpolation is that of images: behind the last frame of a shorter
    sequence, it goes on towards the padded frame that follows in memory. Existing models expect this.
    """

    layer_class = "resize"

    def __init__(
        self,
        factor: LayerBase | int,
        axis: Any,
        out_dim: Dim | None = None,
        kind: str = "nn",
        fill_value: LayerBase | float | None = None,
        fill_dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param factor: how many frames become of each
        :param axis: the dim, by description
        :param out_dim: the new dim
        :param kind: "nn" (each frame again), "linear", "cubic" (interpolation), "fill" (`fill_value` in between)
        :param fill_value: for "fill", default 0
        :param fill_dropout: for "fill", in training: probability to leave out a frame in between
        """
        super().__init__(out_dim=out_dim, **kwargs)
        self.factor = factor
        self.axis = axis
        self.kind = kind
        self.fill_value = fill_value
        self.fill_dropout = fill_dropout
        if isinstance(factor, int) and factor < 1:
            raise ConfigError(f"{self.where()}: option 'factor': {factor}. Possible: from 1 on.")
        check_known("kind", kind, _KINDS, where=self.where())
        if (fill_value is not None or fill_dropout) and kind != "fill":
            raise ConfigError(f"{self.where()}: options 'fill_value' and 'fill_dropout' are only for kind 'fill'.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., factor * axis]"""
        axis = self.dim_of(source, self.axis, option="axis")
        factor = value_of(self.factor)
        out_dim = self._longer(axis, factor)
        source, named = apart_from(self, out_dim, source, axis=axis)
        position = frame_numbers(out_dim)
        frame, rest = rf.combine_bc(position, "//", factor), rf.combine_bc(position, "%", factor)
        in_memory = padded_dim(axis)
        if in_memory is not axis:
            source, _ = rf.replace_dim(source, in_dim=axis, out_dim=in_memory)
        if self.kind in ("linear", "cubic"):
            if not source.dtype.startswith(("float", "bfloat")):
                raise ConfigError(f"{self.where()}: option 'kind': {self.kind!r} is for floats, not for {source}.")
            fraction = rf.combine_bc(rf.cast(rest, source.dtype), "/", _as_float(factor, source.dtype))
            weights = _linear_weights(fraction) if self.kind == "linear" else _cubic_weights(fraction)
            return named(_interpolated(source, in_memory, frame, weights))
        out = rf.gather(source, indices=frame, axis=in_memory)
        return named(self._filled(out, rest, out_dim) if self.kind == "fill" else out)

    def _longer(self, axis: Dim, factor: Any) -> Dim:
        if isinstance(factor, int):
            dim = axis * factor
            if self._out_dim is not None and not self._out_dim.is_dim_known():
                self._out_dim.declare_same_as(dim)
            return self._out_dim or dim
        dim = self._out_dim or self.new_dim("resized", kind=axis.kind)
        if dim.size is None and dim.dyn_size is None:
            dim.dyn_size_ext = rf.combine_bc(axis.get_size_tensor(), "*", factor)
        return dim

    def _filled(self, out: Tensor, rest: Tensor, out_dim: Dim) -> Tensor:
        value = value_like(self.fill_value or 0, out.dtype)
        is_own = rf.compare(rest, "==", 0)
        out = rf.where(is_own, out, value, allow_broadcast_all_sources=True)
        if not self.fill_dropout:
            return out
        is_training = self.network.train_flag
        if is_training is False:
            return out
        is_kept = rf.compare(rf.random_uniform(rest.dims, dtype="float32"), ">=", self.fill_dropout)
        keep = rf.logical_or(is_own, is_kept)
        if is_training is not True:
            not_training = rf.logical_not(rf.convert_to_tensor(is_training, dims=()))
            keep = rf.combine_bc(keep, "logical_or", not_training)
        keep = rf.combine_bc(keep, "logical_and", rf.sequence_mask(out_dim))
        return rf.masked_select(out, mask=keep, dims=[out_dim], out_dim=self.new_dim("kept", kind=out_dim.kind))[0]


def _linear_weights(fraction: Tensor) -> dict[int, Tensor]:
    """:return: for each of the frames around a position, relative to the one before it, its weight"""
    return {0: 1.0 - fraction, 1: fraction}


def _cubic_weights(fraction: Tensor, a: float = -0.75, table_size: int = 1024) -> dict[int, Tensor]:
    """:return: see `_linear_weights`. Keys, "Cubic convolution interpolation for digital image processing", 1981"""
    fraction = rf.round(fraction * table_size) / table_size  # as `tf.image.resize`, which looks the weights up

    def near(x: Tensor) -> Tensor:  # distance below 1
        return ((a + 2) * x - (a + 3)) * x * x + 1.0

    def far(x: Tensor) -> Tensor:  # distance from 1 to 2
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return {-1: far(fraction + 1.0), 0: near(fraction), 1: near(1.0 - fraction), 2: far(2.0 - fraction)}


def _interpolated(source: Tensor, axis: Dim, frame: Tensor, weights: dict[int, Tensor]) -> Tensor:
    """:return: weighted sum of the frames around each position; at the border, the first or last frame counts again"""
    total = None
    for offset, weight in weights.items():
        frames = rf.gather(source, indices=frame + offset, axis=axis, clip_to_valid=True)
        part = rf.combine_bc(frames, "*", weight, dim_order=frames.dims)
        total = part if total is None else total + part
    assert total is not None
    return total


def _as_float(x: Any, dtype: str) -> Any:
    return rf.cast(x, dtype) if isinstance(x, Tensor) else float(x)
