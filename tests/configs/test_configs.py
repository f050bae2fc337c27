"""
Whole setups in the styles of 2016 to 2022 are constructed for training, search and all epochs of their pretraining,
train, save, load, and decode.
"""

import math

import pytest
import tensorflow as tf

from returnn.config import global_config_ctx
from tests.configs.run_config import FOLDER, construct, load, net_dicts, run

CONFIGS = sorted(path.stem for path in FOLDER.glob("*.config"))


@pytest.fixture(autouse=True)
def default_graph_afterwards():
    yield
    tf.compat.v1.reset_default_graph()


@pytest.mark.parametrize("name", CONFIGS)
def test_config(name, tmp_path):
    path = FOLDER / f"{name}.config"
    config, sample = load(path, tmp_path)
    with global_config_ctx(config):
        dicts = net_dicts(config)
        check_pretraining(config, sample, dicts)
        if not sample.runs:
            network = construct(config, dicts[-1], train_flag=True)
            check_parameters({p.op.name: tuple(p.shape.as_list()) for p in network.get_params_list()}, sample)
            return
        for_search, _ = load(path, tmp_path, task="search")
        check_outcome(run(config, dicts[-1], for_search), sample)


def check_pretraining(config, sample, dicts):
    """All networks of the pretraining can be made, and they grow."""
    for index, net_dict in enumerate(dicts[:-1]):
        if net_dict not in (dicts[-1], *dicts[:index]):
            construct(config, net_dict, train_flag=True)
    if sample.first_layers:
        layers = {name for name in dicts[0] if not name.startswith("#")}
        assert layers == set(sample.first_layers)
        assert layers != set(dicts[-1])
    assert set(sample.final_layers) <= set(dicts[-1])


def check_outcome(outcome, sample):
    check_parameters(outcome.shapes, sample)
    assert outcome.scores
    assert all(math.isfinite(value) for value in outcome.scores.values())
    for key, value in outcome.scores_of_loaded.items():
        assert value == pytest.approx(outcome.scores[key], rel=1e-4), key
    for hypothesis in outcome.hypotheses.values():
        assert all(0 <= int(label) < outcome.num_labels for label in hypothesis.split())
    assert len(outcome.hypotheses) in (0, 4)


def check_parameters(shapes, sample):
    assert {name: shapes.get(name) for name in sample.params} == sample.params
    if sample.num_params is not None:
        assert len(shapes) == sample.num_params
