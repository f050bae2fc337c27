"""
Convolution and pooling, over one to three spatial dims. All other dims are like batch dims.

Frames beyond the end of their sequence are masked before, so that they do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.config.current import current_config
from returnn.frontend._backend import get_backend_of
from returnn.frontend._conv.out_dims import make_out_spatial_dims
from returnn.frontend._ops.nn.conv_windows import Padding, paddings, transposed_windows, windows
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._use_mask import masks_frames
from returnn.tensor import Dim, Tensor
from returnn.util.behavior_version import BehaviorVersion


def conv(
    source: Tensor,
    *,
    in_dim: Dim,
    out_dim: Dim,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
    filter: Tensor,
    filter_size: Sequence[Dim],
    padding: Padding,
    strides: int | Sequence[int] | None = None,
    dilation_rate: int | Sequence[int] | None = None,
    groups: int | None = None,
    bias: Tensor | None = None,
    use_mask: bool | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """
    :param source: {..., in_spatial_dims..., in_dim}
    :param in_dim: features that come in
    :param out_dim: features that come out
    :param in_spatial_dims: one to three
    :param out_spatial_dims: default: made from the others
    :param filter: {filter_size..., in_dim, out_dim}. With groups, instead of `in_dim` a dim of the size of a group.
        If in_dim and out_dim are the same, the one to sum over has the higher match priority.
    :param filter_size: of fixed size, one for each spatial dim
    :param padding: "valid": only windows inside of the sequence; "same": with a stride of 1, as many frames as before.
        With a stride, "same" is "same_static" (see `returnn.frontend._ops.nn.conv_windows`) from behavior version 24
        on, or with `rf_use_consistent_same_padding`, otherwise "same_dynamic". An int: so many frames of zeros on both
        sides.
        One for all spatial dims, or one for each.
    :param strides: distance of the windows, default 1
    :param dilation_rate: distance of frames within a window, default 1
    :param groups: the features are divided into so many groups, each of which is seen by as many groups of the output
    :param bias: [out_dim], added
    :param use_mask: whether frames beyond the end of a sequence become zero before. Default: see `use_mask_default`
    :return: [..., out_spatial_dims..., out_dim]; out_spatial_dims
    """
    padding = _resolved("conv", padding, len(in_spatial_dims))
    if out_spatial_dims is not None:
        moved = windows(
            "conv",
            len(in_spatial_dims),
            size=filter_size,
            strides=strides,
            dilation_rate=dilation_rate,
            padding=padding,
        )
        out_spatial_dims = make_out_spatial_dims("conv", in_spatial_dims, out_spatial_dims, moved)
    return get_backend_of(source, filter, bias).conv(
        _masked(source, in_spatial_dims, use_mask, "conv"),
        in_dim=in_dim,
        out_dim=out_dim,
        in_spatial_dims=in_spatial_dims,
        out_spatial_dims=out_spatial_dims,
        filter=filter,
        filter_size=filter_size,
        padding=padding,
        strides=strides,
        dilation_rate=dilation_rate,
        groups=groups,
        bias=bias,
    )


def transposed_conv(
    source: Tensor,
    *,
    in_dim: Dim,
    out_dim: Dim,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
    filter: Tensor,
    filter_size: Sequence[Dim],
    padding: Padding,
    remove_padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int | None] | None = None,
    strides: int | Sequence[int] | None = None,
    bias: Tensor | None = None,
    use_mask: bool | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """
    Lays a window onto the output for each frame: what the gradient of a convolution does.

    :param source: {..., in_spatial_dims..., in_dim}
    :param in_dim: features that come in
    :param out_dim: features that come out
    :param in_spatial_dims: one to three
    :param out_spatial_dims: default: made from the others
    :param filter: {filter_size..., in_dim, out_dim}. If in_dim and out_dim are the same, the one to sum over has the
        higher match priority.
    :param filter_size: of fixed size, one for each spatial dim
    :param padding: "valid": all of the output; "same": as many frames as came in, times the stride. An int: cuts off so
        many frames on both sides. One for all spatial dims, or one for each.
    :param remove_padding: further frames cut off on both sides
    :param output_padding: frames more at the end; then "same" cuts off half of the filter size on both sides
    :param strides: distance of the windows on the output. Default: the filter sizes
    :param bias: [out_dim], added
    :param use_mask: whether frames beyond the end of a sequence become zero before. Default: see `use_mask_default`
    :return: [..., out_spatial_dims..., out_dim]; out_spatial_dims
    """
    if out_spatial_dims is not None:
        laid = transposed_windows(
            "transposed_conv",
            len(in_spatial_dims),
            size=filter_size,
            strides=strides,
            padding=padding,
            remove_padding=remove_padding,
            output_padding=output_padding,
        )
        out_spatial_dims = make_out_spatial_dims("transposed_conv", in_spatial_dims, out_spatial_dims, laid)
    return get_backend_of(source, filter, bias).transposed_conv(
        _masked(source, in_spatial_dims, use_mask, "transposed_conv"),
        in_dim=in_dim,
        out_dim=out_dim,
        in_spatial_dims=in_spatial_dims,
        out_spatial_dims=out_spatial_dims,
        filter=filter,
        filter_size=filter_size,
        padding=padding,
        remove_padding=remove_padding,
        output_padding=output_padding,
        strides=strides,
        bias=bias,
    )


def pool(
    source: Tensor,
    *,
    nd: int | None = None,
    mode: str,
    pool_size: int | Sequence[int],
    padding: Padding = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dims: Dim | Sequence[Dim],
    out_spatial_dims: Dim | Sequence[Dim] | None = None,
    use_mask: bool | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """
    :param source: {..., in_spatial_dims...}
    :param nd: how many spatial dims these have to be
    :param mode: "max", "avg"
    :param pool_size: size of the window, one for all spatial dims, or one for each
    :param padding: see `conv`; frames of padding do not count, also not in an average
    :param dilation_rate: distance of frames within a window
    :param strides: distance of the windows. Default: the pool size
    :param in_spatial_dims: one to three
    :param out_spatial_dims: default: made from the others
    :param use_mask: whether frames beyond the end of a sequence do not count either. Default: see `use_mask_default`
    :return: {..., out_spatial_dims...}; out_spatial_dims
    """
    in_dims = [in_spatial_dims] if isinstance(in_spatial_dims, Dim) else list(in_spatial_dims)
    out_dims = [out_spatial_dims] if isinstance(out_spatial_dims, Dim) else out_spatial_dims
    if nd is not None and nd != len(in_dims):
        raise fail(f"pool: {nd} spatial dims are wanted, but in_spatial_dims are {len(in_dims)}.")
    options: dict[str, Any] = {
        "mode": mode,
        "pool_size": pool_size,
        "padding": _resolved("pool", padding, len(in_dims)),
        "dilation_rate": dilation_rate,
        "strides": pool_size if strides is None else strides,
        "in_spatial_dims": in_dims,
    }
    if out_dims is not None:
        moved = windows(
            "pool",
            len(in_dims),
            size=pool_size,
            strides=options["strides"],
            dilation_rate=dilation_rate,
            padding=options["padding"],
        )
        out_dims = make_out_spatial_dims("pool", in_dims, out_dims, moved)
    backend = get_backend_of(source)
    masked = _masked(source, in_dims, use_mask, "pool", -float("inf") if mode == "max" else 0.0)
    out, out_dims = backend.pool(masked, **options, out_spatial_dims=out_dims)
    if mode == "max" or masked is source or options["padding"] == ["valid"] * len(in_dims):
        return out, out_dims
    share, _ = backend.pool(_inside(backend, in_dims, source.dtype), **options, out_spatial_dims=out_dims)
    share = backend.combine(share, "maximum", 1e-6)
    return backend.combine(out, "truediv", share, allow_broadcast_all_sources=True, dim_order=out.dims), out_dims


def max_pool(
    source: Tensor,
    *,
    pool_size: int | Sequence[int],
    padding: Padding = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Dim | Sequence[Dim] | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """:return: maximum over windows, see `pool`"""
    return pool(
        source,
        mode="max",
        pool_size=pool_size,
        padding=padding,
        dilation_rate=dilation_rate,
        strides=strides,
        in_spatial_dims=in_spatial_dims,
        out_spatial_dims=out_spatial_dims,
    )


def max_pool1d(
    source: Tensor,
    *,
    pool_size: int,
    padding: Padding = "valid",
    dilation_rate: int = 1,
    strides: int | None = None,
    in_spatial_dim: Dim,
    out_spatial_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """:return: maximum over windows along one dim, see `pool`; out_spatial_dim"""
    return pool1d(
        source,
        mode="max",
        pool_size=pool_size,
        padding=padding,
        dilation_rate=dilation_rate,
        strides=strides,
        in_spatial_dim=in_spatial_dim,
        out_spatial_dim=out_spatial_dim,
    )


def pool1d(
    source: Tensor,
    *,
    mode: str,
    pool_size: int,
    padding: Padding = "valid",
    dilation_rate: int = 1,
    strides: int | None = None,
    in_spatial_dim: Dim,
    out_spatial_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """:return: pooling along one dim, see `pool`; out_spatial_dim"""
    if not isinstance(in_spatial_dim, Dim):
        raise fail(f"pool1d: in_spatial_dim should be one dim, got {in_spatial_dim}.")
    out, (out_dim,) = pool(
        source,
        nd=1,
        mode=mode,
        pool_size=pool_size,
        padding=padding,
        dilation_rate=dilation_rate,
        strides=strides,
        in_spatial_dims=in_spatial_dim,
        out_spatial_dims=out_spatial_dim,
    )
    return out, out_dim


def pool2d(
    source: Tensor,
    *,
    mode: str,
    pool_size: int | Sequence[int],
    padding: Padding = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """:return: pooling along two dims, see `pool`"""
    return pool(
        source,
        nd=2,
        mode=mode,
        pool_size=pool_size,
        padding=padding,
        dilation_rate=dilation_rate,
        strides=strides,
        in_spatial_dims=in_spatial_dims,
        out_spatial_dims=out_spatial_dims,
    )


def pool3d(
    source: Tensor,
    *,
    mode: str,
    pool_size: int | Sequence[int],
    padding: Padding = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """:return: pooling along three dims, see `pool`"""
    return pool(
        source,
        nd=3,
        mode=mode,
        pool_size=pool_size,
        padding=padding,
        dilation_rate=dilation_rate,
        strides=strides,
        in_spatial_dims=in_spatial_dims,
        out_spatial_dims=out_spatial_dims,
    )


def _masked(
    source: Tensor, in_spatial_dims: Sequence[Dim], use_mask: bool | None, func_name: str, value: float = 0.0
) -> Tensor:
    """:return: source, where frames beyond the end of a sequence have this value"""
    require_dims(f"{func_name}: in_spatial_dims", source, in_spatial_dims)
    if use_mask is None:
        use_mask = masks_frames(func_name)
    if source.raw_tensor is None:  # of a template, lengths can be unknown
        in_spatial_dims = [dim for dim in in_spatial_dims if dim.is_dim_known()]
    return source.copy_masked(value, dims=in_spatial_dims) if use_mask else source


def _inside(backend: Any, in_dims: Sequence[Dim], dtype: str) -> Tensor:
    """:return: [..., in_dims...]: 1 within sequences, 0 beyond their ends"""
    dims = list(in_dims)
    for dim in in_dims:
        lengths = dim.get_size_tensor() if dim.need_masking() else None
        dims = [*(d for d in (() if lengths is None else lengths.dims) if d not in dims), *dims]
    ones: Tensor = backend.full(dims, 1.0, dtype=dtype)
    return ones.copy_masked(0.0, dims=in_dims)


def _resolved(operation: str, padding: Padding, number: int) -> list[str | int]:
    """:return: for each axis; "same" as the config has it"""
    config = current_config()
    is_static = None if config is None else config.options.rf_use_consistent_same_padding
    if is_static is None:
        is_static = BehaviorVersion.get() >= 24
    values = [padding] * number if isinstance(padding, (str, int)) else list(padding)
    same = "same_static" if is_static else "same_dynamic"
    return paddings(operation, [same if isinstance(x, str) and x.lower() == "same" else x for x in values], number)
