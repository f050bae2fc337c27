"""
Automatic mixed precision: parameters stay in float32, what costs most is computed in a shorter float.

With a policy, matrix products, convolutions and fused attention take their operands in its dtype, and what comes out
has the dtype of the operands again. Code that does more than that by itself calls `amp_cast_compute`, and
`amp_cast_float32` where precision matters. Without a policy, both change nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from returnn.frontend._ops.precision import AmpPolicy, policies
from returnn.frontend.array_ import cast
from returnn.frontend.dtype import is_float_dtype
from returnn.tensor import Tensor


def get_amp_policy() -> AmpPolicy | None:
    """:return: the policy; None: everything stays as it is"""
    return policies[-1]


def set_amp_policy(policy: AmpPolicy | str | None) -> None:
    """
    Sets the policy.

    :param policy: also just its dtype; None: everything stays as it is
    """
    policies[-1] = _as_policy(policy)


@contextlib.contextmanager
def set_amp_policy_ctx(policy: AmpPolicy | str | None) -> Iterator[None]:
    """Sets the policy inside of the `with` block, see `set_amp_policy`."""
    policies.append(_as_policy(policy))
    try:
        yield
    finally:
        policies.pop()


def amp_cast_compute(*tensors: Tensor | None) -> Any:
    """:return: the tensors, floats in the dtype of the policy, if there is one; one tensor as it is, not as tuple"""
    policy = get_amp_policy()
    return _cast_floats(tensors, None if policy is None else policy.compute_dtype)


def amp_cast_float32(*tensors: Tensor | None) -> Any:
    """:return: the tensors, floats in float32, if there is a policy; one tensor as it is, not as tuple"""
    return _cast_floats(tensors, None if get_amp_policy() is None else "float32")


def _as_policy(policy: AmpPolicy | str | None) -> AmpPolicy | None:
    return AmpPolicy(policy) if isinstance(policy, str) else policy


def _cast_floats(tensors: tuple[Tensor | None, ...], dtype: str | None) -> Any:
    result = tuple(
        x if x is None or dtype is None or x.dtype == dtype or not is_float_dtype(x.dtype) else cast(x, dtype)
        for x in tensors
    )
    return result[0] if len(result) == 1 else result


__all__ = [
    "AmpPolicy",
    "amp_cast_compute",
    "amp_cast_float32",
    "get_amp_policy",
    "set_amp_policy",
    "set_amp_policy_ctx",
]
