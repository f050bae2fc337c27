"""Another order of the axes in memory. No other layer cares about it, only the user's own TensorFlow code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified


class SwapAxesLayer(_ConcatInputLayer):
    """
    Swaps two axes.

    They keep their dims, and so their meaning. Only the feature axis stays where it was: if it is swapped, the dim that
    comes there is the feature dim; if that is a dynamic one, it is the last one of fixed size.
    """

    layer_class = "swap_axes"
    keeps_zeros = True

    def __init__(self, axis1: Any, axis2: Any, **kwargs: Any) -> None:
        """
        :param axis1: by description
        :param axis2: by description
        """
        super().__init__(**kwargs)
        self.axis1 = axis1
        self.axis2 = axis2

    def compute(self, source: Tensor) -> Tensor:
        """:return: the same dims in another order"""
        dims = (
            self.dim_of(source, self.axis1, option="axis1"),
            self.dim_of(source, self.axis2, option="axis2"),
        )
        axes = [source.get_axis_from_description(dim) for dim in dims]
        out = source.copy_swap_axes(*axes)
        feature_axis = source.feature_dim_axis
        if feature_axis not in axes or out.sparse:
            return _with_last_static_as_feature(out)
        if out.dims[feature_axis].dimension is None:
            return _with_last_static_as_feature(out, always=True)
        return out.copy_with_roles(feature_dim=out.dims[feature_axis])


class TransposeLayer(_ConcatInputLayer):
    """Puts the axes in another order. They keep their dims, and so their meaning."""

    layer_class = "transpose"
    keeps_zeros = True

    def __init__(self, perm: Mapping[Any, Any] | Sequence[Any], **kwargs: Any) -> None:
        """
        :param perm: axis of the output -> axis of the source which comes there, both by description in the source; or
            all axes of the source in their new order
        """
        super().__init__(**kwargs)
        self.perm = perm

    def compute(self, source: Tensor) -> Tensor:
        """:return: the same dims in another order"""
        out = self.transpose(source, self.get_perm_int(source))
        return out if source.feature_dim is None else out.copy_with_roles(feature_dim=source.feature_dim)

    def get_perm_int(self, source: Tensor) -> dict[int, int]:
        """:return: `perm` with numbers of axes"""
        if isinstance(self.perm, Mapping):
            return perm_of_axes(self, source, self.perm)
        axes = [source.get_axis_from_description(self.dim_of(source, axis, option="perm")) for axis in self.perm]
        if sorted(axes) != list(range(len(source.dims))):
            raise ConfigError(
                f"{self.where()}: option 'perm': {list(self.perm)} are not all axes of {source}, each once."
            )
        return dict(enumerate(axes))

    def transpose(self, source: Tensor, perm: Mapping[int, int]) -> Tensor:
        """:return: the source with its axes in the order that `perm` says; the others keep theirs"""
        return transposed(source, perm)


def perm_of_axes(layer: LayerBase, source: Tensor, perm: Mapping[Any, Any], *, option: str = "perm") -> dict[int, int]:
    """
    :param layer: that has the option
    :param source: to transpose
    :param perm: axis of the output -> axis of the source which comes there, both by description in the source
    :param option: name of the option
    :return: with numbers of axes
    :raises ConfigError: if an axis occurs twice
    """

    def number_of(axis: Any) -> int:
        return source.get_axis_from_description(layer.dim_of(source, axis, option=option))

    pairs = [(number_of(to), number_of(source_axis)) for to, source_axis in perm.items()]
    if any(len(set(axes)) != len(perm) for axes in zip(*pairs, strict=True)):
        raise ConfigError(f"{layer.where()}: option {option!r}: an axis of {source} occurs twice in {perm}.")
    return dict(pairs)


def transposed(source: Tensor, perm: Mapping[int, int]) -> Tensor:
    """:return: the source with its axes in the order that `perm` says; the others keep theirs"""
    rest = [axis for axis in range(len(source.dims)) if axis not in perm.values()]
    return source.copy_transpose([perm[i] if i in perm else rest.pop(0) for i in range(len(source.dims))])


def _with_last_static_as_feature(out: Tensor, *, always: bool = False) -> Tensor:
    """:return: with another feature axis, if nobody ever said which it is, or if `always`"""
    if (always or out.feature_dim_axis_or_unspecified is NotSpecified) and not out.sparse:
        static = [axis for axis in out.get_static_axes() if not out.dims[axis].is_batch_dim()]
        out.feature_dim_axis = static[-1] if static else NotSpecified
    return out
