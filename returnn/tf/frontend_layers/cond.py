"""
`Cond`: a condition as layer of class "cond".

    with Cond(is_long) as cond:
        cond.true = x * 2.0
        cond.false = x
    y = cond.result

What comes before the first assignment belongs to the branch for true, then comes the one for false.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from returnn.frontend._ops.control_flow.structure import leaves_by_path, map_leaves
from returnn.frontend.module import Module
from returnn.tensor import ControlFlowContext, Dim, Tensor
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.make_layer import make_layer, make_sub_layer
from returnn.tf.frontend_layers.recording import as_recorded
from returnn.util.errors import DimError, DtypeError, UserError

__all__ = ["Cond", "CondModule"]

T = TypeVar("T")
_BRANCHES = ("true", "false")


class Cond(Generic[T]):
    """A condition. See the head of this module."""

    def __init__(self, condition: Tensor[Any], *, name: str = "cond") -> None:
        """
        :param condition: bool scalar
        :param name: of the layer
        """
        if condition.dims:
            raise DimError(f"Cond: the condition {condition} is not a scalar.\n  For each entry, see rf.where.")
        if condition.dtype != "bool":
            raise DtypeError(f"Cond: the condition {condition} is not bool.")
        self.condition = condition
        self.layer_module = CondModule(self)
        self.name_ctx = Layer(suggested_name=name)
        outer = Layer.inner_control_flow()
        contexts = [
            ControlFlowContext(kind=ControlFlowContext.Types.Cond, identifier=f"{name}/{branch}", outer_ctx=outer)
            for branch in _BRANCHES
        ]
        self.true_branch_control_flow_ctx, self.false_branch_control_flow_ctx = contexts
        self.true_branch_name_ctx, self.false_branch_name_ctx = (
            Layer(parent=self.name_ctx, name=branch, virtual=True, can_access_children=False, new_control_flow_ctx=ctx)
            for branch, ctx in zip(_BRANCHES, contexts, strict=True)
        )
        self._values: dict[str, Any] = {}
        self._hooks: dict[str, list[Callable[[Cond[T]], None]]] = {"before": [], "behind": []}
        self._result: Any = None

    def __enter__(self) -> Cond[T]:
        self.true_branch_name_ctx.__enter__()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        inside = self.true_branch_name_ctx if "true" not in self._values else self.false_branch_name_ctx
        if Layer.stack and Layer.stack[-1] is inside:
            inside.__exit__(exc_type, exc_val, exc_tb)
        if exc_type is not None:
            return
        missing = [branch for branch in _BRANCHES if branch not in self._values]
        if missing:
            raise UserError(f"Cond {self.name_ctx.get_abs_name_repr()}: `cond.{missing[0]}` was not set.")
        self._result = self.layer_module()

    @property
    def true(self) -> T:
        """What the branch for true gives."""
        return self._value("true")

    @true.setter
    def true(self, value: T) -> None:
        self._set("true", self.true_branch_name_ctx, value)
        self.true_branch_name_ctx.__exit__(None, None, None)
        self.false_branch_name_ctx.__enter__()
        for hook in self._hooks["before"]:
            hook(self)

    @property
    def false(self) -> T:
        """What the branch for false gives."""
        return self._value("false")

    @false.setter
    def false(self, value: T) -> None:
        if "true" not in self._values:
            raise UserError("Cond: set `cond.true` before `cond.false`.")
        for hook in self._hooks["behind"]:
            hook(self)
        self._set("false", self.false_branch_name_ctx, value)

    @property
    def result(self) -> T:
        """What the branch gives which was taken."""
        if self._result is None:
            raise UserError("Cond: there is no result before the end of the `with` block.")
        result: T = self._result
        return result

    def _value(self, branch: str) -> T:
        if branch not in self._values:
            raise UserError(f"Cond: `cond.{branch}` was not set.")
        value: T = self._values[branch]
        return value

    def _set(self, branch: str, place: Layer, value: Any) -> None:
        if branch in self._values:
            raise UserError(f"Cond: `cond.{branch}` was set already.")
        if Layer.stack[-1] is not place:
            raise UserError(f"Cond: `cond.{branch}` can only be set inside of the `with` block.")
        self._values[branch] = value
        leaves = (leaf for leaf in leaves_by_path(value).values() if not isinstance(leaf, Dim))
        for i, leaf in enumerate(leaves):
            kept = as_recorded(leaf)
            if i == 0:
                place.make_default_output(kept)
            else:
                child = place.get_child(f"output_{i}")
                out = make_layer({"class": "copy", "from": kept}, name=child, predefined_out_data=kept)
                place.marked_outputs.append(out)

    # For code which does something in both branches.

    def add_op_to_current_branch(self, op: Tensor[Any]) -> None:
        """The layer is made in the current branch, even if nothing depends on it."""
        Layer.top().marked_outputs.append(op)

    def add_other_branch_prehook(self, callback: Callable[[Cond[T]], None]) -> None:
        """:param callback: is called when the branch for false begins"""
        self._hooks["before"].append(callback)

    def add_other_branch_posthook(self, callback: Callable[[Cond[T]], None]) -> None:
        """:param callback: is called when the branch for false ends"""
        self._hooks["behind"].append(callback)


class CondModule(Module):
    """Makes the layer of a condition."""

    def __init__(self, cond: Cond[Any]) -> None:
        """:param cond: the condition"""
        super().__init__()
        self.cond = cond

    def __call__(self) -> Any:
        """:return: the result"""
        cond = self.cond
        place = cond.name_ctx
        branches = {"true_layer": cond.true_branch_name_ctx, "false_layer": cond.false_branch_name_ctx}
        options: dict[str, Any] = {"class": "cond", "from": [], "condition": as_recorded(cond.condition)}
        for key, branch in branches.items():
            options[key] = {"class": "subnetwork", "from": [], "subnetwork": branch.make_net()}
        place.layer_dict = options
        leaves, others = leaves_by_path(cond.true), leaves_by_path(cond.false)
        if list(leaves) != list(others):
            raise UserError(f"Cond: the branches have different structures: {list(leaves)} and {list(others)}.")
        results: dict[str, Any] = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, Dim)}
        for path, dim in results.items():
            if dim != others[path]:
                raise _other_dims(path, dim, others[path])
        for i, path in enumerate(path for path in leaves if path not in results):
            yes, no = as_recorded(leaves[path]), as_recorded(others[path])
            _check_alike(path, yes, no)
            template = yes.copy_template()
            if i == 0:
                place.set_tensor(template)
                results[path] = template
            else:
                results[path] = make_sub_layer(place, f"output_{i}", template)
        return map_leaves(lambda path, _: results[path], cond.true)


def _check_alike(path: str, yes: Tensor[Any], no: Tensor[Any]) -> None:
    if yes.dims_set != no.dims_set or yes.dtype != no.dtype or yes.sparse_dim != no.sparse_dim:
        raise _other_dims(path, yes, no)


def _other_dims(path: str, yes: Any, no: Any) -> DimError:
    return DimError(
        f"cond: the backend 'returnn_layers_tf' needs the same dims in both branches.\n"
        f"  {path.lstrip('.') or 'The value'} is {yes} if true, {no} otherwise."
    )
