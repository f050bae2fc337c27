"""The option `packed_tensors`: which data keys go into a batch packed, without padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from returnn.config import get_global_config

Packing: TypeAlias = "bool | Mapping[str, bool | Mapping[str, Any]]"


def packed_batch_config() -> Packing | None:
    """
    :return: the option `packed_tensors` of the global config: True (all data keys), or a dict from data key to True,
        False or options of its own; None if nothing is packed
    :raises ConfigError: if it is something else
    """
    config = get_global_config(return_empty_if_none=True)
    assert config is not None
    return config.options.packed_tensors or None


def packed_batch_key_opts(packing: Packing | None, key: str) -> dict[str, Any] | None:
    """
    :param packing: from `packed_batch_config`
    :param key: data key
    :return: its options; None if it is not packed
    """
    opts = packing.get(key, False) if isinstance(packing, Mapping) else packing
    if not opts:
        # A key with empty options is packed as well.
        return {} if isinstance(opts, Mapping) else None
    return dict(opts) if isinstance(opts, Mapping) else {}
