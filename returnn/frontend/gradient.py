"""Gradients, and operations which change them on their way back."""

from __future__ import annotations

from typing import Any

from returnn.frontend._backend import get_backend_of, get_global_backend
from returnn.tensor import Dim, Tensor


def set_requires_gradient(source: Tensor) -> None:
    """Prepares a tensor for `gradient` with respect to it. To be called before anything is computed from it."""
    get_backend_of(source).set_requires_gradient(source)


def gradient(y: Tensor, x: Tensor) -> Tensor:
    """
    :param y: scalar
    :param x: something that y was computed from
    :return: dy/dx, with the dims of x; zeros if y does not depend on x
    """
    return get_backend_of(y, x).gradient(y, x)


def stop_gradient(source: Tensor) -> Tensor:
    """:return: the same value; no gradient goes back"""
    return get_backend_of(source).stop_gradient(source)


def stop_gradient_scope() -> Any:
    """:return: context manager; no gradient goes back through what is computed inside"""
    return get_global_backend().stop_gradient_scope()


def gradient_checkpoint_scope() -> Any:
    """
    :return: context manager. What is computed inside is not kept for the gradient, but computed again, which takes less
        memory and more time. Results are the same. In a graph, TensorFlow itself decides about this.
    """
    return get_global_backend().gradient_checkpoint_scope()


def scaled_gradient(source: Tensor, scale: float | Tensor) -> Tensor:
    """
    :param source: any tensor
    :param scale: number, or tensor with dims of source; -1 reverses the gradient (Ganin and Lempitsky 2015)
    :return: the same value; the gradient is multiplied by `scale`
    """
    return get_backend_of(source).scaled_gradient(source, scale)


def scaled_gradient_ext(
    source: Tensor,
    *,
    scale: float | Tensor,
    shift: float | Tensor | None = None,
    scale_shift_by_sum_over_axis: Dim | None = None,
) -> Tensor:
    """
    :param source: any tensor
    :param scale: the gradient is multiplied by this ...
    :param shift: ... and then this is added
    :param scale_shift_by_sum_over_axis: what is added is multiplied with the sum of the absolute gradient over this dim
    :return: the same value
    """
    return get_backend_of(source).scaled_gradient_ext(
        source, scale=scale, shift=shift, scale_shift_by_sum_over_axis=scale_shift_by_sum_over_axis
    )
