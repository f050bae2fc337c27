"""
Layers with one input: the output of the source, or of several sources, one behind the other in the feature dim.

Dropout and a choice of the feature dim can be applied to it first.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_axes import find_dims
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.broadcasting import matched_by_size
from returnn.tf.layers.options.layer_errors import naming_option
from returnn.tf.layers.options.time_dims_of_data import naming_time_dims, one_time_dim_warning, with_one_time_dim
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.not_specified import NotSpecified


def concat_sources(
    src_layers: Sequence[LayerBase],
    out_dim: Dim | None = None,
    allow_broadcast_all_sources: bool | type[NotSpecified] = NotSpecified,
) -> Tensor:
    """
    :param src_layers: one layer, or several with feature dims
    :param out_dim: the feature dim of the result
    :param allow_broadcast_all_sources: whether it is fine that no source has all dims
    :return: {..., F1 + F2 + ...}: the outputs, one behind the other in the feature dim
    """
    assert src_layers, "no sources"
    tensors = [layer.output for layer in src_layers]
    if len(tensors) == 1:
        if out_dim is not None and tensors[0].feature_dim_or_sparse_dim is not None:
            tensors[0].feature_dim_or_sparse_dim.declare_same_as(out_dim)
        return tensors[0].copy()
    without = [str(x) for x in tensors if x.feature_dim is None]
    if without:
        raise ConfigError(f"several sources are joined in their feature dim, but {', '.join(without)} has none.")
    loop_dims = {dim for layer in src_layers for dim in layer.network.get_all_rec_time_dims()}
    tensors = matched_by_size(tensors, apart=[*(x.feature_dim for x in tensors), *loop_dims])
    tensors = with_one_time_dim(src_layers, tensors, loop_dims)
    pairs = [(x, x.feature_dim) for x in _with_dims_of_steps(tensors, loop_dims)]
    with naming_time_dims(src_layers[0].network, tensors):
        result, dim = rf.concat(*pairs, allow_broadcast=allow_broadcast_all_sources is not False, out_dim=out_dim)
    return result.copy_with_roles(feature_dim=dim)


def _with_dims_of_steps(tensors: Sequence[Tensor], loop_dims: Collection[Dim]) -> list[Tensor]:
    """
    Frames of several loops, of which steps are joined: where all of them are computed at once, none may have all dims.

    :param tensors: which are joined in their feature dims
    :param loop_dims: dims of the loops around
    :return: the largest one has all dims of loops and beams, too
    """
    dims = dict.fromkeys(dim for x in tensors for dim in x.dims if dim in loop_dims or dim.is_beam_dim())
    largest = max(tensors, key=lambda x: len(x.dims))
    missing = [dim for dim in dims if dim not in largest.dims]
    return [rf.expand_to(x, [*missing, *x.dims]) if x is largest else x for x in tensors] if missing else list(tensors)


def joined_sources(
    src_layers: Sequence[LayerBase],
    out_dim: Dim | None = None,
    dropout: float = 0,
    dropout_axis: Any = None,
    dropout_noise_shape: Any = None,
    dropout_on_forward: bool = False,
    allow_broadcast_all_sources: bool | type[NotSpecified] = NotSpecified,
) -> Tensor:
    """:return: like `concat_sources`, with dropout, see `_ConcatInputLayer`, in the scope of the layer that needs it"""
    data = concat_sources(src_layers, out_dim=out_dim, allow_broadcast_all_sources=allow_broadcast_all_sources)
    if not dropout:
        return data
    if data.sparse_dim is not None:
        raise ConfigError(
            f"option 'dropout': the source {data} has labels, of which none can be dropped.\n"
            "  Vectors of labels can: by a layer of the class 'dropout' behind this one."
        )
    axes = _dropout_axes(data, dropout_axis, dropout_noise_shape)
    return rf.dropout(data, dropout, axis=axes, on_forward=dropout_on_forward)


@functools.wraps(joined_sources, assigned=())
def concat_sources_with_opt_dropout(src_layers: Sequence[LayerBase], *args: Any, **options: Any) -> Tensor:
    """:return: the same for code of users, with dropout as the network of the layers trains or not"""
    with src_layers[0].network.construction.compute_scope(src_layers[0], "dropout"):
        return joined_sources(src_layers, *args, **options)


def get_concat_sources_data_template(
    src_layers: Sequence[LayerBase],
    out_dim: Dim | None = None,
    allow_broadcast_all_sources: bool | type[NotSpecified] = NotSpecified,
    name: str | None = None,
) -> Tensor:
    """:return: template of `concat_sources`"""
    with rf.backend_ctx("template"):
        data = concat_sources(src_layers, out_dim=out_dim, allow_broadcast_all_sources=allow_broadcast_all_sources)
    return data.copy_template(name=name)


class _ConcatInputLayer(LayerBase):
    """Base class of layers with one input. `compute` gets the joined sources, after dropout."""

    keeps_feature_dim: ClassVar[bool] = False  # so the option `out_dim` is another name for `in_dim`

    def __init__(
        self,
        in_dim: Dim | None = None,
        out_shape: Any = None,
        dropout: float = 0,
        dropout_axis: Any = None,
        dropout_noise_shape: Any = None,
        dropout_on_forward: bool = False,
        mask: str | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param in_dim: which dim of the source is the feature dim
        :param out_shape: promise about the dims of the output
        :param dropout: probability to drop an entry of the input, in training
        :param dropout_axis: dims along which entries are dropped on their own; along others, together
        :param dropout_noise_shape: the same as sizes: 1 for dims along which entries are dropped together, else None;
            or by axis, with "*" for all others. Default: together along all but the feature dim. So `{"*": None}`
            drops all entries on their own
        :param dropout_on_forward: also outside of training
        :param mask: "dropout": multiply the input with a random 0/1 mask, of mean 1/2; "unity": no mask
        """
        super().__init__(in_dim=in_dim, out_shape=out_shape, **kwargs)
        self.dropout = dropout
        self.dropout_axis = dropout_axis
        self.dropout_noise_shape = dropout_noise_shape
        self.dropout_on_forward = dropout_on_forward
        self.mask = mask
        if isinstance(dropout, (int, float)) and not 0 <= dropout < 1:
            raise ConfigError(f"{self.where()}: option 'dropout' has to be at least 0 and below 1, not {dropout}.")
        if mask is not None:
            check_known("mask", mask, ("dropout", "unity"), where=self.where())
        self._input_data: Tensor | None = None

    @property
    def input_data(self) -> Tensor | None:
        """The joined sources, after dropout. None without sources."""
        if self._input_data is None and self.sources:
            with self.network.construction.compute_scope(self):
                self._input_data = self._make_input_data()
        return self._input_data

    def compute_inputs(self) -> list[Tensor]:
        """:return: the joined sources"""
        if not self.sources:
            raise ConfigError(f"{self.where()}: a source is required (option 'from').")
        data = self.input_data
        assert data is not None
        return [data]

    def _make_input_data(self) -> Tensor:
        in_dim = self._out_dim if self.keeps_feature_dim and self.in_dim is None else self.in_dim
        self.warning = one_time_dim_warning(self) or self.warning
        data = joined_sources(
            self.sources,
            out_dim=in_dim if len(self.sources) > 1 else None,
            dropout=self.dropout,
            dropout_axis=self.dropout_axis,
            dropout_noise_shape=self.dropout_noise_shape,
            dropout_on_forward=self.dropout_on_forward,
        )
        if in_dim is not None and data.feature_dim_or_sparse_dim != in_dim:
            data = _with_feature_dim(data, in_dim, self.where(), option="in_dim" if self.in_dim else "out_dim")
        if self.mask == "dropout":
            data = rf.dropout(data, 0.5, axis=list(data.dims))
        return data


def _with_feature_dim(data: Tensor, in_dim: Dim, where: str, *, option: str) -> Tensor:
    axes = [i for i, d in enumerate(data.dims) if d == in_dim]
    if not axes:
        own = data.feature_dim_or_sparse_dim
        if own is not None and own.dimension == in_dim.dimension and not in_dim.is_derived():
            own.declare_same_as(in_dim)
            return data
        raise ConfigError(f"{where}: option {option!r}: {in_dim} is not a dim of the source {data}.")
    return data.copy_with_roles(feature_dim=in_dim)


def _dropout_axes(data: Tensor, dropout_axis: Any, noise_shape: Any) -> list[Dim]:
    """:return: the dims along which entries are dropped on their own"""
    if dropout_axis is not None:
        if noise_shape is not None:
            raise UserError("the options 'dropout_axis' and 'dropout_noise_shape' exclude each other.")
        with naming_option("dropout_axis"):
            return find_dims(data, dropout_axis)
    if noise_shape is None or isinstance(noise_shape, Mapping):
        together = data.get_bc_axes(noise_shape)
    else:
        sizes = list(noise_shape)
        if len(sizes) != len(data.dims):
            raise UserError(f"option 'dropout_noise_shape': {sizes} does not have one size for each axis of {data}.")
        together = {i for i, size in enumerate(sizes) if size == 1}
    return [dim for i, dim in enumerate(data.dims) if i not in together]
