"""Options of data sets which a config gives for all of them, outside of their dicts."""

from __future__ import annotations

from typing import Any

from returnn.config import Config


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


def evaluation_options(config: Config) -> dict[str, Any]:
    """:return: whole sequences, sorted by length, unless the config wants chunks here, too"""
    chunking: Any = "0"
    if config.options.on_size_limit == "chunk":
        chunking = config.options.batch_size or "0"
    elif str(config.options.chunking) == "1" or config.options.chunk_eval:
        chunking = config.options.chunking or "0"
    return {"chunking": chunking, "seq_ordering": "sorted", "shuffle_frames_of_nseqs": 0}
