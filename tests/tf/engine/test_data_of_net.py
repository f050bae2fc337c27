"""Data sets that a net dict describes by `#config`, as a pretraining that trains on its own alignments does."""

import pytest
import tensorflow as tf

from returnn.datasets.generating import Task12AXDataset
from returnn.tf.engine import Engine, tasks
from returnn.util.errors import ConfigError
from tests.tf.engine.small_config import config


@pytest.fixture(autouse=True)
def fresh_graph():
    yield
    tf.compat.v1.reset_default_graph()


def data(num_seqs):
    return {"class": "Task12AXDataset", "num_seqs": num_seqs, "fixed_random_seed": 1}


OUTPUT = {"class": "softmax", "from": "data", "loss": "ce", "target": "classes"}
NET = {"output": OUTPUT}


def by_pretrain(options):
    def algo(idx, net):
        return {**net, "#config": options[idx]} if idx < len(options) else None

    return {"network": NET, "pretrain": {"construction_algo": algo}}


def by_function(options):
    def get_network(epoch, **_kwargs):
        return {**NET, "#config": options[epoch - 1]} if epoch <= len(options) else NET

    return {"network": None, "get_network": get_network}


@pytest.mark.parametrize("networks", [by_pretrain, by_function])
def test_data_holds_as_long_as_its_network(tmp_path, networks):
    options = [{"train": data(3)}, {"train": data(4), "dev": data(2), "eval_datasets": {"more": data(1)}}]
    engine = Engine(config(tmp_path, **networks(options), train=data(5), dev=data(6), num_epochs=4))
    engine.init_train_from_config()
    trained = []
    begin_data = engine.training.model.begin_data

    def note(name, dataset):
        begin_data(name, dataset)
        trained.append((engine.epoch, name, dataset.num_seqs))

    engine.training.model.begin_data = note
    engine.evaluation.model.begin_data = note
    engine.train()
    assert [entry for entry in trained if entry[1] == "train"] == [
        (1, "train", 3), (2, "train", 4), (3, "train", 5), (4, "train", 5),
    ]  # fmt: skip
    assert {name: dataset.num_seqs for name, dataset in engine.eval_datasets.items()} == {"dev": 6}
    scores = [engine.learning_rate_control.get_epoch_error_dict(epoch) for epoch in range(1, 5)]
    assert ["more_score" in found for found in scores] == [False, True, False, False]
    engine.finalize()


def test_data_of_an_epoch_that_is_resumed(tmp_path):
    net = {**NET, "#config": {"train": data(3)}}
    for num_epochs in (1, 2):
        engine = Engine(config(tmp_path, network=net, train=data(5), num_epochs=num_epochs))
        engine.init_train_from_config()
        assert engine.train_data.num_seqs == 5
        engine.train()
        assert engine.train_data.num_seqs == 3
        engine.finalize()


def test_data_given_as_an_object_stays(tmp_path):
    engine = Engine(config(tmp_path, network={**NET, "#config": {"max_seqs": 3}}, train=data(5), num_epochs=1))
    given = Task12AXDataset(num_seqs=7)
    engine.init_train_from_config(train_data=given)
    engine.train()
    assert engine.train_data is given
    engine.finalize()


def test_nothing_to_train_on(tmp_path):
    net = {**NET, "#config": {"train": None}}
    with pytest.raises(ConfigError, match="net dict: '#config': 'train' is no description of data"):
        tasks.train(config(tmp_path, network=net, train=data(5), num_epochs=1))
