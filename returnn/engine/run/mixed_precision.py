"""Mixed precision, options `tf_amp` and `torch_amp`: what costs most is computed in a shorter float."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from returnn.util.errors import check_known

_DTYPES = ("bfloat16", "float16")


def amp_dtype(option: Any, *, name: str) -> str | None:
    """
    :param option: name of a dtype, a dict with "dtype", or nothing
    :param name: of the option
    :return: dtype; None: no mixed precision
    :raises ConfigError: if there is no such dtype
    """
    if not option:
        return None
    where = f"option {name!r}"
    if isinstance(option, Mapping):
        for key in option:
            check_known("key", key, ("dtype",), where=where)
        option = option.get("dtype")
    dtype = str(option).removeprefix("torch.")
    check_known("dtype", dtype, _DTYPES, where=where)
    return dtype
