"""`Engine`: the engine for models of the frontend in graphs; data and epochs are as with all backends."""

from __future__ import annotations

from returnn.config import Config, get_global_config
from returnn.engine.frontend.engine import FrontendEngine
from returnn.tf.engine_rf.runner import GraphRunner


class Engine(FrontendEngine):
    """The tasks of a config with `backend = "tensorflow"`."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        config = config if config is not None else get_global_config()
        super().__init__(config, GraphRunner(config))
