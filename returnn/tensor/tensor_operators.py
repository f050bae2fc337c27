"""Python operators on tensors. Each is an operation of `returnn.frontend`, under the same rules."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from returnn.tensor._frontend import operations
from returnn.tensor.plans import plans
from returnn.tensor.tensor_batch import TensorBatch
from returnn.util.errors import DimError
from returnn.util.python.missing_values import NoValueError
from returnn.util.python.user_code_errors import innermost_of_user
from returnn.util.system.warn_once import warn_once

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorOperators(TensorBatch):
    """The floor of `Tensor` with the operators."""

    def __eq__(self, other: Any) -> Any:
        return self is other if _is_no_operand(other) else self._compare("equal", other)

    def __ne__(self, other: Any) -> Any:
        return self is not other if _is_no_operand(other) else self._compare("not_equal", other)

    def __lt__(self, other: Any) -> Self:
        return self._compare("less", other)

    def __le__(self, other: Any) -> Self:
        return self._compare("less_equal", other)

    def __gt__(self, other: Any) -> Self:
        return self._compare("greater", other)

    def __ge__(self, other: Any) -> Self:
        return self._compare("greater_equal", other)

    def __add__(self, other: Any) -> Self:
        return self._combine("add", other)

    def __radd__(self, other: Any) -> Self:
        return self._combine_from_right("add", other)

    def __sub__(self, other: Any) -> Self:
        return self._combine("sub", other)

    def __rsub__(self, other: Any) -> Self:
        return self._combine_from_right("sub", other)

    def __mul__(self, other: Any) -> Self:
        return self._combine("mul", other)

    def __rmul__(self, other: Any) -> Self:
        return self._combine_from_right("mul", other)

    def __truediv__(self, other: Any) -> Self:
        return self._combine("truediv", other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._combine_from_right("truediv", other)

    def __floordiv__(self, other: Any) -> Self:
        return self._combine("floordiv", other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._combine_from_right("floordiv", other)

    def __mod__(self, other: Any) -> Self:
        return self._combine("mod", other)

    def __rmod__(self, other: Any) -> Self:
        return self._combine_from_right("mod", other)

    def __pow__(self, other: Any) -> Self:
        return self._combine("pow", other)

    def __rpow__(self, other: Any) -> Self:
        return self._combine_from_right("pow", other)

    def __and__(self, other: Any) -> Self:
        return self._combine("logical_and", other)

    def __rand__(self, other: Any) -> Self:
        return self._combine_from_right("logical_and", other)

    def __or__(self, other: Any) -> Self:
        return self._combine("logical_or", other)

    def __ror__(self, other: Any) -> Self:
        return self._combine_from_right("logical_or", other)

    def __hash__(self) -> int:
        return id(self)

    def __neg__(self) -> Self:
        return operations().neg(self)

    def __invert__(self) -> Self:
        return operations().logical_not(self)

    def __abs__(self) -> Self:
        return operations().abs(self)

    def __ceil__(self) -> Self:
        return operations().ceil(self)

    def __floor__(self) -> Self:
        return operations().floor(self)

    def __bool__(self) -> bool:
        if self.dims and self.dtype != "bool":  # of old code that tests for None
            _warn_of_no_test()
            return True
        if self.dims or self.raw_tensor is None or not self._raw_backend.executing_eagerly():
            what = "is not a scalar" if self.dims else "has no value yet"
            kind = DimError if self.dims else NoValueError
            raise kind(
                f"{self}: cannot be used as True or False, it {what}.\n"
                "  For conditions on tensors see rf.where and rf.cond; to test for None: `x is not None`."
            )
        return bool(self.raw_tensor)

    def _compare(self, kind: str, other: Any) -> Self:
        out: Self | None = plans.run(kind, self, other)
        return operations().compare(self, kind, other) if out is None else out

    def _combine(self, kind: str, other: Any) -> Self:
        out: Self | None = plans.run(kind, self, other)
        return operations().combine(self, kind, other) if out is None else out

    def _combine_from_right(self, kind: str, other: Any) -> Self:
        out: Self | None = plans.run(kind, other, self)
        return operations().combine(other, kind, self) if out is None else out


def _warn_of_no_test() -> None:
    frames = traceback.walk_stack(None)
    places = ((frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames)
    place = innermost_of_user(places)
    where = f"In {place[0]}, line {place[1]}, {place[2]}: " if place is not None else ""
    warn_once(
        f"{where}a tensor with dims, used as True or False, is True, whatever is in it. "
        "To test for None: `x is not None`."
    )


def _is_no_operand(other: Any) -> bool:
    """:return: whether `x == other` can only ask about identity, as it does in `x in list` or `x == None`"""
    return other is None or isinstance(other, (str, type))
