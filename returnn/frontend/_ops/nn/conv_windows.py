"""
Windows that move along axes, in convolution and pooling: how many positions there are, and where the first one is.

Of the kinds of padding, "same" can mean two things. With "same_static", there are always `filter_size - 1` frames of
padding, so that a sequence gets what it would get alone. With "same_dynamic", the number depends on the length of the
axis in memory, as in TensorFlow: with a stride, the windows of a sequence move when there is a longer one in the batch.
"same_of_multiple" begins where TensorFlow does on an axis whose size is a multiple of the stride, whatever its size is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from returnn.tensor import Dim
from returnn.tensor._frontend import frontend
from returnn.util.errors import DimError, check_known

PADDINGS = ("valid", "same_static", "same_of_multiple", "same_dynamic")
Padding = str | int | Sequence[int | str]  # an int: so many frames on both sides


@dataclass(frozen=True)
class Window:
    """A window along one axis."""

    size: int
    stride: int = 1
    dilation: int = 1
    padding: str | int = "valid"  # one of PADDINGS, or the number of frames on both sides

    @property
    def extent(self) -> int:
        """How many frames it reaches over, without the first one."""
        return (self.size - 1) * self.dilation

    def static_padding(self) -> tuple[int, int] | None:
        """:return: number of frames before and behind the axis; None if it depends on the size in memory"""
        if isinstance(self.padding, int):
            return self.padding, self.padding
        if self.padding == "valid":
            return 0, 0
        if self.padding == "same_static" or self.stride == 1:
            return self.extent // 2, self.extent - self.extent // 2
        if self.padding == "same_of_multiple":
            left = max(self.extent + 1 - self.stride, 0) // 2
            return left, self.extent - left
        return None

    def padding_for(self, size: int) -> tuple[int, int]:
        """:return: number of frames before and behind an axis of this size in memory"""
        static = self.static_padding()
        if static is not None:
            return static
        total = max((-(-size // self.stride) - 1) * self.stride + self.extent + 1 - size, 0)
        return total // 2, total - total // 2

    @property
    def moves(self) -> bool:
        """Whether its first position depends on the size of the axis in memory, so on the longest sequence."""
        return len({self.padding_for(size)[0] for size in range(1, self.stride + 1)}) > 1

    @property
    def reaches_beyond(self) -> bool:
        """Whether its last positions can have frames beyond the end of a sequence."""
        lengths = [length for length in range(1, self.extent + 2 * self.stride + 1) if self.out_length(length) > 0]
        return any(
            (self.out_length(length) - 1) * self.stride - self.padding_for(length)[0] + self.extent >= length
            for length in lengths
        )

    def out_length(self, length: Any) -> Any:
        """:return: number of positions"""
        if isinstance(self.padding, int):
            length = _plus(length, 2 * self.padding - self.extent)
        elif self.padding == "valid":
            length = _plus(length, -self.extent)
        return _ceildiv(length, self.stride)


@dataclass(frozen=True)
class TransposedWindow:
    """A window which is laid onto the output for each input frame. Where windows overlap, they are added."""

    size: int
    stride: int
    padding: str | int = "valid"
    remove: int = 0  # frames cut off on both sides of the output
    output_padding: int | None = None  # frames more at the end; then "same" cuts off `size // 2` on both sides

    @property
    def cut_left(self) -> int:
        """How many frames of all that there are do not belong to the output, at the begin."""
        if self.padding == "valid":
            return self.remove
        if isinstance(self.padding, int):
            return self.padding + self.remove
        if self.output_padding is None:
            return max(self.size - self.stride, 0) // 2 + self.remove
        return max(2 * (self.size // 2) - self.output_padding, 0) // 2 + self.remove

    @property
    def reaches_beyond(self) -> bool:
        """Whether what is laid for the first frame beyond the end of a sequence begins before the end of the output."""
        length = self.size
        return bool(length * self.stride - self.cut_left < self.out_length(length))

    def full_length(self, length: Any) -> Any:
        """:return: up to where windows reach"""
        return (length - 1) * self.stride + self.size

    def out_length(self, length: Any) -> Any:
        """:return: number of output frames"""
        out = length if self.stride == 1 else length * self.stride
        if self.output_padding is None and not isinstance(self.padding, int):
            more = max(self.size - self.stride, 0) if self.padding == "valid" else 0
        else:
            cut = self.padding if isinstance(self.padding, int) else 0 if self.padding == "valid" else self.size // 2
            more = self.size - self.stride - 2 * cut + (self.output_padding or 0)
        return _plus(out, more - 2 * self.remove)


def windows(
    operation: str,
    number: int,
    *,
    size: Any,
    strides: Any = None,
    dilation_rate: Any = None,
    padding: Padding = "valid",
) -> list[Window]:
    """
    :param operation: for errors
    :param number: of axes
    :param size: for each axis, or the same for all; likewise the others
    :param strides: default 1
    :param dilation_rate: default 1
    :param padding: see `Window`
    """
    return [
        Window(*values)
        for values in zip(
            per_axis(operation, "size", size, number),
            per_axis(operation, "strides", 1 if strides is None else strides, number),
            per_axis(operation, "dilation_rate", 1 if dilation_rate is None else dilation_rate, number),
            paddings(operation, padding, number),
            strict=True,
        )
    ]


def transposed_windows(
    operation: str,
    number: int,
    *,
    size: Any,
    strides: Any = None,
    padding: Padding = "valid",
    remove_padding: Any = 0,
    output_padding: Any = None,
) -> list[TransposedWindow]:
    """
    :param operation: for errors
    :param number: of axes
    :param size: for each axis, or the same for all; likewise the others
    :param strides: default: the sizes
    :param padding: see `TransposedWindow`
    :param remove_padding: see `TransposedWindow`
    :param output_padding: see `TransposedWindow`
    """
    is_list = isinstance(output_padding, Sequence)
    more = list(output_padding) if is_list else [output_padding] * number
    if len(more) != number:
        raise DimError(
            f"{operation}: output_padding {output_padding} should be one number, or one for each of {number} axes."
        )
    return [
        TransposedWindow(*values)
        for values in zip(
            per_axis(operation, "size", size, number),
            per_axis(operation, "strides", size if strides is None else strides, number),
            paddings(operation, padding, number),
            per_axis(operation, "remove_padding", remove_padding, number, low=0),
            more,
            strict=True,
        )
    ]


def per_axis(operation: str, name: str, value: Any, number: int, *, low: int = 1) -> list[int]:
    """
    :param value: int or Dim, or one for each axis
    :param low: the lowest number which makes sense
    :raises DimError: if these are more or less than `number`, or no numbers
    """
    values = list(value) if isinstance(value, Sequence) else [value] * number
    sizes = [x.size if isinstance(x, Dim) else x for x in values]
    if len(sizes) != number or not all(isinstance(x, int) and x >= low for x in sizes):
        raise DimError(
            f"{operation}: {name} {value} should be a number from {low} on, or one for each of {number} axes."
        )
    return [int(x) for x in sizes if x is not None]


def paddings(operation: str, value: Padding, number: int) -> list[str | int]:
    """
    :param value: one kind of padding, or one for each axis. "same" stands for "same_dynamic".
    :raises ConfigError: if there is no such padding
    """
    values = [value] * number if isinstance(value, (str, int)) else list(value)
    if len(values) != number:
        raise DimError(f"{operation}: padding {value} should be one, or one for each of {number} axes.")
    result: list[str | int] = []
    for x in values:
        name = x.lower() if isinstance(x, str) else x
        name = "same_dynamic" if name == "same" else name
        if isinstance(name, str):
            check_known("padding", name, ("same", *PADDINGS), where=operation)
        result.append(name)
    return result


def _plus(length: Any, number: int) -> Any:
    """:return: length + number, at least 0"""
    if not number:
        return length
    if isinstance(length, int):
        return max(length + number, 0)
    if isinstance(length, Dim):
        return length + number if number > 0 else length.sub_right(-number)
    longer = length + number
    return longer if number > 0 else frontend().maximum(longer, 0)


def _ceildiv(length: Any, divisor: int) -> Any:
    if divisor == 1:
        return length
    if isinstance(length, int):
        return -(-length // divisor)
    return length.ceildiv_right(divisor) if isinstance(length, Dim) else (length + (divisor - 1)) // divisor
