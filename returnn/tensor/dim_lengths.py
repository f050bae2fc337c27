"""
How long a dim is: lengths, the size of its axis, masks.

The lengths of a dim that was computed from others follow from those. What was computed is kept where it is valid, see
`returnn.tensor.scope`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from returnn.tensor import dim_math
from returnn.tensor._frontend import operations
from returnn.tensor.dim_base import DimBase, Lengths
from returnn.tensor.dim_types import DimKind
from returnn.util.errors import DimError

AnyTensor: TypeAlias = Any  # a `Tensor`. Its class is a floor above, since a tensor is made of dims


@dataclass(frozen=True)
class LengthRule:
    """How the lengths of a dim follow from those of another one, see `returnn.tensor.dim_rules`."""

    source: DimLengths
    compute: Callable[[AnyTensor], AnyTensor]
    rule: tuple[Any, ...] = ()  # which one of `returnn.tensor.dim_rules`, and its arguments


class DimLengths(DimBase):
    """The floor of `Dim` that knows lengths. Values are looked up under the dim's key, so equal dims share them."""

    length_rule: LengthRule | None = None

    @property
    def dyn_size_ext(self) -> AnyTensor | None:
        """
        Lengths of a dynamic dim: usually [B], int32, in frames; a scalar for the batch dim; a template where only the
        dims of the lengths are known. None for a static dim, or if nothing is known (yet).
        """
        if self.size is not None:
            return None
        base = self.get_same_base()
        given = base._lookup("lengths")
        if (base.is_derived() or base.length_rule is not None) and (given is None or given.raw_tensor is None):
            computed = base._compute_lengths()
            return given if computed is None else computed
        return given

    @dyn_size_ext.setter
    def dyn_size_ext(self, lengths: AnyTensor | None) -> None:
        base = self.get_same_base()
        if lengths is None:
            base._forget_values()
            return
        base._keep("lengths", lengths, in_scope=lengths.raw_tensor is not None)

    @property
    def dyn_size(self) -> Any:
        """The raw tensor of the lengths, or None."""
        lengths = self.dyn_size_ext
        return None if lengths is None else lengths.raw_tensor

    def is_dynamic_seq_length(self) -> bool:
        """:return: whether sequences of different lengths live on this axis, as far as known. Not the batch dim."""
        if self.size is not None or self.is_batch_dim():
            return False
        lengths = self.dyn_size_ext
        return lengths is None or bool(lengths.dims)

    def need_masking(self) -> bool:
        """:return: whether the axis can have frames beyond the end of a sequence"""
        if self.size is not None:
            return self.capacity is not None and self.capacity != self.size
        if self.capacity is not None:
            return True
        return self.is_dynamic_seq_length()

    def is_dim_known(self) -> bool:
        """:return: whether the size or the lengths are known, at least as a template"""
        return self.size is not None or self.dyn_size_ext is not None or self.kind is DimKind.Batch

    def get_dim_value(self) -> Any:
        """
        :return: size of the axis in memory, in frames: a number where known, otherwise a raw scalar
        :raises DimError: if the dim has no lengths
        """
        if self.capacity is not None:
            return self.capacity
        if self.size is not None:
            return self.size
        base = self.get_same_base()
        longest = base.get_dim_value_tensor()
        if operations().get_backend_by_tensor(longest).executing_eagerly():
            return base._cache("value", longest, lambda: int(longest.raw_tensor))
        return longest.raw_tensor

    def get_dim_value_tensor(self) -> AnyTensor:
        """:return: size of the axis in memory, as scalar tensor"""
        rf = operations()
        if self.capacity is not None or self.size is not None:
            return rf.convert_to_tensor(self.get_dim_value(), dims=(), dtype="int32")
        base = self.get_same_base()
        lengths = base._require_lengths()
        return base._cache("value tensor", lengths, lambda: base._size_in_memory(lengths))

    def can_be_longer_in_memory(self) -> bool:
        """:return: whether the axis can be longer than the longest sequence, as one that it was computed from is"""
        base = self.get_same_base()
        if base.size is not None:
            return base.capacity not in (None, base.size)
        if base.capacity is not None or base.bounded_by is not None:
            return True
        return any(dim is not base and dim.can_be_longer_in_memory() for dim in base._computed_from())

    def take_lengths_of(self, other: DimLengths) -> None:
        """The lengths, and the size in memory, become those of the other dim."""
        self.dyn_size_ext = other.dyn_size_ext
        if other.can_be_longer_in_memory():
            self.bounded_by = other

    def get_size_tensor(self, *, device: str | None = None) -> AnyTensor:
        """:return: the lengths; for a static dim its size, as scalar tensor"""
        rf = operations()
        if self.size is not None:
            return rf.convert_to_tensor(self.size, dims=(), dtype="int32", device=device)
        lengths = self._require_lengths()
        return rf.copy_to_device(lengths, device) if device else lengths

    def get_size_tensor_or_int(self, *, device: str | None = None) -> AnyTensor | int:
        """:return: the lengths; for a static dim its size, as number"""
        return self.size if self.size is not None else self.get_size_tensor(device=device)

    def get_dyn_size_ext_for_device(self, device: str | None) -> AnyTensor | None:
        """:return: the lengths, on that device (None: where they are)"""
        lengths = self.dyn_size_ext
        if lengths is None or device is None or lengths.raw_tensor is None:
            return lengths
        return operations().copy_to_device(lengths, device)

    def get_mask(self, *, dim_order: Sequence[DimBase] | None = None, device: str | None = None) -> AnyTensor:
        """
        :param dim_order: order of the axes of the mask, as far as its dims occur in there
        :param device: None: where the lengths are
        :return: [*lengths.dims, self], bool, True where a frame belongs to its sequence
        """
        rf = operations()
        base = self.get_same_base()
        lengths = self.get_size_tensor(device=device)
        wanted = [*lengths.dims, self]
        order = [dim for dim in dim_order or () if dim in wanted]
        order += [dim for dim in wanted if dim not in order]
        key = ("mask", tuple(order), device)
        return base._cache(
            key, lengths, lambda: rf.compare(rf.range_over_dim(self, device=device), "<", lengths, dim_order=order)
        )

    def reset_raw(self, *, only_self: bool = False, include_parents: bool = False) -> None:
        """
        Forgets the values of the lengths; their dims stay known.

        :param only_self: leaves alone what this dim was computed from or is the same as
        :param include_parents: also resets the dims that this one was computed from
        """
        dims = [self] if only_self else [self, self.get_same_base()]
        if include_parents:
            dims += list(self.expression.atoms())
        for dim in dims:
            dim._forget_values(keep_template=True)

    def _require_lengths(self) -> AnyTensor:
        lengths = self.dyn_size_ext
        if lengths is None:
            how = "Give them (dim.dyn_size_ext = lengths), or use the dim of a tensor that has them."
            if self.is_batch_dim():
                how = (
                    "A run says for each batch how many sequences it has. Without one: "
                    "batch_dim.dyn_size_ext = rf.convert_to_tensor(2)."
                )
            raise DimError(f"dim {self}: its lengths are not known.\n  {how}")
        return lengths

    def _forget_values(self, *, keep_template: bool = False) -> None:
        lengths = self._lookup("lengths")
        for store in self._stores():
            for key in [key for key in store if key[1] == self.key]:
                del store[key]
        if keep_template and lengths is not None:
            self._keep("lengths", lengths.copy_template(), in_scope=False)

    def _cache(self, what: Any, lengths: Lengths, make: Callable[[], Any]) -> Any:
        """:return: make(), or what it returned before for the same lengths"""
        known = self._lookup(what)
        if known is not None and known[0] is lengths:
            return known[1]
        has_value = lengths.raw_tensor is not None
        with lengths.graph_of_value():  # in a branch, the dim can have lengths of outside that are its own alone
            is_valid_there = self.dyn_size_ext is lengths
        with lengths.graph_of_value() if is_valid_there else contextlib.nullcontext():
            value = make()
            if not has_value or getattr(value, "raw_tensor", value) is not None:  # not if only dims are being inferred
                self._keep(what, (lengths, value), in_scope=has_value)
        return value

    def _compute_lengths(self) -> AnyTensor | None:
        """:return: lengths from those of the atoms of the expression, or by rule; None if those are not known"""
        operands: dict[DimBase, Any] = {}
        for dim in self._computed_from():
            operands[dim] = dim.size if dim.size is not None else dim.dyn_size_ext
            if operands[dim] is None:
                return None
        known = self._lookup("computed lengths")
        identities = [value if isinstance(value, int) else id(value) for value in operands.values()]
        if known is not None and known[0] == identities:
            return known[2]
        lengths = self._evaluate(operands)
        lengths.name = f"{self.short_repr()}:lengths"
        entry = (identities, list(operands.values()), lengths)  # the operands are kept alive, so that ids stay unique
        self._keep("computed lengths", entry, in_scope=lengths.raw_tensor is not None)
        return lengths

    def _computed_from(self) -> list[DimLengths]:
        if self.length_rule is not None:
            return [self.length_rule.source]
        return [dim for dim in self.expression.atoms() if isinstance(dim, DimLengths)]

    def _evaluate(self, operands: dict[DimBase, Any]) -> AnyTensor:
        """:return: the lengths or the size in memory of this dim, from those of the dims that it was computed from"""
        if self.length_rule is not None:
            return self.length_rule.compute(operands[self.length_rule.source])
        value = dim_math.evaluate(self.expression, operands.__getitem__)
        return operations().maximum(value, 0) if dim_math.can_be_negative(self.expression) else value

    def _size_in_memory(self, lengths: AnyTensor) -> AnyTensor:
        """:return: as scalar tensor"""
        if isinstance(self.bounded_by, DimLengths):
            return self.bounded_by.get_dim_value_tensor()
        if not self.can_be_longer_in_memory():
            return longest(lengths)
        return self._evaluate({dim: dim.size or dim.get_dim_value_tensor() for dim in self._computed_from()})


def longest(lengths: Lengths) -> AnyTensor:
    """:return: the greatest of the lengths, as scalar"""
    return operations().reduce_max(lengths, axis=lengths.dims, use_mask=False) if lengths.dims else lengths
