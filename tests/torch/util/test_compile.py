"""Compiled steps give what steps give."""

import pytest
import torch

import returnn.frontend as rf
from returnn.config import Config, set_global_config
from returnn.engine.frontend import tasks
from returnn.log import log
from returnn.tensor import batch_dim
from returnn.tensor.plans import plans
from returnn.torch.util import compile as compiling
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import classes_dim, feature_dim, time_dim

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    suppress_errors = torch._dynamo.config.suppress_errors  # monkeypatch cannot set it back: it is no plain attribute
    monkeypatch.setattr(plans, "are_used", True)  # compiling turns them off
    log.initialize(verbosity=[2])
    before = BackendEngine.selected_engine
    yield
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = before
    torch._dynamo.config.suppress_errors = suppress_errors
    torch._dynamo.reset()


def get_model(*, epoch, step, **kwargs):
    return rf.Linear(feature_dim, classes_dim)


def train_step(*, model, extern_data, **kwargs):
    logits = model(rf.dropout(extern_data["data"], 0.2))
    torch._dynamo.graph_break()
    loss = rf.cross_entropy(target=extern_data["classes"], estimated=logits, estimated_type="logits", axis=classes_dim)
    assert set(loss.dims) == {batch_dim, time_dim}
    rf.get_run_ctx().mark_as_loss(loss, "ce")


def trained(folder, **options):
    """:return: parameters"""
    folder.mkdir()
    config = small_model.config(folder, get_model=get_model, train_step=train_step, learning_rate=0.1, **options)
    set_global_config(config)
    BackendEngine.select_engine(config=config)
    tasks.train(config)
    return torch.load(folder / "net.001.pt", weights_only=True)["model"]


def test_a_training_with_compiled_steps_gives_the_same_model(tmp_path, monkeypatch):
    compiled = []
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **options: compiled.append(f) or compile_(f, **options))
    plain = trained(tmp_path / "plain")
    assert not compiled  # it is off by default
    result = trained(tmp_path / "compiled", torch_compile={"backend": "eager"})
    assert compiled == [train_step]
    assert torch._dynamo.utils.counters["stats"]["calls_captured"] > 0
    for name, value in plain.items():
        torch.testing.assert_close(result[name], value)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"bakend": "eager"}, "there is no option 'bakend'"),
        ({"backend": "egaer"}, "there is no backend 'egaer'"),
    ],
    ids=["option", "backend"],
)
def test_what_is_not_known(option, message):
    with pytest.raises(ConfigError, match=message):
        compiling.compiler_of_config(Config({"torch_compile": option}), CPU)


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(compiling, "_missing_compiler", lambda device: "there is no C++ compiler")
    with pytest.raises(ConfigError, match=r"(?s)for the device 'cpu' cannot be compiled: there is no C.*aot_eager"):
        compiling.compiler_of_config(Config({"torch_compile": True}), CPU)
    assert compiling.compiler_of_config(Config({"torch_compile": {"backend": "eager"}}), CPU) is not None


def test_compiler_that_is_not_there_is_noticed():
    config = compiling.importlib.import_module("torch._inductor.config")
    with config.patch("cpp.cxx", ("no-such-compiler",)):
        assert "C++ compiler" in compiling._missing_compiler(CPU)
