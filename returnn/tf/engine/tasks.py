"""The tasks of the command line for networks of layers: those of all engines, and others. Each gets the config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.config import Config
from returnn.engine.data import load_task_dataset
from returnn.engine.net_outputs import with_kept_layer
from returnn.engine.output_statistics import analyzed_dataset
from returnn.engine.run.hyper_param_tuning import tune_hyper_params
from returnn.engine.search_results import check_output_options
from returnn.engine.tasks import cleanup_old_models, evaluate, init_training, initialize_model, train
from returnn.tf.engine.engine import Engine
from returnn.tf.engine.outputs.hypotheses import check_labels

__all__ = [
    "analyze", "cleanup_old_models", "compute_priors", "evaluate", "forward", "init_training",
    "initialize_model", "search_task", "train", "tune_hyper_params",
]  # fmt: skip


def search_task(config: Config) -> None:
    """Decodes `search_data`, into `search_output_file`."""
    check_output_options(config)
    engine, names = search_engine(config, with_losses=config.options.search_do_eval)
    for name in names:
        check_labels(name, engine.network.get_layer(name).output)  # before data is asked for, which may not be needed
    engine.search(
        load_task_dataset(config, "search_data"),
        do_eval=engine.use_eval_flag,
        output_layer_names=names,
        output_file=config.options.search_output_file or None,
        output_file_format=config.options.search_output_file_format,
    )
    engine.finalize()


def forward(config: Config) -> None:
    """Outputs of the network for `forward_data`: to `forward_callback` of the config, or into an HDF file."""
    engine = forward_engine(config, config.options.forward_output_layer)
    data = load_task_dataset(config, "forward_data")
    callback = config.options.forward_callback
    if callback is not None:
        engine.forward_with_callback(dataset=data, callback=callback() if callable(callback) else callback)
    else:
        output_file = config.options.output_file or f"dump-fwd-epoch-{engine.epoch}.hdf"
        engine.forward_to_hdf(data, output_file, batch_size=config.options.forward_batch_size)
    engine.finalize()


def analyze(config: Config) -> None:
    """Statistics of the output layers on `analyze_dataset`."""
    engine = _statistics_engine(config)
    engine.analyze(analyzed_dataset(config), config.options.statistics)
    engine.finalize()


def compute_priors(config: Config) -> None:
    """Mean of `forward_output_layer` over the training data, into `output_file`."""
    engine = forward_engine(config, config.options.forward_output_layer)
    engine.compute_priors(analyzed_dataset(config), config)
    engine.finalize()


def search_engine(config: Config, *, with_losses: bool) -> tuple[Engine, list[str]]:
    """:return: engine with a network in search, names of the layers with the hypotheses"""
    engine = Engine(config)
    engine.use_search_flag = True
    engine.use_eval_flag = with_losses
    names = list(config.options.search_output_layer)
    engine.init_network_from_config(net_dict_post_proc=lambda net_dict: _with_outputs(net_dict, names))
    return engine, names


def forward_engine(config: Config, layer: str) -> Engine:
    """
    :param config: for the task "forward" or "compute_priors"
    :param layer: is computed, although no loss needs it
    :return: engine with a network for outputs
    """
    engine = Engine(config)
    engine.use_eval_flag = False
    engine.use_search_flag = config.options.forward_use_search
    engine.init_network_from_config(net_dict_post_proc=lambda net_dict: _with_outputs(net_dict, [layer]))
    return engine


def _statistics_engine(config: Config) -> Engine:
    engine = Engine(config)
    engine.use_eval_flag = False
    engine.init_network_from_config()
    return engine


def _with_outputs(net_dict: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """:return: the net dict, in which these layers are made although no loss needs them"""
    for name in names:
        first, *inner = name.split("/")
        if name in net_dict:
            net_dict = {**net_dict, name: {**net_dict[name], "is_output_layer": True}}
        elif inner and first in net_dict:
            net_dict = with_kept_layer(net_dict, [first, *inner], where=f"layer {name!r}")
    return net_dict
