"""The dtype of floats in a network: of parameters, data, and whatever nobody says otherwise."""

from __future__ import annotations

from typing import Any

from returnn.frontend import get_default_float_dtype
from returnn.util.errors import check_known

_POSSIBLE = ("float16", "bfloat16", "float32", "float64")


def float_dtype_of_config(config: Any) -> str:
    """
    :param config: its option `default_float_dtype`
    :return: the dtype; the default of the frontend if the config does not say
    :raises ConfigError: if there is no such dtype
    """
    dtype = config.value("default_float_dtype", None)
    if dtype is None:
        return get_default_float_dtype()
    check_known("dtype", dtype, _POSSIBLE, where="option 'default_float_dtype'")
    return str(dtype)
