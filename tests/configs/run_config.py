"""
Runs a whole config as a user does, on a few sequences of random data: trains two steps, saves, loads, and decodes or
scores with the loaded model.

Beside the options of the toolkit, a config of this folder has a dict `sample`: what the test has to know, see `Sample`.
"""

from __future__ import annotations

import json
import os
import pathlib
from dataclasses import dataclass, field, replace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

from returnn.config import Config, global_config_ctx
from returnn.engine.data import load_dataset
from returnn.engine.net_dicts import NetDicts
from returnn.engine.pretrain import pretrain_from_config
from returnn.tensor import Tensor
from returnn.tf.engine import Engine, tasks
from returnn.tf.network import ExternData, TFNetwork
from returnn.util.behavior_version import BehaviorVersion

FOLDER = pathlib.Path(__file__).parent
_NUM_SEQS, _SEQS_PER_BATCH = 4, 2
_LENGTHS, _LENGTHS_OF_LABELS = (11, 7, 9, 8), (3, 2, 4, 3)
# Graphs of seconds are not worth to be optimized.
_SESSION = {"graph_options": {"rewrite_options": {"disable_meta_optimizer": True}}}


@dataclass(frozen=True)
class Sample:
    """What a config says of itself to the test, by its dict `sample`."""

    lengths: dict[str, Any] = field(default_factory=dict)  # by key of the data: of 4 sequences; None: those of frames
    values: dict[str, Any] = field(default_factory=dict)  # by key: function from random data of a sequence to data
    runs: bool = True  # False: it asks for a program that is not there
    needs_gpu: bool = False  # as it says `device = "gpu"`
    first_layers: tuple[str, ...] = ()  # of the first epoch: some layers of which it has no more than these
    final_layers: tuple[str, ...] = ()  # some layers which the last epoch has
    params: dict[str, tuple[int, ...]] = field(default_factory=dict)  # shapes of parameters by name
    num_params: int | None = None  # number of all parameters, if `params` does not name all


@dataclass(frozen=True)
class Outcome:
    """What a run of a config gave."""

    shapes: dict[str, tuple[int, ...]]  # of the parameters, by name
    scores: dict[str, float]  # of the training, on the data for evaluation
    scores_of_loaded: dict[str, float]  # the same of the loaded model, if there is nothing to decode
    hypotheses: dict[str, Any]  # by tag
    num_labels: int  # of the hypotheses


def load(path: pathlib.Path, folder: pathlib.Path, **args: Any) -> tuple[Config, Sample]:
    """
    :param path: of the config
    :param folder: for the model
    :param args: options that the config can ask for, as from the command line
    :return: the config with data, and what it says to the test
    """
    config = Config()
    for name, value in {**args, "tf_session_opts": _SESSION}.items():
        config.set(name, value)
    config.load_file(path)
    text = config.dict.pop("sample", None)  # of a key-value config
    sample = Sample(**(json.loads(",".join(text)) if text else config.typed_dict.pop("sample", {})))
    shapes = {name: tuple(shape) for name, shape in sample.params.items()}  # JSON has lists
    sample = replace(sample, params=shapes)
    if sample.needs_gpu:
        assert config.typed_dict.pop("device") == "gpu"
    BehaviorVersion.reset()
    BehaviorVersion.set(config.int("behavior_version", None))
    data = _random_data(config, sample)
    options = {
        "train": data,
        "dev": data,
        "search_data": data,
        "max_seqs": _SEQS_PER_BATCH,
        "batch_size": 10_000,
        "num_epochs": 1,
        "model": str(folder / "net"),
        "learning_rate_file": str(folder / "learning_rates"),
        "search_output_file": str(folder / "hypotheses"),
    }
    for name, value in options.items():
        config.set(name, value)
    return config, sample


def net_dicts(config: Config) -> list[dict[str, Any]]:
    """:return: those of all epochs of the pretraining, and the one that stays"""
    pretrain = pretrain_from_config(config)
    num_epochs = 0 if pretrain is None else pretrain.get_train_num_epochs()
    dicts = NetDicts(config, pretrain)
    with global_config_ctx(config):
        return [dicts.of_epoch(epoch) for epoch in range(1, num_epochs + 2)]


def construct(config: Config, net_dict: dict[str, Any], **flags: Any) -> TFNetwork:
    """
    :param config: of the network
    :param net_dict: options of each layer, by name
    :param flags: for the network
    :return: a network with its losses
    """
    with tf.Graph().as_default(), global_config_ctx(config):
        network = TFNetwork(config=config, **flags)
        network.construct_from_dict(net_dict)
        if network.eval_flag:
            network.get_objective()
    return network


def run(config: Config, net_dict: dict[str, Any], config_of_search: Config) -> Outcome:
    """
    :param config: as from `load`
    :param net_dict: the network which is trained
    :param config_of_search: the same with the task "search"
    :return: what came out
    """
    for name in ("pretrain", "get_network"):
        config.typed_dict.pop(name, None)
    config.set("network", net_dict)
    training = Engine(config)
    training.init_train_from_config()
    training.train()
    assert training.network is not None
    shapes = {param.op.name: tuple(param.shape.as_list()) for param in training.network.get_params_list()}
    scores = _scores(training)
    training.finalize()
    layer = config.value("search_output_layer", "")
    if not layer:
        return Outcome(shapes, scores, _scores_of_loaded(config), {}, 0)
    config_of_search.typed_dict.pop("pretrain", None)
    with global_config_ctx(config_of_search):
        engine, names = tasks.search_engine(config_of_search, with_losses=False)
        data = tasks.load_task_dataset(config_of_search, "search_data")
        hypotheses = engine.search(data, do_eval=False, output_layer_names=names)
    num_labels = engine.network.get_layer(layer).output.dim
    engine.finalize()
    return Outcome(shapes, scores, {}, hypotheses, num_labels)


def _scores_of_loaded(config: Config) -> dict[str, float]:
    config.set("task", "eval")
    engine = Engine(config)
    engine.init_network_from_config()
    engine.eval_datasets = {"dev": load_dataset(config, "dev")}
    engine.eval_model()
    scores = _scores(engine)
    engine.finalize()
    return scores


def _scores(engine: Engine) -> dict[str, float]:
    found = engine.learning_rate_control.get_epoch_error_dict(1)
    return {key: value for key, value in found.items() if key.startswith("dev_")}


def _random_data(config: Config, sample: Sample) -> dict[str, Any]:
    """:return: data set with all data that the config knows"""
    with tf.Graph().as_default(), global_config_ctx(config):
        extern_data = ExternData()
        extern_data.init_from_config(config)
    random = numpy.random.RandomState(1)
    known = {
        key: data
        for key, data in sorted(extern_data.data.items())
        if key not in extern_data.extra_added_keys and key != "seq_tag"
    }
    seqs = [
        {key: _random_seq(random, key, data, sample, index) for key, data in known.items()}
        for index in range(_NUM_SEQS)
    ]
    dims = {key: (data.dim, data.batch_ndim - 1) for key, data in known.items() if data.dim}
    return {"class": "StaticDataset", "data": seqs, "output_dim": dims}


def _random_seq(random: numpy.random.RandomState, key: str, data: Tensor, sample: Sample, index: int) -> numpy.ndarray:
    default = _LENGTHS_OF_LABELS if data.sparse and key != "data" else _LENGTHS
    length = (sample.lengths.get(key, default) or _LENGTHS)[index]
    shape = [dim.dimension or length for dim in data.dims if not dim.is_batch_dim()]
    if data.sparse or data.dtype.startswith("int"):
        seq = random.randint(0, data.dim or 3, shape).astype(data.dtype)
        if data.sparse and len(shape) == 1:  # no label twice in a row: CTC would need more frames than labels
            seq = numpy.cumsum(1 + seq // 2, axis=0).astype(data.dtype) % data.dim
    else:
        seq = random.normal(size=shape).astype(data.dtype)
    return sample.values[key](seq) if key in sample.values else seq
