"""
The state of a loop: what goes from round to round.

A loop in a graph has one body for all rounds, so its state has to look the same before and after the body. Dims need
not be the same: a dim whose lengths change (a history that grows) is replaced by a *loop dim*, whose lengths are part
of the state. Which dims change is found by running the body; what does not fit changes the templates of the state, and
the body runs again with those, until all fits: a fixed point. Each change makes the templates more general, so it ends.
"""

from __future__ import annotations

from typing import Any

from returnn.frontend._ops.control_flow.slots import (
    Slot,
    as_tensors,
    check_kinds,
    iter_positions,
    number_as_tensor,
    slots_of,
    template_of_lengths,
)
from returnn.frontend._ops.control_flow.structure import check_same_paths, leaves_by_path, map_leaves
from returnn.frontend.tensor_array import TensorArray
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError

_Key = Any  # path of a leaf; or a loop dim, whose lengths these are
MAX_ROUNDS = 50


class LoopState:
    """What goes from round to round. See the head of this module."""

    def __init__(self, what: str, initial: Any, backend: Any) -> None:
        """
        :param what: for errors
        :param initial: nested structure
        :param backend: makes tensors from numbers
        """
        self._what = what
        self._backend = backend
        self._structure = initial
        self._initial = as_tensors(leaves_by_path(initial), backend)
        self._dims: dict[str, Dim] = {path: leaf for path, leaf in self._initial.items() if isinstance(leaf, Dim)}
        self._loop_dims: dict[Dim, Dim] = {}  # loop dim -> the dim before the loop
        self.slots: dict[_Key, Slot] = slots_of(f"{what}: the state", self._initial)

    def initial_tensors(self) -> dict[_Key, Tensor]:
        """:return: for each slot of a tensor, the value before the loop"""
        result = {}
        for key, slot in self.slots.items():
            if slot.is_array:
                continue
            x = self._loop_dims[key].get_size_tensor() if isinstance(key, Dim) else self._initial[key]
            positions = {axis: self._loop_dims.get(dim, dim) for axis, dim in enumerate(slot.template.dims)}
            result[key] = slot.in_layout(x, positions)
        return result

    def initial_arrays(self) -> dict[_Key, TensorArray]:
        """:return: for each slot of an array, the one before the loop"""
        return {key: self._initial[key] for key, slot in self.slots.items() if slot.is_array}

    def templates(self) -> Any:
        """:return: the state as templates"""
        return self._with_leaves({key: slot.template for key, slot in self.slots.items()}, {})

    def with_values(self, raw: dict[_Key, Any], arrays: dict[_Key, Any]) -> Any:
        """
        :param raw: for each slot of a tensor, raw tensor
        :param arrays: for each slot of an array, array of the backend
        :return: the state
        """
        return self._with_leaves({key: self.slots[key].filled(x) for key, x in raw.items()}, arrays)

    def _with_leaves(self, tensors: dict[_Key, Tensor], arrays: dict[_Key, Any]) -> Any:
        for dim in self._loop_dims:
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

    def after_body(self, result: Any) -> tuple[dict[_Key, Tensor], dict[_Key, TensorArray]] | None:
        """
        :param result: what the body returned
        :return: for each slot, the value after the body; None if the templates had to change, so that the body has to
            run again
        :raises UserError: if the structure changes
        """
        names = ("the state before the body", "what the body returns")
        leaves = leaves_by_path(result)
        check_same_paths(self._what, self._initial, leaves, names=names)
        leaves = {
            path: number_as_tensor(leaf, self._backend, self.slots[path].template.dtype if path in self.slots else None)
            for path, leaf in leaves.items()
        }
        check_kinds(f"{self._what}: the state", self._initial, leaves)
        values: dict[_Key, Tensor] = {p: leaf for p, leaf in leaves.items() if isinstance(leaf, Tensor)}
        arrays = {p: leaf for p, leaf in leaves.items() if isinstance(leaf, TensorArray)}
        after_of: dict[Dim, Dim] = {}  # loop dim -> what it becomes
        positions: dict[_Key, dict[int, Dim]] = {}
        dims_after = {path: leaves[path] for path in self._dims}
        if self._fit(values, positions) or self._fit_dims(positions, dims_after, after_of):
            return None
        lengths: dict[_Key, Tensor] = {dim: after_of.get(dim, dim).get_size_tensor() for dim in self._loop_dims}
        of_lengths: dict[_Key, dict[int, Dim]] = {}
        if self._fit(lengths, of_lengths) or self._fit_dims(of_lengths, {}, after_of):
            return None
        for path, array in arrays.items():
            self.slots[path].check_elements(array)
        values.update(lengths)
        positions.update(of_lengths)
        return {key: self.slots[key].in_layout(x, positions[key]) for key, x in values.items()}, arrays

    def _fit(self, values: dict[_Key, Tensor], positions: dict[_Key, dict[int, Dim]]) -> bool:
        """:return: whether a template got more dims"""
        any_change = False
        for key, x in values.items():
            changed, positions[key] = self.slots[key].fit(x)
            any_change = any_change or changed
        return any_change

    def _fit_dims(
        self, positions: dict[_Key, dict[int, Dim]], dims_after: dict[str, Dim], after_of: dict[Dim, Dim]
    ) -> bool:
        """
        :param positions: which dim came out where
        :param dims_after: the same for dims that are leaves
        :param after_of: gets what each loop dim becomes
        :return: whether a dim had to be replaced by a loop dim
        """
        new_dims: dict[tuple[Dim, Dim], Dim] = {}

        def check(where: str, before: Dim, after: Dim) -> Dim:
            if before in self._loop_dims:
                if after_of.setdefault(before, after) == after:
                    return before
            elif before == after:
                return before
            elif before.size is not None and before.size == after.size:
                raise DimError(f"{where}: the dim {before} becomes another one, {after}.\n  Use rf.replace_dim.")
            if (before, after) not in new_dims:
                new_dims[before, after] = self._add_loop_dim(self._loop_dims.get(before, before))
            return new_dims[before, after]

        for key, axis, after in iter_positions(positions):
            slot = self.slots[key]
            dim = check(slot.what, slot.dim_of(axis), after)
            if dim is not slot.dim_of(axis):
                slot.replace(axis, dim)
        for path, after in dims_after.items():
            self._dims[path] = check(f"{self._what}: the state {path.lstrip('.')!r}", self._dims[path], after)
        return bool(new_dims)

    def _add_loop_dim(self, before: Dim) -> Dim:
        dim = Dim(None, name=before.name or "loop", kind=before.kind, derived_from_tag=before)
        self._loop_dims[dim] = before
        self.slots[dim] = Slot(f"{self._what}: the lengths of {before}", template_of_lengths(before))
        return dim


__all__ = ["MAX_ROUNDS", "LoopState"]
