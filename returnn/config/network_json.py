"""Where a config has its network."""

from __future__ import annotations

from typing import Any

from returnn.config.config import Config
from returnn.util.errors import ConfigError, UserError
from returnn.util.files.json_text import load_json


def network_json_from_config(config: Config) -> dict[str, Any]:
    """
    :return: the net dict
    :raises ConfigError: if there is none
    """
    network = config.typed_value("network", None)
    if network is None and config.network_topology_json is not None:
        network = load_json(content=config.network_topology_json)
    elif network is None and "network" in config.dict:  # of a key-value config, cut at its commas
        network = _parse(config.value("network", ""))
    if not isinstance(network, dict):
        found = "it is not set" if network is None else f"it is {type(network).__name__}"
        raise ConfigError(f"option 'network': a dict of layers is needed, but {found}.")
    return network


def has_network(config: Config) -> bool:
    """:return: whether there is a net dict, beside those that a pretraining may make"""
    return config.has("network") or config.network_topology_json is not None


def _parse(text: str) -> Any:
    try:
        return load_json(content=text)
    except UserError as exc:
        raise ConfigError(f"option 'network': {exc}\n  Write it as JSON on one line, or the config in Python.") from exc
