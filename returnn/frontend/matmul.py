"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._backend import get_backend_of
from returnn.tensor import Dim, Tensor
from returnn.tensor.plans import plans


def matmul(a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """
    Sum of products over some dims: `c[...] = sum_j a[..., j] * b[j, ...]`.

    Dims that both have and which are not summed over are matched, as in a batched product. Which of them exist decides
    what this is: scaling, scalar product, outer product, matrix product.

    :param a: {common..., reduce..., A...}
    :param b: {common..., reduce..., B...}
    :param reduce: dims to sum over; both have them
    :param use_mask: leave out frames beyond the end of their sequence
    :return: [common..., A..., B...]
    :raises DimError: if an operand does not have a dim of `reduce`
    """
    out: Tensor | None = plans.run("matmul", a, b, reduce)
    if out is not None:
        return out
    return get_backend_of(a, b).matmul(a, b, reduce=reduce, use_mask=use_mask)


def dot(a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """Another name for `matmul`."""
    return matmul(a, b, reduce=reduce, use_mask=use_mask)
