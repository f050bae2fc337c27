"""Documented path: hands on how modules of a config are loaded again."""

from returnn.compat.processes.hot_reload import ConfigHotReloader, hot_reload_config, should_use_hot_reloading

__all__ = ["ConfigHotReloader", "hot_reload_config", "should_use_hot_reloading"]
