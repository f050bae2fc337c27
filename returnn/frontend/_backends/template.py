"""
The template backend: which dims, dtype, sparse and feature dim come out of an operation. Nothing is computed.

It is asked when an operand has no value: each operation then ends with its rule for dims (`computes` is false). So
wrong use is found, and reported, in the same way as with values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from returnn.frontend._backend import Backend, register_backend
from returnn.frontend._ops.control_flow.branches import Branches
from returnn.frontend._ops.control_flow.conditions import check_condition
from returnn.frontend._ops.control_flow.loop_state import MAX_ROUNDS, LoopState
from returnn.frontend._ops.operands import as_dims, fail, require_dims
from returnn.frontend._watched_weights import note_softmax, note_sum_of_products
from returnn.tensor import Dim, Tensor


class TemplateBackend(Backend[None]):
    """See the head of this module. All operands are templates, or are taken as such."""

    name = "template"
    RawTensorType = type(None)
    computes = False
    TensorArrayType = Tensor  # the template of an element

    @staticmethod
    def executing_eagerly() -> bool:
        """:return: True: there is no graph"""
        return True

    @staticmethod
    def copy_to_device(x: Tensor, device: str | None) -> Tensor:
        """:return: template"""
        return x.copy_template()

    @staticmethod
    def get_tensor_dependencies(x: Tensor) -> Sequence[Tensor]:
        """:return: nothing: templates have no operations"""
        return []

    @staticmethod
    def get_tensor_consumers(x: Tensor) -> Sequence[Tensor]:
        """:return: nothing: templates have no operations"""
        return []

    @staticmethod
    def set_requires_gradient(tensor: Tensor) -> None:
        """Nothing to do."""

    @staticmethod
    def stop_gradient_scope() -> Any:
        """:return: context without effect"""
        return contextlib.nullcontext()

    @staticmethod
    def create_parameter_raw(tensor: Any, *, device: str | None = None) -> None:
        """:return: None: a template has no value"""
        return

    @staticmethod
    def set_parameter_initial_value(param: Any, value: Any) -> None:
        """Nothing to do."""

    @staticmethod
    def set_parameter_trainable(param: Any, trainable: bool) -> None:
        """Nothing to do."""

    @staticmethod
    def parameter_move_to(param: Any, *, device: str | None = None, dtype: str | None = None) -> None:
        """Nothing to do."""

    @classmethod
    def assert_(cls, condition: Tensor, message: str, *, stop: bool = True) -> None:
        """Nothing to do: there is no value."""

    @classmethod
    def softmax(cls, tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """:return: template"""
        out = super().softmax(tensor, axis=axis, use_mask=use_mask)
        note_softmax(out, axis)
        return out

    @classmethod
    def matmul(cls, a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """:return: template"""
        out = super().matmul(a, b, reduce=reduce, use_mask=use_mask)
        note_sum_of_products(a, b, as_dims(reduce))
        return out

    @classmethod
    def cond(cls, pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """:return: templates of what both functions return"""
        branches = Branches("cond", cls)
        branches.add(true_fn())
        branches.add(false_fn())
        return branches.templates()

    @classmethod
    def while_loop(cls, cond: Callable[[Any], Any], body: Callable[[Any], Any], initial: Any) -> Any:
        """:return: templates of the state"""
        state = LoopState("while_loop", initial, cls)
        for _ in range(MAX_ROUNDS):
            templates = state.templates()
            check_condition(cond(templates))
            if state.after_body(body(templates)) is not None:
                return state.templates()
        raise fail(
            "while_loop: the dims of the state keep changing from round to round.", f"Last: {state.templates()}."
        )

    @classmethod
    def tensor_array_create(cls) -> Any:
        """:return: nothing is known about it"""
        return None

    @classmethod
    def tensor_array_unstack(cls, tensor: Tensor, *, axis: Dim) -> Tensor:
        """:return: template of an element"""
        require_dims("TensorArray.unstack", tensor, [axis])
        return tensor.copy_template_excluding_axis(tensor.get_axis_from_description(axis))

    @classmethod
    def tensor_array_stack(cls, tensor_array: Any, *, axis: Dim, tensor_template: Tensor) -> Tensor:
        """:return: template"""
        if axis in tensor_template.dims:
            raise fail(f"TensorArray.stack: the elements {tensor_template} have the dim {axis} already.")
        return tensor_template._insert_dim(axis, 0)

    @classmethod
    def tensor_array_push_back(cls, tensor_array: Any, value: Tensor) -> Tensor:
        """:return: template of an element"""
        return value.copy_template()

    @classmethod
    def tensor_array_get_item(cls, tensor_array: Any, index: int | Tensor) -> Tensor:
        """:return: template"""
        template: Tensor = tensor_array.copy_template()
        return template

    @classmethod
    def tensor_array_length(cls, tensor_array: Any) -> Tensor:
        """:return: template"""
        return Tensor("length", dims=(), dtype="int32")


register_backend(TemplateBackend)
