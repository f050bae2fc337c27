"""Scripts that train, search and read data sets by hand: `Engine`, `Updater`, `StaticDataset`, loops over sequences."""

from __future__ import annotations

import numpy
import pytest

import returnn.__main__ as rnn
from returnn.config import Config
from returnn.datasets.basic import Dataset, init_dataset
from returnn.datasets.generating import StaticDataset
from returnn.tf.engine import Engine
from returnn.tf.network import TFNetwork
from returnn.tf.updater import Updater
from tests.tf.by_hand.scripts import make_feed_dict, make_scope

NET = {
    "hidden": {"class": "linear", "activation": "tanh", "n_out": 4, "from": "data"},
    "output": {"class": "softmax", "loss": "ce", "target": "classes", "from": "hidden"},
}
DATA = {"data": {"dim": 3}, "classes": {"dim": 5, "sparse": True}}


def sequences(lengths):
    random = numpy.random.RandomState(1)
    return [
        {
            "data": random.normal(size=(length, 3)).astype("float32"),
            "classes": random.randint(0, 5, size=(length,)).astype("int32"),
        }
        for length in lengths
    ]


def static_dataset(lengths=(4, 6, 5)):
    dataset = StaticDataset(sequences(lengths), output_dim={"data": (3, 2), "classes": (5, 1)})
    dataset.init_seq_order(epoch=1)
    return dataset


def test_loop_over_a_dataset():
    dataset = static_dataset()
    assert isinstance(dataset, Dataset)
    found, seq_idx = [], 0
    while dataset.is_less_than_num_seqs(seq_idx):
        dataset.load_seqs(seq_idx, seq_idx + 1)
        found.append({key: dataset.get_data(seq_idx, key) for key in dataset.get_data_keys()})
        assert dataset.get_seq_length(seq_idx)["data"] == len(found[-1]["data"])
        seq_idx += 1
    for seq, expected in zip(found, sequences((4, 6, 5)), strict=True):
        assert (seq["data"] == expected["data"]).all()
        assert (seq["classes"] == expected["classes"]).all()


def test_batches_of_a_dataset():
    dataset = static_dataset()
    batches = dataset.generate_batches(recurrent_net=True, batch_size=12, max_seqs=2)
    sizes = []
    while batches.has_more():
        (batch,) = batches.peek_next_n(1)
        sizes.append((batch.start_seq, batch.end_seq))
        batches.advance(1)
    assert sizes == [(0, 2), (2, 3)]


def test_updater_by_hand():
    with make_scope() as session:
        config = Config({"extern_data": DATA, "network": NET, "optimizer": {"class": "adam"}})
        network = TFNetwork(config=config, train_flag=True)
        network.construct_from_dict(NET)
        updater = Updater(config=config, network=network, initial_learning_rate=0.1)
        updater.set_trainable_vars(network.get_trainable_params())
        updater.set_learning_rate(0.1, session=session)
        optimize = updater.get_optim_op()
        network.initialize_params(session)
        updater.init_optimizer_vars(session=session)
        feed = make_feed_dict(network.extern_data, same_time=True)
        losses = [session.run([network.get_objective(), optimize], feed)[0] for _ in range(5)]
    assert losses == sorted(losses, reverse=True)


@pytest.fixture
def config(tmp_path):
    return Config(
        {
            "model": str(tmp_path / "model"),
            "extern_data": DATA,
            "network": NET,
            "batch_size": 100,
            "num_epochs": 2,
            "optimizer": {"class": "adam"},
            "learning_rate": 0.01,
            "log_verbosity": 0,
        }
    )


def test_engine_by_hand(config, tmp_path, capsys):
    train, dev = static_dataset(), static_dataset((3,))
    engine = Engine(config=config)
    engine.init_train_from_config(config=config, train_data=train, dev_data=dev, eval_data=None)
    engine.train()
    assert engine.epoch == 2
    assert (tmp_path / "model.002.index").exists()
    network = engine.network
    engine.maybe_init_new_network()
    assert engine.network is network  # it is the same
    engine.print_network_info()
    assert "layer 'hidden'" in capsys.readouterr().out
    posteriors = engine.forward_single(dev, seq_idx=0)
    numpy.testing.assert_allclose(numpy.sum(posteriors, axis=-1), 1, rtol=1e-5)
    weights = engine.tf_session.run(engine.network.layers["hidden"].params["W"])
    engine.finalize()
    config.set("load_epoch", 2)
    config.set("task", "eval")
    other = Engine(config=config)
    other.init_network_from_config(config)
    numpy.testing.assert_array_equal(other.tf_session.run(other.network.layers["hidden"].params["W"]), weights)
    other.finalize()


@pytest.mark.parametrize(
    "options",
    [
        {"class": "DummyDataset", "input_dim": 3, "output_dim": 5, "num_seqs": 4},
        {"class": "Task12AXDataset", "num_seqs": 4},
        {"class": "StaticDataset", "data": sequences((2, 3, 4, 5)), "output_dim": {"data": (3, 2), "classes": (5, 1)}},
        {"class": "CopyTaskDataset", "nsymbols": 5, "num_seqs": 4},
    ],
    ids=lambda options: options["class"],
)
def test_datasets_by_their_options(options):
    dataset = init_dataset(options)
    dataset.init_seq_order(epoch=1)
    lengths = []
    for seq_idx in range(4):
        assert dataset.is_less_than_num_seqs(seq_idx)
        dataset.load_seqs(seq_idx, seq_idx + 1)
        data, classes = (dataset.get_data(seq_idx, key) for key in ("data", "classes"))
        assert dataset.get_tag(seq_idx) == f"seq-{seq_idx}"
        lengths.append((len(data), len(classes)))
    assert not dataset.is_less_than_num_seqs(4)
    assert all(size > 0 for pair in lengths for size in pair)


def test_library_that_sets_up_everything(tmp_path):
    path = tmp_path / "my.config"
    path.write_text(
        "#!rnn.py\n"
        f"network = {NET!r}\n"
        f"extern_data = {DATA!r}\n"
        "train = {'class': 'DummyDataset', 'input_dim': 3, 'output_dim': 5, 'num_seqs': 4}\n"
        f"model = {str(tmp_path / 'net')!r}\n"
        "batch_size = 100\nnum_epochs = 1\nlearning_rate = 0.01\nlog_verbosity = 0\n",
        encoding="utf8",
    )
    rnn.init(config_filename=str(path), config_updates={"num_epochs": 1}, extra_greeting="A script.")
    assert rnn.config.int("num_epochs", 0) == 1
    assert set(rnn.train_data.get_data_keys()) == {"data", "classes"}
    assert rnn.dev_data is None
    rnn.init_engine()
    rnn.engine.init_train_from_config(rnn.config, rnn.train_data, rnn.dev_data, rnn.eval_data)
    rnn.engine.train()
    assert rnn.engine.epoch == 1
    rnn.finalize()
    assert (tmp_path / "net.001.index").exists()


def test_search_with_the_network_that_was_trained(tmp_path):
    unit = {
        "prob": {"class": "softmax", "from": "data:source", "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 3, "initial_output": 0},
    }
    net = {"output": {"class": "rec", "from": "data", "target": "classes", "unit": unit}}
    options = {"model": str(tmp_path / "model"), "extern_data": DATA, "network": net, "num_epochs": 1}
    config = Config({**options, "batch_size": 100, "max_seqs": 2, "log_verbosity": 0})
    data = static_dataset()
    engine = Engine(config=config)
    engine.init_train_from_config(config=config, train_data=data)
    assert engine.network.recurrent
    assert (engine.max_seqs, engine.start_epoch, engine.use_dynamic_train_flag) == (2, 1, True)
    engine.max_seqs = 1
    assert len(list(engine.batches_of(data, train=True).generator)) == 3
    engine.train_data = static_dataset((4, 3))
    engine.train()
    engine.use_search_flag = True
    engine.use_dynamic_train_flag = False
    engine.init_network_from_config(config)
    assert engine.network.search_flag
    assert engine.network.train_flag is False
    assert engine.updater is None
    hypotheses = engine.search_single(dataset=data, seq_idx=0)
    assert [len(labels.split()) for _, labels in hypotheses] == [4, 4, 4]
    engine.finalize()
