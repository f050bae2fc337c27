"""
Names by which old configs and layer classes know a dim and its lengths.

Once, a dim had a copy for each batch layout and each loop. Now lengths are known per scope, see
`returnn.tensor.scope`, and a dim is the same everywhere; what is left of the copies are these names.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from returnn.tensor import dim_math
from returnn.tensor._frontend import backend_of_raw, operations
from returnn.tensor.batch_info import BatchInfo
from returnn.tensor.control_flow_ctx import ControlFlowContext
from returnn.tensor.dim import Dim, batch_dim
from returnn.tensor.tensor import Tensor
from returnn.tensor.tensor_batch import declare_to_be_the_batch
from returnn.util.errors import DimError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from typing_extensions import Self

_TAG_ATTRIBUTE = "_returnn_dim"  # set on raw tensors of lengths


class DimOldNames(Dim):
    """What `Dim` gets from here."""

    @property
    def description(self) -> str | None:
        """Old word for `name`."""
        return self.name

    @property
    def batch(self) -> BatchInfo | None:
        """The batch that the lengths are for, if they are known."""
        lengths = self.dyn_size_ext
        return None if lengths is None else lengths.batch

    @property
    def control_flow_ctx(self) -> ControlFlowContext | None:
        """The loop that the lengths were computed in, if any."""
        lengths = self.dyn_size_ext
        return None if lengths is None else lengths.control_flow_ctx

    def get_for_batch_ctx(
        self, batch: BatchInfo | None, ctx: ControlFlowContext | None, *, allow_none: bool = False
    ) -> Dim:
        """:return: this dim, which is the same in all batches and loops"""
        return self

    def get_dyn_size_ext_for_batch_ctx(
        self, batch: BatchInfo | None, ctx: ControlFlowContext | None, template_only: bool = False
    ) -> Tensor | None:
        """:return: the lengths that are valid here; with `template_only` their dims alone"""
        lengths = self.dyn_size_ext
        return lengths.copy_template() if lengths is not None and template_only else lengths

    def set_dyn_size_ext_for_batch_ctx(
        self, batch: BatchInfo | None, ctx: ControlFlowContext | None, dyn_size_ext: Tensor
    ) -> None:
        """Sets the lengths that are valid here."""
        self.dyn_size_ext = dyn_size_ext

    def is_dim_known_in_batch_ctx(self, batch: BatchInfo | None, ctx: ControlFlowContext | None) -> bool:
        """:return: whether the size or the lengths are known here"""
        return self.is_dim_known()

    def reset_batch_and_raw(self) -> None:
        """Forgets the lengths, so that they can be given anew."""
        self.dyn_size_ext = None

    def reset_batch_ctx(self) -> None:
        """Forgets the lengths, so that they can be given anew."""
        self.dyn_size_ext = None

    def reset_eager(self) -> None:
        """Forgets the values of the lengths, as between two steps of eager code; their dims stay known."""
        self.reset_raw()

    def transform_tensors(self, func: Callable[[Tensor], Tensor]) -> None:
        """Replaces the lengths by `func(lengths)`."""
        lengths = self.get_same_base()._lookup("lengths")
        if lengths is not None:
            self.dyn_size_ext = func(lengths)

    def copy_from(self, other: Dim) -> None:
        """Takes over size and lengths of another dim."""
        self.size, self.capacity = other.size, other.capacity
        self._expression = other._expression
        self._key_cache = (-1, None)
        if other.size is None and other.dyn_size_ext is not None:
            self.take_lengths_of(other)

    @property
    def derived_from_op(self) -> dim_math.Sum | None:
        """The expression that it was computed by, None if it was not computed."""
        return self.expression if self.is_derived() else None

    def truediv_left(self, other: Self | int) -> Self:
        """:return: old word for `div_left`"""
        return self.div_left(other)

    def truediv_right(self, other: Self | int) -> Self:
        """:return: old word for `div_right`"""
        return self.div_right(other)

    def derive_from(self, base: Self, *, set_derived_from_flag: bool = True) -> None:
        """
        Takes what is missing here (kind, lengths) from the dim that this one comes from.

        :param base: the dim that this one comes from
        :param set_derived_from_flag: whether `derived_from_tag` notes it
        """
        if set_derived_from_flag and self.derived_from_tag is None and base != self:
            self.derived_from_tag = base
        if self.kind is None:
            self.kind = base.kind
        if self.size is None and self.dyn_size_ext is None and base.dyn_size_ext is not None:
            self.dyn_size_ext = base.dyn_size_ext.copy_template()

    def complete_dyn_size(self, *, template_only: bool = False, _backend: Any = None) -> None:
        """Computes the lengths, if they follow from other dims. Lengths are computed when they are asked for anyway."""
        if not template_only:
            _ = self.dyn_size_ext

    def is_constant_static_dim(self) -> bool:
        """:return: whether it was made from a number alone"""
        return self.size is not None and self.auto_generated and self._expression is None

    def can_be_used_as_dim(self) -> bool:
        """:return: whether a tensor can have it as an axis; markers cannot"""
        return not self.special

    def set_tag_on_size_tensor(self, x: Any, batch: BatchInfo | None = None, same_as_before: bool = False) -> Dim:
        """
        Notes on the raw tensor `x` of lengths that they belong to this dim.

        :param x: raw tensor
        :param batch: not needed
        :param same_as_before: `x` holds the same lengths as the dim had already
        :return: this dim, or the one that `x` belonged to before
        """
        known: Self | None = dim_of_lengths(x)
        if known is not None and known is not self:
            self.declare_same_as(known)
            return known
        note_dim_of_lengths(x, self)
        if self.size is None and not same_as_before and (self.dyn_size_ext is None or self.dyn_size is None):
            backend = backend_of_raw(x)
            if backend.get_ndim_raw(x) > 1:
                raise DimError(f"dim {self.name!r}: lengths have one axis, that of the batch, or none, not {x}.")
            dims = (batch_dim,) * backend.get_ndim_raw(x)
            self.dyn_size_ext = operations().convert_to_tensor(x, dims=dims, name=f"{self.name}:lengths")
        return self

    @classmethod
    def get_tag_from_size_tensor(cls, x: Any) -> Self | None:
        """:return: the dim which the raw tensor `x` of lengths belongs to, if that was noted on it"""
        dim: Self | None = dim_of_lengths(x)
        return dim

    def is_same_size_tensor(self, x: Any) -> bool:
        """:return: whether the raw tensor `x` holds the lengths of this dim"""
        return x is self.dyn_size or dim_of_lengths(x) == self


def dim_of_lengths(x: Any) -> Any:
    """:return: the dim which the raw tensor `x` of lengths belongs to, if that was noted on it; else None"""
    return getattr(x, _TAG_ATTRIBUTE, None)


def note_dim_of_lengths(x: Any, dim: Dim) -> None:
    """Notes on the raw tensor `x` of lengths that they belong to this dim, if they belong to none yet."""
    if dim_of_lengths(x) is None:
        with contextlib.suppress(AttributeError):  # an array has no attributes
            setattr(x, _TAG_ATTRIBUTE, dim)


def set_dyn_size(dim: Dim, lengths: Any) -> None:
    """
    :param dim: without a size
    :param lengths: raw tensor, of shape (B,) or a scalar
    :raises DimError: if the dim has a size
    """
    if dim.size is not None:
        raise DimError(f"dim {dim.name!r} has the size {dim.size}, so it cannot have lengths too.")
    dims = (batch_dim,) * backend_of_raw(lengths).get_ndim_raw(lengths)
    dim.dyn_size_ext = operations().convert_to_tensor(lengths, dims=dims, name=f"{dim.name}:lengths")


def accept_old_options(init: Callable[..., None]) -> Callable[..., None]:
    """
    :param init: constructor of `Dim`
    :return: the same, which also takes `dyn_size`: lengths as raw tensor of shape (B,). With a `description`, the old
        word for the name, no dimension is None: sequences of different lengths; and a batch dim is `batch_dim`
    """

    @functools.wraps(init)
    def init_with_old_options(
        self: Dim, dimension: Any = NotSpecified, *, dyn_size: Any = None, **options: Any
    ) -> None:
        if dimension is NotSpecified:
            if "description" not in options:
                raise DimError(
                    f"dim {options.get('name')!r}: 'dimension' is missing.\n"
                    "  A size, as in Dim(512, name=...), or None for sequences of different lengths."
                )
            dimension = None
        init(self, dimension, **options)
        if dyn_size is not None:
            set_dyn_size(self, dyn_size)
        if "description" in options:
            declare_to_be_the_batch([self])

    return init_with_old_options
