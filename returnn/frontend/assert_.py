"""Assertions on values."""

from __future__ import annotations

from returnn.frontend._backend import get_backend_of
from returnn.frontend._reduce import reduce_any
from returnn.frontend.array_ import convert_to_tensor
from returnn.frontend.math_ import logical_not
from returnn.tensor import Tensor
from returnn.util.errors import DtypeError


def assert_(condition: Tensor | bool, message: str, *, stop: bool = True) -> None:
    """
    Checks a value, when it is computed.

    :param condition: bool, should be true everywhere; padded frames do not count
    :param message: for people
    :param stop: end with an error; otherwise, the message is only printed
    :raises AssertionError: if the condition is not true, and `stop`. Graphs have their own errors, with the message.
    """
    if isinstance(condition, Tensor):
        if condition.dtype != "bool":
            raise DtypeError(f"assert_: {condition} should be bool. Compare with something first, such as `x > 0`.")
        failed = logical_not(condition)
        failed = reduce_any(failed, axis=failed.dims) if failed.dims else failed
        get_backend_of(condition).assert_(logical_not(failed), message, stop=stop)  # noqa: PT009 (no unittest)
    else:
        value = convert_to_tensor(condition, dims=(), dtype="bool")
        get_backend_of().assert_(value, message, stop=stop)  # noqa: PT009 (no unittest)


__all__ = ["assert_"]
