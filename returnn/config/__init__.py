"""Config: the options of one run."""

from returnn.config.config import Config
from returnn.config.device import tf_should_use_gpu
from returnn.config.global_config import (
    SubProcCopyGlobalConfigPreInitFunc,
    get_global_config,
    global_config_ctx,
    set_global_config,
)
from returnn.config.network_json import has_network, network_json_from_config

__all__ = [
    "Config",
    "SubProcCopyGlobalConfigPreInitFunc",
    "get_global_config",
    "global_config_ctx",
    "has_network",
    "network_json_from_config",
    "set_global_config",
    "tf_should_use_gpu",
]
