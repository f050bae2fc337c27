"""
What the branches of a condition return, made to look the same.

Where the branches have different dims, the result has a new dim, whose lengths are those of the branch that was taken.
"""

from __future__ import annotations

from typing import Any

from returnn.frontend._ops.control_flow.slots import (
    Slot,
    as_tensors,
    check_kinds,
    iter_positions,
    slots_of,
    template_of_lengths,
)
from returnn.frontend._ops.control_flow.structure import check_same_paths, leaves_by_path, map_leaves
from returnn.frontend.tensor_array import TensorArray
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError

_Key = Any  # path of a leaf; or a joint dim, whose lengths these are


class Branches:
    """The results of both branches: first the one for true, then the one for false."""

    def __init__(self, what: str, backend: Any) -> None:
        """
        :param what: for errors
        :param backend: makes tensors from numbers
        """
        self._what = what
        self._backend = backend
        self._structure: Any = None
        self._leaves: list[dict[str, Any]] = []
        self._dims: dict[str, Dim] = {}
        self._joint_dims: list[Dim] = []
        self.slots: dict[_Key, Slot] = {}

    def add(self, result: Any) -> None:
        """
        :param result: what the next branch returned
        :raises UserError: if it does not fit to the first one
        """
        leaves = as_tensors(leaves_by_path(result), self._backend)
        self._leaves.append(leaves)
        if len(self._leaves) == 1:
            self._structure = result
            self.slots = slots_of(self._what, leaves)
            self._dims = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, Dim)}
            return
        check_same_paths(self._what, self._leaves[0], leaves, names=("the true branch", "the false branch"))
        check_kinds(self._what, self._leaves[0], leaves)
        self._join()

    @property
    def num_added(self) -> int:
        """How many results there are."""
        return len(self._leaves)

    def join_dim(self, dim: Dim) -> None:
        """Makes the lengths of a dim part of the result: both branches have it, with other lengths."""
        if dim not in self._joint_dims:
            self._joint_dims.append(dim)
            self.slots[dim] = Slot(f"{self._what}: the lengths of {dim}", template_of_lengths(dim))

    def dims(self) -> set[Dim]:
        """:return: all dynamic dims in the result"""
        found = {dim for slot in self.slots.values() for dim in slot.template.dims}
        return {dim for dim in (*found, *self._dims.values()) if dim.size is None}

    def templates(self) -> Any:
        """:return: the result as templates"""
        return self._with_leaves({key: slot.template for key, slot in self.slots.items()}, {})

    def with_values(self, raw: dict[_Key, Any], arrays: dict[_Key, Any]) -> Any:
        """
        :param raw: for each slot of a tensor, raw tensor
        :param arrays: for each slot of an array, array of the backend
        :return: the result
        """
        return self._with_leaves({key: self.slots[key].filled(x) for key, x in raw.items()}, arrays)

    def tensors_of(self, result: Any) -> tuple[dict[_Key, Tensor], dict[_Key, TensorArray]]:
        """
        :param result: what a branch returned
        :return: for each slot, the value
        """
        leaves = as_tensors(leaves_by_path(result), self._backend)
        values: dict[_Key, Tensor] = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, Tensor)}
        arrays = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, TensorArray)}
        positions = {key: self.slots[key].fit(x)[1] for key, x in values.items()}
        own_dims = {self._dims[path]: leaves[path] for path in self._dims}  # joint dim -> what it is in this branch
        own_dims.update({self.slots[key].dim_of(axis): dim for key, axis, dim in iter_positions(positions)})
        for joint in self._joint_dims:
            values[joint] = own_dims.get(joint, joint).get_size_tensor()
            positions[joint] = self.slots[joint].fit(values[joint])[1]
        return {key: self.slots[key].in_layout(x, positions[key]) for key, x in values.items()}, arrays

    def _with_leaves(self, tensors: dict[_Key, Tensor], arrays: dict[_Key, Any]) -> Any:
        for dim in self._joint_dims:
            dim.dyn_size_ext = tensors[dim].copy()

        def leaf(path: str, value: Any) -> Any:
            if path in self._dims:
                return self._dims[path]
            slot = self.slots.get(path)
            if slot is None:
                return value
            if slot.is_array:
                return TensorArray(slot.template, _backend_tensor_array=arrays.get(path), _backend=self._backend)
            return tensors[path].copy()

        return map_leaves(leaf, self._structure)

    def _join(self) -> None:
        second = self._leaves[1]
        positions: dict[_Key, dict[int, Dim]] = {}
        for key, slot in self.slots.items():
            if isinstance(key, Dim):
                continue
            if slot.is_array:
                slot.check_elements(second[key])
            else:
                changed, positions[key] = slot.fit(second[key])
                if changed:
                    positions[key] = slot.fit(second[key])[1]
        joint: dict[tuple[Dim, Dim], Dim] = {}
        for key, axis, other in list(iter_positions(positions)):
            slot = self.slots[key]
            if slot.dim_of(axis) != other:
                slot.replace(axis, self._joined(slot.what, slot.dim_of(axis), other, joint))
        for path, dim in self._dims.items():
            if dim != second[path]:
                self._dims[path] = self._joined(f"{self._what} {path!r}", dim, second[path], joint)
        used = self.dims() | {atom for dim in self.dims() for atom in dim.expression.atoms()}
        for dim in [dim for dim in self._joint_dims if dim not in used]:  # another one came in its place
            self._joint_dims.remove(dim)
            del self.slots[dim]

    def _joined(self, where: str, dim: Dim, other: Dim, joint: dict[tuple[Dim, Dim], Dim]) -> Dim:
        if dim.size is not None and dim.size == other.size:
            raise DimError(f"{where}: the dim is {dim} in one branch and {other} in the other.\n  Use rf.replace_dim.")
        if (dim, other) not in joint:
            new = Dim(None, name=dim.name or "cond", kind=dim.kind)
            joint[dim, other] = new
            self._joint_dims.append(new)
            slot = Slot(f"{self._what}: the lengths of {dim}", template_of_lengths(dim))
            slot.fit(template_of_lengths(other))
            self.slots[new] = slot
        return joint[dim, other]
