"""
Names by which old configs and layer classes know the lengths of a dim.

Once, a dim had a copy for each batch layout and each loop. Now lengths are known per scope, see
`returnn.tensor.scope`, and a dim is the same everywhere; what is left of the copies are these names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from returnn.tensor import dim_math
from returnn.tensor._frontend import backend_of_raw, frontend

if TYPE_CHECKING:
    from returnn.tensor.batch_info import BatchInfo
    from returnn.tensor.control_flow_ctx import ControlFlowContext
    from returnn.tensor.dim import Dim
    from returnn.tensor.tensor import Tensor

_TAG_ATTRIBUTE = "_returnn_dim"  # set on raw tensors of lengths


class DimOldNames:
    """The part of `Dim` with old names."""

    dyn_size_ext: Any

    @property
    def batch(self: Dim) -> BatchInfo | None:
        """The batch that the lengths are for, if they are known."""
        lengths = self.dyn_size_ext
        return None if lengths is None else lengths.batch

    @property
    def control_flow_ctx(self: Dim) -> ControlFlowContext | None:
        """The loop that the lengths were computed in, if any."""
        lengths = self.dyn_size_ext
        return None if lengths is None else lengths.control_flow_ctx

    def get_for_batch_ctx(
        self: Dim, batch: BatchInfo | None, ctx: ControlFlowContext | None, *, allow_none: bool = False
    ) -> Dim:
        """:return: this dim, which is the same in all batches and loops"""
        return self

    def get_dyn_size_ext_for_batch_ctx(
        self: Dim, batch: BatchInfo | None, ctx: ControlFlowContext | None, template_only: bool = False
    ) -> Tensor | None:
        """:return: the lengths that are valid here; with `template_only` their dims alone"""
        lengths = self.dyn_size_ext
        return lengths.copy_template() if lengths is not None and template_only else lengths

    def set_dyn_size_ext_for_batch_ctx(
        self: Dim, batch: BatchInfo | None, ctx: ControlFlowContext | None, dyn_size_ext: Tensor
    ) -> None:
        """Sets the lengths that are valid here."""
        self.dyn_size_ext = dyn_size_ext

    def is_dim_known_in_batch_ctx(self: Dim, batch: BatchInfo | None, ctx: ControlFlowContext | None) -> bool:
        """:return: whether the size or the lengths are known here"""
        return self.is_dim_known()

    def reset_batch_and_raw(self: Dim) -> None:
        """Forgets the lengths, so that they can be given anew."""
        self.dyn_size_ext = None

    def reset_batch_ctx(self: Dim) -> None:
        """Forgets the lengths, so that they can be given anew."""
        self.dyn_size_ext = None

    def reset_eager(self: Dim) -> None:
        """Forgets the values of the lengths, as between two steps of eager code; their dims stay known."""
        self.reset_raw()

    def transform_tensors(self: Dim, func: Callable[[Tensor], Tensor]) -> None:
        """Replaces the lengths by `func(lengths)`."""
        lengths = self.get_same_base()._lookup("lengths")
        if lengths is not None:
            self.dyn_size_ext = func(lengths)

    def copy_from(self: Dim, other: Dim) -> None:
        """Takes over size and lengths of another dim."""
        self.size, self.capacity = other.size, other.capacity
        self._expression = other._expression
        self._key_cache = (-1, None)
        if other.size is None and other.dyn_size_ext is not None:
            self.dyn_size_ext = other.dyn_size_ext

    def axis_split_info(self: Dim) -> list[Dim | int]:
        """:return: the factors of the dim if it is a product (as of merged axes), otherwise just itself"""
        terms = self.expression.terms
        if len(terms) != 1 or len(terms[0].factors) < 2:
            return [self]
        dims = [factor.dim for factor in terms[0].factors if isinstance(factor, dim_math.Atom)]
        if len(dims) != len(terms[0].factors):
            return [self]
        coefficient = terms[0].coefficient
        return [*([coefficient] if coefficient != 1 else []), *dims]

    def set_tag_on_size_tensor(self: Dim, x: Any, batch: BatchInfo | None = None, same_as_before: bool = False) -> Dim:
        """
        Notes on the raw tensor `x` of lengths that they belong to this dim.

        :param x: raw tensor
        :param batch: not needed
        :param same_as_before: `x` holds the same lengths as the dim had already
        :return: this dim, or the one that `x` belonged to before
        """
        known = self.get_tag_from_size_tensor(x)
        if known is not None and known is not self:
            self.declare_same_as(known)
            return known
        setattr(x, _TAG_ATTRIBUTE, self)
        if self.size is None and not same_as_before and (self.dyn_size_ext is None or self.dyn_size is None):
            backend = backend_of_raw(x)
            dims = frontend().batch_dims_for_raw(backend.get_ndim_raw(x))
            self.dyn_size_ext = frontend().convert_to_tensor(x, dims=dims, name=f"{self.name}:lengths")
        return self

    @classmethod
    def get_tag_from_size_tensor(cls, x: Any) -> Dim | None:
        """:return: the dim which the raw tensor `x` of lengths belongs to, if that was noted on it"""
        return getattr(x, _TAG_ATTRIBUTE, None)

    def is_same_size_tensor(self: Dim, x: Any) -> bool:
        """:return: whether the raw tensor `x` holds the lengths of this dim"""
        return x is self.dyn_size or self.get_tag_from_size_tensor(x) == self
