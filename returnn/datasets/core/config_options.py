"""Options of data sets which a config gives for all of them, outside of their dicts."""

from __future__ import annotations

from typing import Any

from returnn.config import Config
from returnn.config.current import current_config
from returnn.config.options import Options
from returnn.datasets.core.seq_order import OrderIfPossible
from returnn.util.errors import ConfigError


def training_options(config: Config) -> dict[str, Any]:
    """:return: what the config says of the training data"""
    options = {
        "window": config.options.window,
        "context_window": config.options.context_window,
        "chunking": config.options.chunking,
        "seq_ordering": config.options.batching,
        "shuffle_frames_of_nseqs": config.options.shuffle_frames_of_nseqs,
        "min_chunk_size": config.options.min_chunk_size,
        "chunking_variance": config.options.chunking_variance,
    }
    return {key: value for key, value in options.items() if value}


def data_wait_limit_s() -> float:
    """:return: how long to wait for another process, in seconds: option `data_wait_limit_s` of the current config"""
    config = current_config()
    return float(Options.data_wait_limit_s.default if config is None else config.options.data_wait_limit_s)


def evaluation_options(config: Config) -> dict[str, Any]:
    """:return: whole sequences, sorted by length if that is known, unless the config wants chunks here, too"""
    chunking = _chunking_of_evaluation(config) or "0"
    return {"seq_ordering": OrderIfPossible("sorted"), "shuffle_frames_of_nseqs": 0, "chunking": chunking}


def _chunking_of_evaluation(config: Config) -> Any:
    """:return: size of the chunks; nothing for whole sequences"""
    options = config.options
    if options.on_size_limit == "chunk":  # sequences which are too long for a batch are cut
        if options.batch_size == "auto":
            raise ConfigError("option 'on_size_limit': 'chunk' needs a number as 'batch_size', not 'auto'.")
        return options.batch_size
    has_frames_as_chunks = str(options.chunking) == "1"
    return options.chunking if has_frames_as_chunks or options.chunk_eval else None
