"""The dtype of floats in a network: of parameters, data, and whatever nobody says otherwise."""

from __future__ import annotations

from returnn.config import Config
from returnn.frontend import get_default_float_dtype


def float_dtype_of_config(config: Config) -> str:
    """
    :param config: its option `default_float_dtype`
    :return: the dtype; the default of the frontend if the config does not say
    :raises ConfigError: if there is no such dtype
    """
    return config.options.default_float_dtype or get_default_float_dtype()
