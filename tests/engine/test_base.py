"""Epochs and model files, without a backend."""

import pytest

from returnn.config import Config
from returnn.engine.base import EngineBase
from returnn.util.errors import ConfigError

NET = {"h": {"class": "linear", "from": "data"}, "i": {"class": "linear", "from": "h"}, "output": {"from": "i"}}


class SomeEngine(EngineBase):
    def init_train_from_config(self, config=None):
        pass

    def init_network_from_config(self, config=None):
        pass

    def forward_with_callback(self, *, dataset, callback, dataset_init_epoch=True):
        pass

    def cleanup_old_models(self, ask_for_confirmation=False):
        pass

    @staticmethod
    def delete_model(filename):
        return 0


@pytest.fixture
def model(tmp_path):
    """:return: option `model`, with these files there"""
    for name in ("001", "pretrain.002", "100", "1000", "003.crash_5", "004.broken", "1001.unfinished", "abc"):
        (tmp_path / f"net.{name}.index").touch()
    (tmp_path / "net.005.data-00000-of-00001").touch()
    (tmp_path / "other.007.index").touch()
    return str(tmp_path / "net")


def test_models_and_the_next_epoch(model):
    config = Config({"model": model})
    existing = EngineBase.get_existing_models(config)
    assert list(existing) == [1, 2, 100, 1000]
    assert existing[2] == f"{model}.pretrain.002"
    assert EngineBase.get_train_start_epoch(config) == 1001
    assert EngineBase.get_train_start_epoch(Config({"model": model, "start_epoch": 5})) == 5
    assert EngineBase.get_train_start_epoch(Config({"model": f"{model}-new"})) == 1
    assert EngineBase.get_existing_models(Config()) == {}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 1000), ({"load_epoch": 1}, 1), ({"epoch": 100}, 100), ({"load_epoch": 0}, None),
        ({"load": "x/net.012.index"}, 12), ({"load": "x/net"}, None), ({"load": "x/net.012", "load_epoch": 3}, 3),
    ],
    ids=str,
)  # fmt: skip
def test_the_model_that_other_tasks_work_on(model, options, expected, tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    for name in ("net", "net.012"):
        (tmp_path / "x" / f"{name}.index").touch()
    monkeypatch.chdir(tmp_path)
    epoch, filename = EngineBase.get_epoch_model(Config({"model": model, **options}))
    assert epoch == expected
    if "load" in options:
        assert filename == options["load"].removesuffix(".index")


def test_a_model_that_is_not_there(model):
    with pytest.raises(ConfigError) as info:
        EngineBase.get_epoch_model(Config({"model": model, "load_epoch": 5}))
    assert str(info.value) == f"there is no model of epoch 5.\n  {model!r} has: 1, 2, 100, 1000."


def test_names_in_the_pretraining():
    engine = SomeEngine(Config({"model": "net", "network": NET, "pretrain": "default"}))
    assert [engine.get_epoch_model_filename(epoch) for epoch in (0, 1, 2, 3)] == [
        "net.000", "net.pretrain.001", "net.pretrain.002", "net.003",
    ]  # fmt: skip
    engine.set_epoch(2)
    assert engine.get_epoch_str() == "pretrain epoch 2"
    assert not engine.is_first_epoch_after_pretrain()
    engine.set_epoch(3)
    assert engine.get_epoch_str() == "epoch 3"
    assert engine.is_first_epoch_after_pretrain()
    engine.set_epoch(4)
    assert not engine.is_first_epoch_after_pretrain()
    engine = SomeEngine(Config({"model": "net", "network": NET}))
    engine.set_epoch(1)
    assert not engine.is_first_epoch_after_pretrain()


def test_without_the_option_model():
    with pytest.raises(ConfigError, match="option 'model' is required"):
        SomeEngine(Config()).get_epoch_model_filename(1)
