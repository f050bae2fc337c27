"""
The tensors of a nested structure, each with the template that its values have to fit: the state of a loop, or what the
branches of a condition return.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy

from returnn.frontend._ops.control_flow.match_dims import match_dims
from returnn.frontend._ops.operands import dtype_of_number
from returnn.frontend.tensor_array import TensorArray
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError, DtypeError, UserError

SPARSE = -1  # in place of the number of an axis
_NUMBERS = (bool, int, float, numpy.generic)


@dataclass
class Slot:
    """A place for tensors, or for an array of tensors."""

    what: str  # for errors, such as "while_loop: the state 'h'"
    template: Tensor  # of a tensor, or of the elements of an array
    is_array: bool = False

    def fit(self, x: Tensor) -> tuple[bool, dict[int, Dim]]:
        """
        Adds dims that x has beside those of the template.

        :return: whether the template changed; which dim of x stands for which axis of the template, where x has it
        :raises DtypeError: if it has another dtype
        """
        template = self.template
        if x.dtype != template.dtype:
            raise DtypeError(f"{self.what}: the dtype changes from {template} to {x}.\n  Use rf.cast.")
        matched, extra = match_dims(template.dims, x.dims)
        positions = {axis: dim for axis, dim in enumerate(matched) if dim is not None}
        if x.sparse_dim is not None and template.sparse_dim is not None:
            positions[SPARSE] = x.sparse_dim
        gets_sparse = x.sparse_dim is not None and template.sparse_dim is None
        if not extra and not gets_sparse:
            return False, positions
        own = {id(dim): template.dims[axis] for axis, dim in positions.items() if axis != SPARSE}
        dims = [*(d for d, m in zip(template.dims, matched, strict=True) if m is None)]
        dims += [own.get(id(dim), dim) for dim in x.dims]
        labels = template.sparse_dim or x.sparse_dim
        self.template = template.copy_template_new_dim_tags(dims).copy_with_roles(sparse_dim=labels)
        return True, positions

    def replace(self, axis: int, dim: Dim) -> None:
        """Puts another dim to an axis of the template."""
        if axis == SPARSE:
            self.template = self.template.copy_template().copy_with_roles(sparse_dim=dim)
        else:
            self.template = self.template.copy_template_replace_dim_tag(axis, dim)

    def dim_of(self, axis: int) -> Dim:
        """:return: dim of an axis of the template"""
        dim = self.template.sparse_dim if axis == SPARSE else self.template.dims[axis]
        assert dim is not None
        return dim

    def check_elements(self, array: TensorArray) -> None:
        """:raises DimError: if the elements of an array look different"""
        if set(array.tensor_template.dims) != set(self.template.dims):
            raise DimError(f"{self.what}: the elements change from {self.template} to {array.tensor_template}.")

    def in_layout(self, x: Tensor, positions: dict[int, Dim]) -> Tensor:
        """:return: x with its axes as in the template; where it does not have a dim, repeated along it"""
        dims = [positions.get(axis, dim) for axis, dim in enumerate(self.template.dims)]
        return x.copy_compatible_to_dims(dims, unbroadcast=True)

    def filled(self, raw: Any) -> Tensor:
        """:return: tensor with this value"""
        new = self.template.copy_template()
        new._raw_tensor = raw
        return new


def slots_of(what: str, leaves: dict[str, Any]) -> dict[Any, Slot]:
    """:return: by path, the slots for the tensors and arrays among the leaves"""
    slots = {}
    for path, leaf in leaves.items():
        where = f"{what} {path.lstrip('.')!r}" if path else what
        if isinstance(leaf, Tensor):
            slots[path] = Slot(where, leaf.copy_template())
        elif isinstance(leaf, TensorArray):
            slots[path] = Slot(where, leaf.tensor_template.copy_template(), is_array=True)
    return slots


def as_tensors(leaves: dict[str, Any], backend: Any) -> dict[str, Any]:
    """:return: the leaves, with numbers as scalars"""
    return {path: number_as_tensor(leaf, backend) for path, leaf in leaves.items()}


def number_as_tensor(value: Any, backend: Any, dtype: str | None = None) -> Any:
    """:return: a number as scalar; anything else as it is"""
    if not isinstance(value, _NUMBERS):
        return value
    return backend.convert_to_tensor(value, dims=(), dtype=dtype or dtype_of_number(value))


def check_kinds(what: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    """:raises UserError: if a leaf is a tensor in one of the two and something else in the other"""
    for path, leaf in first.items():
        other = second[path]
        kind = next((k for k in (Tensor, TensorArray, Dim) if isinstance(leaf, k)), None)
        fits = isinstance(other, kind) if kind is not None else other is leaf or bool(other == leaf)
        if not fits:
            raise UserError(f"{what}: {path.lstrip('.') or 'the value'!r} changes from {leaf!r} to {other!r}.")


def template_of_lengths(dim: Dim) -> Tensor:
    """:return: what the lengths of a dim look like"""
    lengths = dim.dyn_size_ext
    return Tensor("size", dims=(), dtype="int32") if lengths is None else lengths.copy_template()


def iter_positions(positions: dict[Any, dict[int, Dim]]) -> Iterator[tuple[Any, int, Dim]]:
    """:return: key of the slot, axis, dim"""
    for key, of_slot in positions.items():
        for axis, dim in of_slot.items():
            yield key, axis, dim
