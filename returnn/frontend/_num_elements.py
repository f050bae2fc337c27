"""How many entries a shape has."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._backend import get_backend_of
from returnn.frontend.math_ import combine_bc
from returnn.tensor import Dim, Tensor


def num_elements_of_shape(
    dims: Dim | Sequence[Dim], *, use_mask: bool = True, device: str | None = None
) -> int | Tensor:
    """
    :param dims: the shape
    :param use_mask: do not count frames beyond the end of their sequence
    :param device: such as "cpu"
    :return: number of entries; an int if all dims have fixed sizes. If lengths depend on dims which are not in the
        shape, the result has those
    """
    remaining = [dims] if isinstance(dims, Dim) else list(dims)
    number: int | Tensor = 1
    while remaining:
        dim = next(d for d in reversed(remaining) if not any(_depends_on(other, d) for other in remaining))
        remaining.remove(dim)
        if isinstance(number, Tensor) and dim in number.dims:
            number = get_backend_of(number).reduce(number, mode="sum", axis=dim)
        elif use_mask:
            number = _times(number, _on_device(dim.get_size_tensor_or_int(), device))
        else:
            number = _times(number, dim.capacity or dim.size or _on_device(dim.get_dim_value_tensor(), device))
    return number


def _depends_on(dim: Dim, other: Dim) -> bool:
    return dim.size is None and dim != other and other in dim.get_size_tensor().dims


def _times(a: int | Tensor, b: int | Tensor) -> int | Tensor:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int) and a == 1:
        return b
    return combine_bc(a, "*", b) if isinstance(a, Tensor) else combine_bc(b, "*", a)


def _on_device(x: int | Tensor, device: str | None) -> int | Tensor:
    return get_backend_of(x).copy_to_device(x, device) if device is not None and isinstance(x, Tensor) else x
