"""Python operators on tensors. Each is an operation of `returnn.frontend`, under the same rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from returnn.tensor._frontend import frontend
from returnn.util.errors import DimError

if TYPE_CHECKING:
    from returnn.tensor.tensor import Tensor


class TensorOperators:
    """The part of `Tensor` with the operators."""

    def __eq__(self: Tensor, other: Any) -> Any:
        return self is other if _is_no_operand(other) else frontend().compare(self, "==", other)

    def __ne__(self: Tensor, other: Any) -> Any:
        return self is not other if _is_no_operand(other) else frontend().compare(self, "!=", other)

    def __lt__(self: Tensor, other: Any) -> Tensor:
        return frontend().compare(self, "<", other)

    def __le__(self: Tensor, other: Any) -> Tensor:
        return frontend().compare(self, "<=", other)

    def __gt__(self: Tensor, other: Any) -> Tensor:
        return frontend().compare(self, ">", other)

    def __ge__(self: Tensor, other: Any) -> Tensor:
        return frontend().compare(self, ">=", other)

    def __add__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(self, "+", other)

    def __radd__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(other, "+", self)

    def __sub__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(self, "-", other)

    def __rsub__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(other, "-", self)

    def __mul__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(self, "*", other)

    def __rmul__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(other, "*", self)

    def __truediv__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(self, "/", other)

    def __rtruediv__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(other, "/", self)

    def __floordiv__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(self, "//", other)

    def __rfloordiv__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(other, "//", self)

    def __mod__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(self, "%", other)

    def __rmod__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(other, "%", self)

    def __pow__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(self, "**", other)

    def __rpow__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(other, "**", self)

    def __and__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(self, "logical_and", other)

    def __rand__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(other, "logical_and", self)

    def __or__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(self, "logical_or", other)

    def __ror__(self: Tensor, other: Any) -> Tensor:
        return frontend().combine(other, "logical_or", self)

    def __neg__(self: Tensor) -> Tensor:
        return frontend().neg(self)

    def __invert__(self: Tensor) -> Tensor:
        return frontend().logical_not(self)

    def __abs__(self: Tensor) -> Tensor:
        return frontend().abs(self)

    def __ceil__(self: Tensor) -> Tensor:
        return frontend().ceil(self)

    def __floor__(self: Tensor) -> Tensor:
        return frontend().floor(self)

    def __bool__(self: Tensor) -> bool:
        if self.dims or self.raw_tensor is None or not self._raw_backend.executing_eagerly():
            what = "is not a scalar" if self.dims else "has no value yet"
            raise DimError(
                f"{self}: cannot be used as True or False, it {what}.\n"
                "  For conditions on tensors see rf.where and rf.cond; to test for None: `x is not None`."
            )
        return bool(self.raw_tensor)


def _is_no_operand(other: Any) -> bool:
    """:return: whether `x == other` can only ask about identity, as it does in `x in list` or `x == None`"""
    return other is None or isinstance(other, (str, type))
