"""Zero, the highest and the lowest number of a dtype."""

from __future__ import annotations

from typing import Any

import numpy


def zero_value(dtype: str) -> Any:
    """:return: 0, False or an empty string"""
    return {"bool": False, "string": ""}.get(dtype, 0)


def extreme_value(dtype: str, *, highest: bool) -> Any:
    """:return: the highest or lowest number of this dtype; for floats it is infinite"""
    if dtype == "bool":
        return highest
    if dtype.startswith(("float", "bfloat")):
        return float("inf") if highest else -float("inf")
    info = numpy.iinfo(dtype)
    return info.max if highest else info.min
