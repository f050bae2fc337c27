"""Values as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy


def json_value(value: Any) -> Any:
    """
    :param value: numbers, texts, arrays, and lists and dicts of them
    :return: the same: arrays and tuples as lists, and None (`null`) for numbers that are not finite
    """
    if isinstance(value, numpy.ndarray):
        return json_value(value.tolist())
    if isinstance(value, numpy.generic):
        return json_value(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    return value
