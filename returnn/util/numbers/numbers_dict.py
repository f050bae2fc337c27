"""
`NumbersDict`: numbers by key, with arithmetic per key.

Data sets and batches count frames per data key, since the keys of one sequence have lengths of their own. A
`NumbersDict` does this arithmetic for all keys at once. Its `value`, if there is one, stands for every key that is not
listed: `NumbersDict({"classes": 5}, broadcast_value=0)` has 5 for "classes" and 0 for the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from typing import TypeAlias, Union

Number: TypeAlias = int | float
BinaryOp: TypeAlias = Callable[[Number, Number], Number]
NumbersLike: TypeAlias = Union["NumbersDict", Mapping[str, Number], Number, None]


class NumbersDict:
    """
    Numbers by key. Operators work per key on the union of the keys.

    Where one operand has neither the key nor a `value`, the other's number stays as it is.
    """

    __slots__ = ("dict", "value")

    def __init__(
        self,
        auto_convert: NumbersLike = None,
        numbers_dict: Mapping[str, Number] | None = None,
        broadcast_value: Number | None = None,
    ) -> None:
        """
        :param auto_convert: a dict, another NumbersDict (is copied), or one number for all keys
        :param numbers_dict: numbers by key
        :param broadcast_value: the number of all other keys; None: they have none
        """
        self.dict: dict[str, Number] = dict(numbers_dict or {})
        self.value = broadcast_value
        if isinstance(auto_convert, NumbersDict):
            self.dict.update(auto_convert.dict)
            self.value = auto_convert.value
        elif isinstance(auto_convert, Mapping):
            self.dict.update(auto_convert)
        elif auto_convert is not None:
            self.value = auto_convert

    # Reading like a dict.

    def copy(self) -> NumbersDict:
        """:return: one that can be changed apart from this one"""
        return NumbersDict(self)

    def copy_like(self, numbers_dict: NumbersDict) -> NumbersDict:
        """:return: these numbers under the keys of `numbers_dict`, with a `value` if that one has one"""
        value = self.value if numbers_dict.value is not None else None
        return NumbersDict(numbers_dict={key: self[key] for key in numbers_dict.dict}, broadcast_value=value)

    @classmethod
    def constant_like(cls, const_number: Number, numbers_dict: NumbersDict) -> NumbersDict:
        """:return: the same number for all keys of `numbers_dict`"""
        value = const_number if numbers_dict.value is not None else None
        return cls(numbers_dict=dict.fromkeys(numbers_dict.dict, const_number), broadcast_value=value)

    @property
    def keys_set(self) -> set[str]:
        """The keys that have a number of their own."""
        return set(self.dict)

    def keys_union(self) -> set[str]:
        """:return: the keys that have a number of their own"""
        return self.keys_set

    def get(self, key: str, default: Number | None = None) -> Number | None:
        """:return: number of the key, or else the common value, or else `default`"""
        return self.dict.get(key, default if self.value is None else self.value)

    def pop(self, key: str, *args: Number) -> Number:
        """Removes a key, as `dict.pop` does."""
        return self.dict.pop(key, *args)

    def has_value_for(self, key: str) -> bool:
        """:return: whether `self[key]` works"""
        return self.value is not None or key in self.dict

    def has_values(self) -> bool:
        """:return: whether there is any number"""
        return bool(self.dict) or self.value is not None

    def keys(self) -> Iterable[str]:
        """:return: the keys that have a number of their own"""
        return self.dict.keys()

    def values(self) -> list[Number]:
        """:return: all numbers, the common value at the end"""
        return list(self.dict.values()) + ([] if self.value is None else [self.value])

    def items(self) -> ItemsView[str, Number]:
        """:return: the keys that have a number of their own, and these numbers"""
        return self.dict.items()

    def __getitem__(self, key: str) -> Number:
        if key in self.dict:
            return self.dict[key]
        if self.value is None:
            raise KeyError(key)
        return self.value

    def __setitem__(self, key: str, value: Number) -> None:
        self.dict[key] = value

    def __delitem__(self, key: str) -> None:
        del self.dict[key]

    def __contains__(self, key: object) -> bool:
        return key in self.dict

    def __iter__(self) -> Iterator[str]:
        # Like a dict since its keys are what makes sense to iterate over. The common value has none.
        return iter(self.dict)

    # Reductions.

    def max_value(self) -> Number:
        """:raises ValueError: if there is no number"""
        return max(self.values())

    def min_value(self) -> Number:
        """:raises ValueError: if there is no number"""
        return min(self.values())

    @classmethod
    def max(cls, items: Iterable[NumbersLike]) -> NumbersDict:
        """:return: maximum per key"""
        return cls._fold(items, max)

    @classmethod
    def min(cls, items: Iterable[NumbersLike]) -> NumbersDict:
        """:return: minimum per key"""
        return cls._fold(items, min)

    @classmethod
    def _fold(cls, items: Iterable[NumbersLike], op: BinaryOp) -> NumbersDict:
        result = cls()
        for item in items:
            result = cls.bin_op(result, item, op, zero=None)
        return result

    # Arithmetic.

    @classmethod
    def bin_op_scalar_optional(
        cls, self: Number | None, other: Number | None, zero: Number | None, op: BinaryOp
    ) -> Number | None:
        """
        :param self: left number, if there is one
        :param other: right number, if there is one
        :param zero: takes the place of the missing one; None: the other one is the result
        :param op: of two numbers
        """
        if self is None and other is None:
            return None
        if zero is None and (self is None or other is None):
            return other if self is None else self
        left = zero if self is None else self
        right = zero if other is None else other
        assert left is not None
        assert right is not None
        return op(left, right)

    @classmethod
    def bin_op(
        cls,
        self: NumbersLike,
        other: NumbersLike,
        op: BinaryOp,
        zero: Number | None,
        result: NumbersDict | None = None,
    ) -> NumbersDict:
        """
        :param self: left operand
        :param other: right operand
        :param op: of two numbers
        :param zero: takes the place of a missing number; None: the number of the other operand is the result
        :param result: where to write to, by default a new one
        """
        left, right = cls(self), cls(other)
        result = cls() if result is None else result
        for key in {**left.dict, **right.dict}:
            number = cls.bin_op_scalar_optional(left.get(key), right.get(key), zero, op)
            assert number is not None
            result.dict[key] = number
        result.value = cls.bin_op_scalar_optional(left.value, right.value, zero, op)
        return result

    def unary_op(self, op: Callable[[Number], Number]) -> NumbersDict:
        """:return: `op` of each number"""
        value = None if self.value is None else op(self.value)
        return NumbersDict(numbers_dict={key: op(number) for key, number in self.items()}, broadcast_value=value)

    def __neg__(self) -> NumbersDict:
        return self.unary_op(operator.neg)

    def __add__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.add, zero=0)

    __radd__ = __add__

    def __iadd__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.add, zero=0, result=self)

    def __sub__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.sub, zero=0)

    def __rsub__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(other, self, operator.sub, zero=0)

    def __isub__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.sub, zero=0, result=self)

    def __mul__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.mul, zero=1)

    __rmul__ = __mul__

    def __imul__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.mul, zero=1, result=self)

    def __floordiv__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.floordiv, zero=1)

    def __ifloordiv__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.floordiv, zero=1, result=self)

    def __truediv__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.truediv, zero=1)

    def __itruediv__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(self, other, operator.truediv, zero=1, result=self)

    # Names that Python 2 needed for the same operators.
    __div__ = __truediv__
    __idiv__ = __itruediv__

    def __rdiv__(self, other: NumbersLike) -> NumbersDict:
        return self.bin_op(other, self, operator.truediv, zero=1)

    __rtruediv__ = __rdiv__

    # Comparison.

    def any_compare(self, other: NumbersLike, cmp: Callable[[Number, Number], bool]) -> bool:
        """:return: whether `cmp` holds for some key (or the common value) that both sides have a number for"""
        right = NumbersDict(other)
        pairs = [(self.get(key), right.get(key)) for key in {**self.dict, **right.dict}]
        pairs.append((self.value, right.value))
        return any(cmp(a, b) for a, b in pairs if a is not None and b is not None)

    def elem_eq(self, other: NumbersLike, result_with_default: bool = True) -> NumbersDict:
        """
        :param other: to compare with
        :param result_with_default: whether the result has a common value, if both sides have one
        :return: 1 or 0 per key; a key that only one side has a number for is unequal
        """
        right = NumbersDict(other)
        equal = {key: int(self.get(key) == right.get(key)) for key in {**self.dict, **right.dict}}
        value = int(self.value == right.value) if result_with_default and self.value is not None else None
        return NumbersDict(numbers_dict=equal, broadcast_value=value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (NumbersDict, Mapping, int, float)):
            return NotImplemented
        right = NumbersDict(other)
        return self.value == right.value and all(self.elem_eq(right, result_with_default=False).values())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __cmp__(self, other: object) -> int:
        """There is no order of dicts, as in Python 3: only equality."""
        if self == other:
            return 0
        raise TypeError(f"{self!r} and {other!r} have no order; compare single numbers, or use any_compare")

    def __bool__(self) -> bool:
        return any(self.values())

    __nonzero__ = __bool__

    def __repr__(self) -> str:
        if self.value is None:
            return f"NumbersDict({self.dict!r})"
        if not self.dict:
            return f"NumbersDict({self.value!r})"
        return f"NumbersDict({self.dict!r}, broadcast_value={self.value!r})"
