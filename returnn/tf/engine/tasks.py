"""The tasks of the command line that need a network: each gets the config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.config import Config
from returnn.engine.data import dataset_names, load_dataset, load_task_dataset
from returnn.log import log
from returnn.tf.engine.engine import Engine
from returnn.tf.engine.forward import forward_to_hdf
from returnn.tf.engine.search import search
from returnn.util.errors import ConfigError


def train(config: Config) -> None:
    """Trains, with an evaluation after each epoch."""
    engine = Engine(config)
    engine.init_train_from_config()
    try:
        engine.train()
    finally:
        engine.finalize()


def initialize_model(config: Config) -> None:
    """Writes a model file with initial parameters."""
    engine = Engine(config)
    engine.init_network_from_config()
    engine.set_epoch(0)
    engine.save_model()
    print(f"saved {engine.get_epoch_model_filename()!r}", file=log.v1)
    engine.finalize()


def evaluate(config: Config) -> None:
    """Scores of one model on the data for evaluation."""
    engine = Engine(config)
    engine.init_network_from_config()
    engine.eval_datasets = {name: load_dataset(config, name) for name in dataset_names(config)}
    if not engine.eval_datasets:
        raise ConfigError("task 'eval': there is no data: one of 'dev', 'eval', 'eval_datasets' is required.")
    for name, scores in engine.eval_model(lr_control_update_scores=False).items():
        text = ", ".join(f"{key.replace(':', ' ')} {value:.6g}" for key, value in sorted(scores.items()))
        print(f"{name}: {text}", file=log.v1)
    engine.finalize()


def search_task(config: Config) -> None:
    """Decodes `search_data`, into `search_output_file`."""
    engine = Engine(config)
    engine.use_search_flag = True
    engine.use_eval_flag = config.bool("search_do_eval", True)
    names = config.typed_value("search_output_layer", None) or config.value("search_output_layer", "output")
    names = [names] if isinstance(names, str) else list(names)
    engine.init_network_from_config(net_dict_post_proc=lambda net_dict: _with_outputs(net_dict, names))
    search(
        engine,
        load_task_dataset(config, "search_data"),
        output_layer_names=names,
        output_file=config.value("search_output_file", "") or None,
        output_file_format=config.value("search_output_file_format", "txt"),
        do_eval=engine.use_eval_flag,
    )
    engine.finalize()


def forward(config: Config) -> None:
    """Outputs of the network for `forward_data`, into an HDF file."""
    engine = Engine(config)
    engine.use_eval_flag = False
    engine.use_search_flag = config.bool("forward_use_search", False)
    name = config.value("forward_output_layer", None) or "output"
    engine.init_network_from_config(net_dict_post_proc=lambda net_dict: _with_outputs(net_dict, [name]))
    output_file = config.value("output_file", "") or f"dump-fwd-epoch-{engine.epoch}.hdf"
    forward_to_hdf(engine, load_task_dataset(config, "forward_data"), output_file)
    engine.finalize()


def _with_outputs(net_dict: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """:return: the net dict, in which these layers are made although no loss needs them"""
    outputs = {name: {**net_dict[name], "is_output_layer": True} for name in names if name in net_dict}
    return {**net_dict, **outputs}
