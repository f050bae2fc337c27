"""`Engine`: the engine with PyTorch. What it does with data and epochs is that of all backends."""

from __future__ import annotations

from returnn.config import Config, get_global_config
from returnn.engine.frontend.engine import FrontendEngine
from returnn.torch.engine.runner import TorchRunner


class Engine(FrontendEngine):
    """The tasks of a config with `backend = "torch"`."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        config = config if config is not None else get_global_config()
        super().__init__(config, TorchRunner(config))
