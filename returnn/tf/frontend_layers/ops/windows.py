"""
Windows that move along axes: convolution and pooling, by the layers of these names.

Paddings of the frontend that the layers lack are layers of class "pad" before them: numbers of frames, and
"same_static" with a stride, which is another one there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.nn.conv_windows import Padding, Window, windows
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers.ops.axes import AxesLayers
from returnn.tf.frontend_layers.recording import as_recorded, record, record_expression, template_backend

_SAME_IN_MEMORY = "same_dynamic"  # what the layers call "same"


class WindowLayers(AxesLayers):
    """For their meaning see `returnn.frontend._ops.nn.conv`."""

    @classmethod
    def conv(
        cls,
        source: Tensor[Any],
        *,
        in_dim: Dim,
        out_dim: Dim,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
        filter: Tensor[Any],
        filter_size: Sequence[Dim],
        padding: Padding,
        strides: int | Sequence[int] | None = None,
        dilation_rate: int | Sequence[int] | None = None,
        groups: int | None = None,
        bias: Tensor[Any] | None = None,
    ) -> tuple[Tensor[Any], Sequence[Dim]]:
        """:return: by a layer of class "conv" """
        numbers: dict[str, Any] = {"padding": padding, "strides": strides, "dilation_rate": dilation_rate}
        given: dict[str, Any] = {"in_dim": in_dim, "out_dim": out_dim, "in_spatial_dims": in_spatial_dims}
        given.update(numbers, out_spatial_dims=out_spatial_dims, filter_size=filter_size, groups=groups)
        template, out_spatial_dims = template_backend().conv(
            source.copy_template(),
            **given,
            filter=filter.copy_template(),
            bias=None if bias is None else bias.copy_template(),
        )
        moved = windows("conv", len(in_spatial_dims), size=filter_size, **numbers)
        if _needs_size_in_memory(moved):
            given["out_spatial_dims"] = out_spatial_dims
            out: tuple[Tensor[Any], Sequence[Dim]] = record_expression(
                "conv", source, **given, filter=filter, bias=bias
            )
            return out
        source, spatial, name = cls._padded(source, in_spatial_dims, moved, 0)
        options: dict[str, Any] = {"class": "conv", "from": as_recorded(source), "in_dim": in_dim, "out_dim": out_dim}
        options.update(in_spatial_dims=list(spatial), out_spatial_dims=list(out_spatial_dims), padding=name)
        options.update(filter_size=list(filter_size), filter=as_recorded(filter))
        if any(window.stride > 1 for window in moved):
            options["strides"] = [window.stride for window in moved]
        if any(window.dilation > 1 for window in moved):
            options["dilation_rate"] = [window.dilation for window in moved]
        if groups is not None and groups > 1:
            options["groups"] = groups
        return record(template, {**options, **_bias_options(bias)}), out_spatial_dims

    @classmethod
    def transposed_conv(
        cls,
        source: Tensor[Any],
        *,
        in_dim: Dim,
        out_dim: Dim,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
        filter: Tensor[Any],
        filter_size: Sequence[Dim],
        padding: Padding,
        remove_padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int | None] | None = None,
        strides: int | Sequence[int] | None = None,
        bias: Tensor[Any] | None = None,
    ) -> tuple[Tensor[Any], Sequence[Dim]]:
        """:return: by a layer of class "transposed_conv" """
        numbers: dict[str, Any] = {"padding": padding, "strides": strides}
        numbers.update(remove_padding=remove_padding, output_padding=output_padding)
        dims: dict[str, Any] = {"in_dim": in_dim, "out_dim": out_dim, "in_spatial_dims": in_spatial_dims}
        dims["filter_size"] = filter_size
        template, out_spatial_dims = template_backend().transposed_conv(
            source.copy_template(),
            **dims,
            **numbers,
            out_spatial_dims=out_spatial_dims,
            filter=filter.copy_template(),
            bias=None if bias is None else bias.copy_template(),
        )
        if isinstance(padding, (list, tuple)) and len(set(padding)) == 1:
            numbers["padding"] = padding[0]
        if not isinstance(numbers["padding"], str) or numbers["padding"] not in ("same", "valid"):
            out: tuple[Tensor[Any], Sequence[Dim]] = record_expression(
                "transposed_conv",
                source,
                **dims,
                **numbers,
                out_spatial_dims=out_spatial_dims,
                filter=filter,
                bias=bias,
            )
            return out
        options: dict[str, Any] = {
            "class": "transposed_conv",
            "from": as_recorded(source),
            "filter": as_recorded(filter),
        }
        options.update({key: list(x) if isinstance(x, (list, tuple)) else x for key, x in dims.items()})
        options.update({key: x for key, x in numbers.items() if x is not None and (key != "remove_padding" or x != 0)})
        options["out_spatial_dims"] = list(out_spatial_dims)
        return record(template, {**options, **_bias_options(bias)}), out_spatial_dims

    @classmethod
    def pool(
        cls,
        source: Tensor[Any],
        *,
        mode: str,
        pool_size: int | Sequence[int],
        padding: Padding = "valid",
        dilation_rate: int | Sequence[int] = 1,
        strides: int | Sequence[int],
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
    ) -> tuple[Tensor[Any], Sequence[Dim]]:
        """:return: by a layer of class "pool", but for an average with padding that the layer would count"""
        numbers: dict[str, Any] = {"pool_size": pool_size, "strides": strides, "dilation_rate": dilation_rate}
        template, out_spatial_dims = template_backend().pool(
            source.copy_template(),
            mode=mode,
            **numbers,
            padding=padding,
            in_spatial_dims=in_spatial_dims,
            out_spatial_dims=out_spatial_dims,
        )
        moved = windows(
            "pool", len(in_spatial_dims), size=pool_size, strides=strides, dilation_rate=dilation_rate, padding=padding
        )
        if _needs_size_in_memory(moved) or (mode != "max" and _name_of_padding(moved) is None):
            out: tuple[Tensor[Any], Sequence[Dim]] = record_expression(
                "pool",
                source,
                mode=mode,
                **numbers,
                padding=padding,
                in_spatial_dims=in_spatial_dims,
                out_spatial_dims=out_spatial_dims,
            )
            return out
        source, spatial, name = cls._padded(source, in_spatial_dims, moved, -float("inf"))
        options: dict[str, Any] = {"class": "pool", "mode": mode, "from": as_recorded(source), "padding": name}
        options.update(in_spatial_dims=list(spatial), out_spatial_dims=list(out_spatial_dims))
        options.update(pool_size=[window.size for window in moved], strides=[window.stride for window in moved])
        if any(window.dilation > 1 for window in moved):
            options["dilation_rate"] = [window.dilation for window in moved]
        return record(template, options), out_spatial_dims

    @classmethod
    def _padded(
        cls, source: Tensor[Any], dims: Sequence[Dim], moved: Sequence[Window], value: float
    ) -> tuple[Tensor[Any], Sequence[Dim], str]:
        """:return: source, with what the layer cannot pad itself; its spatial dims; option `padding` of the layer"""
        name = _name_of_padding(moved)
        if name is not None:
            return source, dims, name
        amounts = [window.padding_for(0) for window in moved]  # which do not depend on the size
        new_dims = [left + dim + right for dim, (left, right) in zip(dims, amounts, strict=True)]
        longer = cls.pad(
            source,
            axes=dims,
            padding=amounts,
            out_dims=new_dims,
            handle_dynamic_dims=False,
            mode="constant",
            value=value,
        )
        return longer, new_dims, "valid"


def _name_of_padding(moved: Sequence[Window]) -> str | None:
    """:return: as the layers call it; None if there is no name for it, so that frames have to be added before"""
    if all(window.padding == "valid" for window in moved):
        return "valid"
    if all(w.padding == _SAME_IN_MEMORY or (w.stride == 1 and not isinstance(w.padding, int)) for w in moved):
        return None if any(window.padding == "valid" for window in moved) else "same"
    return None


def _needs_size_in_memory(moved: Sequence[Window]) -> bool:
    """:return: whether the padding of an axis depends on its size, while another axis has one that the layer lacks"""
    return _name_of_padding(moved) is None and any(window.static_padding() is None for window in moved)


def _bias_options(bias: Tensor[Any] | None) -> dict[str, Any]:
    return {"with_bias": False} if bias is None else {"with_bias": True, "bias": as_recorded(bias)}
