"""Some dims as others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.copy import with_extra_deps
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


class ReshapeLayer(LayerBase):
    """
    Some dims as some others, in the order of the values, which includes padded frames.

    Source [..., in_dims...], output [..., out_dims...].
    """

    layer_class = "reshape"

    def __init__(
        self,
        in_dims: Sequence[str | Dim],
        out_dims: Sequence[Dim],
        extra_deps: list[LayerBase] | tuple[LayerBase, ...] = (),
        **kwargs: Any,
    ) -> None:
        """
        :param in_dims: dims of the source, the outermost first
        :param out_dims: the new dims, the outermost first. One can be without a size, it follows.
        :param extra_deps: other layers which are computed before, such as those that the lengths come from
        """
        super().__init__(**kwargs)
        self.in_dims = in_dims
        self.out_dims = out_dims
        self.extra_deps = extra_deps

    def compute(self, source: Tensor, *_others: Tensor) -> Tensor:
        """:return: [..., out_dims...]"""
        source = with_extra_deps(source, self.extra_deps)
        dims = [self.dim_of(source, dim, option="in_dims") for dim in self.in_dims]
        return rf.reshape(source, dims, self.out_dims)


class UnflattenNdLayer(_ConcatInputLayer):
    """
    Sequences that are flattened images, or the like, as images again.

    Source [B, T, ...], sizes [B, N], output [B, size_0, ..., size_N-1, ...].
    """

    layer_class = "unflatten_nd"
    recurrent = True

    def __init__(
        self,
        sizes: LayerBase,
        num_axes: int,
        in_dim: Any = "T",
        out_dims: Sequence[Dim] | None = None,
        declare_same_sizes_as: Mapping[int, LayerBase] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param sizes: [B, N], the sizes of each image, the outermost first
        :param num_axes: N
        :param in_dim: the dim to split, by description
        :param out_dims: the new dims
        :param declare_same_sizes_as: number of a new dim -> layer whose time dim it is
        """
        super().__init__(**kwargs)
        self.sizes = sizes
        self.num_axes = num_axes
        self.axis = in_dim
        self.out_dims = out_dims
        self.declare_same_sizes_as = declare_same_sizes_as or {}
        if out_dims is not None and len(out_dims) != num_axes:
            raise ConfigError(
                f"{self.where()}: option 'out_dims' has {len(out_dims)} dims, but num_axes is {num_axes}."
            )

        unknown = [number for number in self.declare_same_sizes_as if number not in range(num_axes)]
        if unknown:
            raise ConfigError(
                f"{self.where()}: option 'declare_same_sizes_as': there is no new dim {unknown[0]!r}.\n"
                f"  Possible: the numbers below num_axes, which is {num_axes}."
            )

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, size_0, ..., size_N-1, ...]"""
        axis = self.dim_of(source, self.axis, option="in_dim")
        out = rf.split_dims(source, axis=axis, dims=[self._dim(i) for i in range(self.num_axes)], pad_to_multiples=True)
        if self.num_axes and source.time_dim_axis is not None and source.dims[source.time_dim_axis] == axis:
            out = out.copy_with_roles(time_dim=self._dim(0))
        return out

    def _dim(self, number: int) -> Dim:
        sizes = self.sizes.output
        given = None if self.out_dims is None else self.out_dims[number]
        if number in self.declare_same_sizes_as:
            base = self.dim_of(self.declare_same_sizes_as[number].output, "T", option="declare_same_sizes_as")
            if given is not None and given != base:
                given.declare_same_as(base)
            return given or base
        dim = given or self.new_dim(f"size-{number}")
        if dim.size is None and dim.dyn_size is None:
            which = self.dims_of(sizes, "except_batch", option="sizes")
            num = which[-1].size if which else 0
            if num is not None and num <= number:
                raise ConfigError(
                    f"{self.where()}: option 'sizes': expected [B, {self.num_axes}], a size for each of the num_axes,"
                    f" got {sizes}."
                )
            dim.dyn_size_ext = rf.cast(rf.gather(sizes, indices=number, axis=which[-1]), "int32")
        return dim
