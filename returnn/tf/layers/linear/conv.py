"""Convolution, also transposed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.frontend._ops.nn.conv_windows import transposed_windows, windows
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.axes.swap_axes import perm_of_axes, transposed
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.param_dims import with_dims_of_param
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.core.zero_padding import have_zero_padding
from returnn.tf.layers.linear.conv_sizes import conv_with_few_sizes
from returnn.tf.util.activations import OutputWithActivation
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError, check_known
from returnn.util.not_specified import NotSpecified

AxisOption = str | Dim
PerAxis = int | Sequence[int]


def _default_spatial_dims(source: Tensor, number: int) -> list[Dim]:
    """:return: all spatial dims. If these are more, those of sequences, as for a window over time with more dims"""
    dims = [source.dims[axis] for axis in source.get_spatial_batch_axes()]
    dynamic = [dim for dim in dims if dim.is_dynamic_seq_length()]
    return dynamic if len(dims) > number == len(dynamic) else dims


class SpatialLayer(_ConcatInputLayer):
    """Base class of layers with a window that moves along one to three dims. All other dims are like batch dims."""

    padding: Any
    recurrent = True

    def spatial_dims(
        self, source: Tensor, given: Sequence[AxisOption] | AxisOption | None, number: int, *, in_dim: Dim | None = None
    ) -> list[Dim]:
        """
        :param source: has the dims
        :param given: as the config says
        :param number: how many there have to be
        :param in_dim: the window does not move along this one
        :return: the dims along which the window moves
        """
        if given is not None:
            given = [given] if isinstance(given, (str, Dim)) else given
            dims = [self.dim_of(source, axis, option="in_spatial_dims") for axis in given]
        else:
            dims = self.same_as_in_frame("in_spatial_dims", None, lambda: _default_spatial_dims(source, number))
        if len(dims) != number:
            raise ConfigError(
                f"{self.where()}: the window has {number} dim{'' if number == 1 else 's'}, but there are {len(dims)} "
                f"spatial dims: {', '.join(map(str, dims))}.\n"
                f"  Option 'in_spatial_dims' says which ones are meant. Source: {source}."
            )
        wrong = [x for x in dims if x.is_batch_dim() or x == in_dim or dims.count(x) > source.dims.count(x)]
        if wrong:
            raise ConfigError(
                f"{self.where()}: option 'in_spatial_dims': the window cannot move along {wrong[0]}"
                f"{' twice' if dims.count(wrong[0]) > 1 else ''}.\n"
                f"  Possible are dims other than the batch{' and the feature' if in_dim else ''} dim. Source: {source}."
            )
        return dims

    def note_windows(
        self, dims: Sequence[Dim], size: Any, strides: Any, dilation_rate: Any, *, padding_counts: bool
    ) -> None:
        """
        Notes whether frames of a sequence are others if another one of the batch is longer.

        :param dims: along which there are windows
        :param size: of the window; this and the others: for each dim, or the same for all
        :param strides: distance of the windows
        :param dilation_rate: distance of frames within a window
        :param padding_counts: whether frames beyond the end of a sequence are something else than what is beyond the
            axis in memory
        """
        moved = windows(
            self.where(), len(dims), size=size, strides=strides, dilation_rate=dilation_rate, padding=self.padding
        )
        over_sequences = [window for dim, window in zip(dims, moved, strict=True) if dim.is_dynamic_seq_length()]
        self.depends_on_longest = any(window.moves for window in over_sequences)
        self.sees_padding = padding_counts and any(window.reaches_beyond for window in over_sequences)

    def padding_of(self, padding: str | PerAxis) -> Any:
        """:return: as the frontend knows it. "same" is that of TensorFlow, "same_static" begins like it, as recorded"""
        if not isinstance(padding, str):
            return padding
        known = {"valid": "valid", "same": "same_dynamic", "same_static": "same_of_multiple"}
        check_known("padding", padding.lower(), known, where=self.where())
        return known[padding.lower()]

    def out_dims_of(self, given: Sequence[Dim] | Dim | None) -> list[Dim] | None:
        """:return: the option `out_spatial_dims`, as list"""
        return None if given is None else [given] if isinstance(given, Dim) else list(given)

    def with_channels_first(self, output: Tensor, wanted: bool) -> Tensor:
        """:return: output; where the hardware likes that, the feature axis stands behind the batch axis"""
        if not wanted or output.feature_dim_axis is None or not tf.config.list_physical_devices("GPU"):
            return output
        return output.copy_move_axis(output.feature_dim_axis, 1 if output.have_batch_axis() else 0)


class _FilterLayer(SpatialLayer):
    """Base class of convolutions: the window has a filter, which is a parameter or comes from another layer."""

    with_bias: bool

    def __init__(
        self,
        filter_size: int | Sequence[int | Dim],
        in_spatial_dims: Sequence[AxisOption] | AxisOption | None = None,
        out_spatial_dims: Sequence[Dim] | None = None,
        activation: str | None = None,
        forward_weights_init: Any = "glorot_uniform",
        bias_init: Any = 0.0,
        filter: LayerBase | None = None,
        filter_perm: Mapping[str, str] | None = None,
        bias: LayerBase | None = None,
        use_time_mask: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param filter_size: one, two or three sizes; or dims, those of the option `filter`
        :param in_spatial_dims: dims along which the window moves. Default: all that are neither batch nor feature
        :param out_spatial_dims: the new spatial dims
        :param activation: such as "relu"
        :param forward_weights_init: initial value of the filter
        :param bias_init: initial value of `bias`
        :param filter: layer to take the filter from
        :param filter_perm: transposes that layer first: axis -> axis of it which comes there, both by description
        :param bias: layer to take `bias` from
        :param use_time_mask: frames beyond the end of a sequence count as zero, so that it gets what it gets alone.
            Otherwise they are what the source has there: zero in data, and after a unit of `rec`
        """
        super().__init__(**kwargs)
        self.filter_dims = [filter_size] if isinstance(filter_size, int) else list(filter_size)
        self.filter_size: list[Any] = [size.dimension if isinstance(size, Dim) else size for size in self.filter_dims]
        self.in_spatial_dims = in_spatial_dims
        self.out_spatial_dims = self.out_dims_of(out_spatial_dims)
        self.activation = activation
        self.forward_weights_init = forward_weights_init
        self.bias_init = bias_init
        self.filter = filter
        self.filter_perm = filter_perm
        self.bias = bias
        self.use_time_mask = use_time_mask
        self._check_filter_size()

    def _check_filter_size(self) -> None:
        sizes = self.filter_size
        if not 1 <= len(sizes) <= 3:
            raise ConfigError(
                f"{self.where()}: option 'filter_size': one to three sizes are possible, not {self.filter_dims}."
            )
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            raise ConfigError(
                f"{self.where()}: option 'filter_size': each size has to be at least 1, but it is {self.filter_dims}."
            )

    def window_dims(self) -> list[Dim]:
        """:return: the dims of the window"""
        return [
            size if isinstance(size, Dim) else self.new_dim(f"filter{i}", size, auto_generated=False)
            for i, size in enumerate(self.filter_dims)
        ]

    def given_filter(self, dims: Sequence[Dim]) -> Tensor | None:
        """:return: the filter of another layer, with these dims; None if there is no such layer"""
        if self.filter is None:
            return None
        if not self.filter_perm:
            return with_dims_of_param(self, self.filter, self.filter.output, dims)
        axes = perm_of_axes(self, self.filter.output, self.filter_perm, option="filter_perm")
        return with_dims_of_param(self, self.filter, transposed(self.filter.output, axes), dims, by_order=True)

    def bias_vector(self, out_dim: Dim) -> Tensor | None:
        """:return: [out_dim], None if there is none"""
        if self.bias is not None:
            return with_dims_of_param(self, self.bias, self.bias.output, [out_dim])
        return self.parameter("bias", [out_dim], initial=self.bias_init) if self.with_bias else None

    def activated(self, output: Tensor, out_dim: Dim) -> Tensor:
        """:return: output, whose feature dim is `out_dim`, after the activation function"""
        output = output.copy_with_roles(feature_dim=out_dim)
        if not self.activation:
            return output
        self.output_before_activation = OutputWithActivation(output, self.activation)
        return self.output_before_activation.after


class ConvLayer(_FilterLayer):
    """
    Convolution over one to three dims.

    Source [..., T, F_in], output [..., T', F_out]. Parameters `W`: [filter, F_in / groups, F_out], `bias`: [F_out].
    """

    layer_class = "conv"

    def __init__(
        self,
        padding: str | PerAxis,
        strides: PerAxis = 1,
        dilation_rate: PerAxis = 1,
        groups: int = 1,
        input_expand_dims: int = 0,
        input_add_feature_dim: bool = False,
        input_split_feature_dim: int | None = None,
        auto_use_channel_first: bool | type[NotSpecified] = NotSpecified,
        with_bias: bool | type[NotSpecified] = NotSpecified,
        pad_seq_len_to_power: float | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param padding: "valid", "same", "same_static"; or so many frames. With "same" and strides, the longest
            sequence of the batch decides where windows begin, with "same_static" none does. With all but "valid",
            windows at the end of a sequence see what is beyond it in the batch, see `use_time_mask`
        :param strides: distance of the windows
        :param dilation_rate: distance of frames within a window
        :param groups: the features are divided into so many groups
        :param input_expand_dims: the source gets so many spatial dims of size 1
        :param input_add_feature_dim: the feature dim of the source becomes spatial, a new one has size 1
        :param input_split_feature_dim: likewise, but the new one has this size, and the spatial one is smaller
        :param auto_use_channel_first: on a GPU, the feature axis stands before the spatial ones in memory
        :param with_bias: whether there is `bias`. Default: since behavior version 10
        :param pad_seq_len_to_power: while it computes, sequences are padded to sizes from the powers of this number,
            which is more than 1. That spares GPUs from new sizes, the output is the same. Default: option
            `conv_pad_seq_len_to_power` of the config, or no
        """
        super().__init__(**kwargs)
        self.padding = self.padding_of(padding)
        self.strides = strides
        self.dilation_rate = dilation_rate
        self.groups = groups
        self.input_expand_dims = input_expand_dims
        self.input_add_feature_dim = input_add_feature_dim
        self.input_split_feature_dim = input_split_feature_dim
        self.auto_use_channel_first = auto_use_channel_first is True
        self.with_bias = BehaviorVersion.get() >= 10 if with_bias is NotSpecified else bool(with_bias)
        self.pad_seq_len_to_power = self._base_of_sizes(pad_seq_len_to_power)

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T', F_out]"""
        source, in_dim = self._with_channels(source)
        out_dim = self.output_feature_dim()
        spatial = self.spatial_dims(source, self.in_spatial_dims, len(self.filter_size), in_dim=in_dim)
        padding_counts = not (self.use_time_mask or have_zero_padding(self.sources))
        self.note_windows(spatial, self.filter_size, self.strides, self.dilation_rate, padding_counts=padding_counts)
        window = self.window_dims()
        conv: Callable[..., tuple[Tensor, Sequence[Dim]]] = rf.conv
        if self.pad_seq_len_to_power is not None:
            conv = functools.partial(conv_with_few_sizes, base=self.pad_seq_len_to_power)
        output, _ = conv(
            source,
            in_dim=in_dim,
            out_dim=out_dim,
            in_spatial_dims=spatial,
            out_spatial_dims=self.out_spatial_dims,
            filter=self._filter(window, in_dim, out_dim),
            filter_size=window,
            padding=self.padding,
            strides=self.strides,
            dilation_rate=self.dilation_rate,
            groups=self.groups,
            bias=self.bias_vector(out_dim),
            use_mask=self.use_time_mask,
        )
        return self.with_channels_first(self.activated(output, out_dim), self.auto_use_channel_first)

    @classmethod
    def calc_out_dim(
        cls, in_dim: Any, filter_size: int, stride: int, padding: str | int, dilation_rate: int = 1
    ) -> Any:
        """
        :param in_dim: number of frames: a number, a dim, or a raw tensor
        :param filter_size: size of the window
        :param stride: distance of the windows
        :param padding: "same", "valid", or a number of frames on both sides
        :param dilation_rate: distance of frames within a window
        :return: number of frames of the output, in the same form
        """
        padding = padding.lower() if isinstance(padding, str) else padding
        calc = functools.partial(
            rf.calc_conv_out_length,
            filter_size=filter_size,
            stride=stride,
            padding=padding,
            dilation_rate=dilation_rate,
        )
        return _of_raw_lengths(calc, in_dim)

    def _base_of_sizes(self, given: float | None) -> float | None:
        base = self.network.get_config().options.conv_pad_seq_len_to_power if given is None else given
        if base is not None and not base > 1:
            raise ConfigError(f"{self.where()}: option 'pad_seq_len_to_power': {base}. It has to be more than 1.")
        return base

    def _with_channels(self, source: Tensor) -> tuple[Tensor, Dim]:
        """:return: source as the options about its dims say; its feature dim"""
        for i in range(self.input_expand_dims):
            source = rf.expand_dim(source, self.new_dim(f"expanded{i}", 1, auto_generated=False))
        feature = source.feature_dim
        size = self.input_split_feature_dim or (1 if self.input_add_feature_dim else None)
        if size is not None and feature is not None:
            channel = self.new_dim("input-channel", size, kind=Dim.Types.Feature)
            spatial = feature if size == 1 else feature.div_left(channel)
            others = [spatial if dim == feature else dim for dim in source.dims]
            channel = self.new_dim_beside("input-channel", size, others, kind=Dim.Types.Feature)
            if size == 1:
                source = rf.expand_dim(source, channel)
            else:
                source = rf.split_dims(source, axis=feature, dims=[feature.div_left(channel), channel])
            source = source.copy_with_roles(feature_dim=channel)
        return source, self.feature_dim_of(source)

    def _filter(self, window: list[Dim], in_dim: Dim, out_dim: Dim) -> Tensor:
        dims = [*window, self._group_dim(in_dim), out_dim]
        given = self.given_filter(dims)
        return self.parameter("W", dims, initial=self.forward_weights_init) if given is None else given

    def _group_dim(self, in_dim: Dim) -> Dim:
        if self.groups == 1:
            return in_dim
        if in_dim.dimension is None or in_dim.dimension % self.groups:
            raise ConfigError(f"{self.where()}: option 'groups': {in_dim} cannot be divided into {self.groups} groups.")
        return in_dim.div_left(self.groups)


class TransposedConvLayer(_FilterLayer):
    """
    Transposed convolution: lays a window onto the output for each frame.

    Source [..., T, F_in], output [..., T', F_out]. Parameters `W_native_transposed_conv`: [filter, F_out, F_in], and
    [filter, 1, F_out, F_in] for one dim; `bias`: [F_out].
    """

    layer_class = "transposed_conv"

    def __init__(
        self,
        strides: Sequence[int] | int | None = None,
        padding: str | PerAxis = "same",
        remove_padding: PerAxis = 0,
        output_padding: int | Sequence[int | None] | None = None,
        with_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        """
        :param strides: distance of the windows. Default: the filter sizes
        :param padding: "same": as many frames as before, times the stride; "valid": all that there are
        :param remove_padding: further frames cut off on both sides
        :param output_padding: frames more at the end
        :param with_bias: whether there is `bias`
        """
        super().__init__(**kwargs)
        self.strides = strides
        self.padding = "same" if str(padding).lower() == "same" else self.padding_of(padding)
        self.remove_padding = remove_padding
        self.output_padding = output_padding
        self.with_bias = with_bias

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T', F_out]"""
        in_dim, out_dim = self.feature_dim_of(source), self.output_feature_dim()
        spatial = self.spatial_dims(source, self.in_spatial_dims, len(self.filter_size), in_dim=in_dim)
        window = self.window_dims()
        laid = transposed_windows(
            self.where(),
            len(spatial),
            size=self.filter_size,
            strides=self.strides,
            padding=self.padding,
            remove_padding=self.remove_padding,
            output_padding=self.output_padding,
        )
        if not (self.use_time_mask or have_zero_padding(self.sources)):
            self.sees_padding = any(
                dim.is_dynamic_seq_length() and one.reaches_beyond for dim, one in zip(spatial, laid, strict=True)
            )
        output, _ = rf.transposed_conv(
            source,
            in_dim=in_dim,
            out_dim=out_dim,
            in_spatial_dims=spatial,
            out_spatial_dims=self.out_spatial_dims,
            filter=self._filter(window, in_dim, out_dim),
            filter_size=window,
            padding=self.padding,
            remove_padding=self.remove_padding,
            output_padding=self.output_padding,
            strides=self.strides,
            bias=self.bias_vector(out_dim),
            use_mask=self.use_time_mask,
        )
        return self.activated(output, out_dim)

    @classmethod
    def deconv_output_length(
        cls,
        input_length: Any,
        filter_size: int,
        padding: str,
        output_padding: int | None = None,
        stride: int = 0,
        dilation: int = 1,
        out_dim: Dim | None = None,
    ) -> Any:
        """
        :param input_length: number of frames: a number, a dim, or a raw tensor
        :param filter_size: size of the window
        :param padding: "same", "valid" or "full"
        :param output_padding: frames more at the end
        :param stride: 0: the filter size
        :param dilation: distance of the output frames of one window
        :param out_dim: what the result is declared to be, if it is a dim
        :return: number of frames of the output, in the same form
        """
        calc = functools.partial(
            rf.calc_transposed_conv_out_length,
            filter_size=filter_size,
            padding=padding.lower(),
            output_padding=output_padding,
            stride=stride or None,
            dilation_rate=dilation,
        )
        out = _of_raw_lengths(calc, input_length)
        if out_dim is not None and isinstance(out, Dim):
            out_dim.declare_same_as(out)
        return out

    def _filter(self, window: list[Dim], in_dim: Dim, out_dim: Dim) -> Tensor:
        in_dim = in_dim.copy(match_priority=1) if in_dim == out_dim else in_dim
        given = self.given_filter([*window, out_dim, in_dim])
        if given is not None:
            return given
        one = [self.new_dim("one", 1, auto_generated=False)] if len(window) == 1 else []
        filters = self.parameter(
            "W_native_transposed_conv", [*window, *one, out_dim, in_dim], initial=self.forward_weights_init
        )
        return rf.squeeze(filters, one[0]) if one else filters


def _of_raw_lengths(calc: Callable[[Any], Any], lengths: Any) -> Any:
    """:return: calc(lengths), which may be a raw tensor of shape (B,) or a scalar"""
    if not tf.is_tensor(lengths):
        return calc(lengths)
    dims = [batch_dim] * lengths.shape.ndims
    return calc(Tensor("lengths", dims=dims, dtype=lengths.dtype.name, raw_tensor=lengths)).raw_tensor
