"""Tensors behind each other along a dim, and cut into pieces again."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import padded_dim
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.options.broadcasting import matched_by_size
from returnn.util.errors import ConfigError


class ConcatLayer(LayerBase):
    """
    The sources behind each other, each along a dim of its own: `"from": [("a", "T"), ("b", "T")]`.

    Sources [..., axis_i], output [..., axis_0 + axis_1 + ...]. Each source comes behind the longest sequence of the one
    before, as recorded: its padded frames stay in between, and the lengths are the sum. In a batch of one, or if all
    sequences are as long as each other, nothing is in between. `postfix_in_time` and `rf.concat` leave no gaps.
    """

    layer_class = "concat"

    def __init__(
        self, sources: Sequence[Any], allow_broadcast: bool = False, out_dim: Dim | None = None, **kwargs: Any
    ) -> None:
        """
        :param sources: pairs of layer and axis
        :param allow_broadcast: a source may lack some of the other dims; its values are repeated there
        :param out_dim: the new dim
        """
        super().__init__(sources=[layer for layer, _ in sources], out_dim=out_dim, **kwargs)
        self.axes = [axis for _, axis in sources]
        self.allow_broadcast = allow_broadcast

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """The sources are pairs. See `LayerBase.transform_config_dict`."""
        pairs = d.pop("from", [])
        if not isinstance(pairs, (list, tuple)) or not all(isinstance(p, (list, tuple)) and len(p) == 2 for p in pairs):
            where = f"layer {network.get_absolute_name_prefix()}{d['_name']} (class 'concat')"
            raise ConfigError(f"{where}: option 'from': expected pairs of source and axis, got {pairs!r}.")
        known: dict[str, Any] = {}  # in a loop, a layer may not be known yet
        d["from"] = [name for name, _ in pairs]
        super().transform_config_dict(
            d, network=network, get_layer=lambda name: known.setdefault(name, get_layer(name))
        )
        axes = [axis for name, axis in pairs if not isinstance(name, str) or name in known]
        d["sources"] = list(zip(d["sources"], axes, strict=True))

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: [..., axis_0 + axis_1 + ...]"""
        dims = [self.dim_of(source, axis, option="from") for source, axis in zip(sources, self.axes, strict=True)]
        sources = self._with_common_dims(sources)
        pairs = zip(matched_by_size(sources, apart=[*dims, *self.network.get_all_rec_time_dims()]), dims, strict=True)
        out, out_dim = _concat_in_memory(list(pairs), allow_broadcast=self.allow_broadcast, out_dim=self._out_dim)
        out = out.copy_with_roles(sparse_dim=sources[0].sparse_dim)
        if any(source.feature_dim == dim for source, dim in zip(sources, dims, strict=True)):
            out = out.copy_with_roles(feature_dim=out_dim)
        return out

    def _with_common_dims(self, sources: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """
        :return: the sources, each with all hypotheses of a search that one of them has; and where the layer was moved
            out of a loop, one from outside is the same in all frames
        """
        beams = list(dict.fromkeys(dim for source in sources for dim in source.dims if dim.is_beam_dim()))
        for dim in [*beams, *(self.network.get_all_rec_time_dims() if self.sees_all_frames else ())]:
            if any(dim in source.dims for source in sources):
                sources = [x if dim in x.dims else rf.expand_dim(x, dim) for x in sources]
        return tuple(sources)


def _concat_in_memory(
    pairs: Sequence[tuple[Tensor, Dim]], *, allow_broadcast: bool, out_dim: Dim | None
) -> tuple[Tensor, Dim]:
    """:return: the sources behind each other in memory; the dim, whose lengths are the sum of the lengths"""
    if not any(dim.need_masking() for _, dim in pairs[:-1]):
        return rf.concat(*pairs, allow_broadcast=allow_broadcast, out_dim=out_dim)
    total = functools.reduce(operator.add, [dim for _, dim in pairs])
    if out_dim is None:
        out_dim = total
    elif not out_dim.is_dim_known():
        out_dim.declare_same_as(total)
    in_memory = [rf.replace_dim(source, in_dim=dim, out_dim=padded_dim(dim)) for source, dim in pairs]
    out, all_frames = rf.concat(*in_memory, allow_broadcast=allow_broadcast)
    longest = padded_dim(out_dim)
    if longest is not all_frames:
        out, longest = rf.slice(out, axis=all_frames, size=longest)
    return rf.replace_dim(out, in_dim=longest, out_dim=out_dim)


class SplitLayer(_ConcatInputLayer):
    """
    Cuts a dim into pieces, which are the sub layers "name/0", "name/1", ... The output itself is the source.

    Source [..., axis], sub layers [..., piece].
    """

    layer_class = "split"

    def __init__(
        self,
        axis: Any = None,
        num_splits: int | None = None,
        size_splits: Sequence[int] | None = None,
        out_dims: Sequence[Dim] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description. Default: "F"
        :param num_splits: number of pieces, all of the same size
        :param size_splits: sizes of the pieces
        :param out_dims: dims of the pieces; with them, the other options need not be given
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.num_splits = num_splits
        self.size_splits = size_splits
        self.split_dims = out_dims
        self._pieces: Sequence[Tensor] = ()
        if num_splits is None and size_splits is None and out_dims is None:
            raise ConfigError(f"{self.where()}: give one of the options 'num_splits', 'size_splits', 'out_dims'.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: the source"""
        axis = self.dim_of(source, "F" if self.axis is None else self.axis, option="axis")
        self._pieces = rf.split(source, axis=axis, out_dims=self._dims_of_pieces(axis))
        return source

    def _dims_of_pieces(self, axis: Dim) -> Sequence[Dim]:
        sizes = self._sizes_of_pieces(axis)
        if self.split_dims is None:
            return [self.new_dim(f"piece-{i}", size, kind=axis.kind) for i, size in enumerate(sizes or ())]
        of_dims = [dim.size for dim in self.split_dims]
        if sizes not in (None, of_dims):
            raise ConfigError(
                f"{self.where()}: option 'out_dims': the sizes {of_dims} are not those of the other options, {sizes}."
            )
        return self.split_dims

    def _sizes_of_pieces(self, axis: Dim) -> list[int] | None:
        """:return: None if only `out_dims` has them"""
        num = self.num_splits
        if self.size_splits is not None:
            sizes = list(self.size_splits)
            if num not in (None, len(sizes)):
                raise ConfigError(f"{self.where()}: option 'num_splits' is {num}, but 'size_splits' is {sizes}.")
            if axis.size is not None and sum(sizes) != axis.size:
                raise ConfigError(f"{self.where()}: option 'size_splits': {sizes} do not sum up to {axis}.")
            return sizes
        if num is None:
            return None
        if axis.size is None or axis.size % num:
            raise ConfigError(f"{self.where()}: option 'num_splits': {axis} has no {num} equal parts.")
        return [axis.size // num] * num

    @classmethod
    def get_available_sub_layer_names(cls, parent_layer_kwargs: dict[str, Any]) -> list[str]:
        """:return: "0", "1", ..., one for each piece"""
        options = parent_layer_kwargs
        pieces = options.get("out_dims") or options.get("size_splits") or range(options.get("num_splits") or 0)
        return [str(i) for i in range(len(pieces))]

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: one of the pieces"""
        if not layer_name.isdigit() or int(layer_name) >= len(self._pieces):
            return None
        piece = self._pieces[int(layer_name)].copy()
        piece.version = 1
        return InternalLayer(name=f"{self.name}/{layer_name}", network=self.network, output=piece, sources=[self])
