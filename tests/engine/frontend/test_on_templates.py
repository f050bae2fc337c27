"""Steps that need values, of which a check has none."""

import functools

import pytest

import returnn.frontend as rf
from returnn.config import set_global_config
from returnn.engine.frontend.check import check_model
from returnn.log import log
from returnn.tensor import batch_dim
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import time_dim


@pytest.fixture(autouse=True)
def backend_of_process():
    log.initialize(verbosity=[3])
    before = BackendEngine.selected_engine
    yield
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = before
    time_dim.reset_raw()


def check(folder, forward_step, **options):
    made = small_model.config(folder, forward_step=forward_step, **options)
    set_global_config(made)
    BackendEngine.select_engine(config=made)
    check_model(made)


def search_until(has_ended):
    """:return: a step that goes on until all sequences have ended, as a beam search of many recipes does"""

    def forward_step(**_kwargs):
        ended = rf.constant(False, dims=[batch_dim])
        length = 0
        while True:
            length += 1
            ended = rf.logical_or(ended, length >= time_dim.get_size_tensor())
            if has_ended(rf.reduce_all(ended, axis=batch_dim)):
                break
        rf.get_run_ctx().mark_as_default_output(ended, shape=[batch_dim])

    return forward_step


@pytest.mark.parametrize("has_ended", [
    lambda ended: bool(ended.raw_tensor),
    lambda ended: ended.raw_tensor == 1,
    bool,
    lambda ended: ended.raw_tensor.item(),
])  # fmt: skip
def test_a_search_that_ends_by_values_is_not_looked_at(has_ended, tmp_path, capsys):
    check(tmp_path, search_until(has_ended))
    out = capsys.readouterr().out
    assert f"forward_step: not looked at. In {__file__}, line " in out
    assert "no errors" in out


def test_a_graph_has_no_values_in_a_run_either(tmp_path, capsys):
    with pytest.raises(ConfigError, match="the check found 1 error"):
        check(tmp_path, search_until(bool), backend="tensorflow")
    assert "forward_step: 'logical_or' [] bool: cannot be used as True or False" in capsys.readouterr().out


def test_what_reads_in_a_loop_that_ends_is_looked_at(tmp_path, capsys):
    def forward_step(*, model, extern_data, **kwargs):
        for _ in range(20):
            assert all(tensor.raw_tensor is None for tensor in extern_data.data.values())
        small_model.forward_step(model=model, extern_data=extern_data, **kwargs)

    check(tmp_path, forward_step)
    assert "get_model, train_step, forward_step, " in capsys.readouterr().out


def matrices(*, model, optimizer_opts, **_kwargs):
    return [{"params": [param for param in model.parameters() if len(param.dims) == 2]}]


def biases(*, model, optimizer_opts, **_kwargs):
    return [{"params": [param for name, param in model.named_parameters() if name.endswith("bias")]}]


@pytest.mark.parametrize(("optimizer", "message"), [
    ({"class": "adamw", "learning_rate_multipliers_by_patterns": {"x.*": 2.0}}, "no parameter is named as 'x.*'"),
    ({"class": "muon"}, "It does not take conv.filter [3, 9, 4], conv.bias [4], "),
    ({"class": "muon"}, "A function 'param_groups_custom' selects those that it gets"),
    ({"class": "muon", "param_groups_custom": biases}, "Muon only supports 2D parameters"),
])  # fmt: skip
def test_an_optimizer_that_the_parameters_do_not_fit_is_an_error(optimizer, message, tmp_path, capsys):
    with pytest.raises(ConfigError, match="the check found 1 error"):
        check(tmp_path, small_model.forward_step, optimizer=optimizer)
    assert message in capsys.readouterr().out


def needs_values(*, model, **_kwargs):
    return [{"params": [param for param in model.parameters() if param.raw_tensor.sum().item() < 10]}]


@pytest.mark.parametrize("optimizer", [
    {"class": "adamw", "learning_rate_multipliers_by_patterns": {"output.*": 2.0}, "weight_decay": 0.1},
    {"class": "adamw", "fused": True},
    {"class": "adagrad"},
    {"class": "muon", "param_groups_custom": matrices},
    {"class": "adam", "param_groups_custom": needs_values},
])  # fmt: skip
def test_an_optimizer_that_fits_is_no_error(optimizer, tmp_path, capsys):
    check(tmp_path, small_model.forward_step, optimizer=optimizer)
    assert "no errors" in capsys.readouterr().out


def fails_in_the_second(seq, *, seq_idx, **_kwargs):
    if seq_idx:
        raise KeyError("on purpose")
    return seq


def test_an_error_in_a_function_of_the_data_is_one_that_is_found(tmp_path, capsys):
    train = {"class": "PostprocessingDataset", "dataset": small_model.TRAIN, "map_seq": fails_in_the_second}
    with pytest.raises(ConfigError, match="the check found 1 error"):
        check(tmp_path, small_model.forward_step, train=train)
    out = capsys.readouterr().out
    line = fails_in_the_second.__code__.co_firstlineno + 2
    assert "1. train: PostprocessingDataset 'train': KeyError: 'on purpose'\n" in out
    assert f"  In {__file__}, line {line}, fails_in_the_second." in out


def train_step_of_raw_loss(*, extern_data, dims, **kwargs):
    small_model.train_step(extern_data=extern_data, **kwargs)
    frames = rf.reduce_mean(rf.squared_difference(extern_data["data"], 0.0), axis=extern_data["data"].feature_dim)
    loss = frames if dims else rf.reduce_mean(frames, axis=frames.dims)
    rf.get_run_ctx().mark_as_loss(loss.raw_tensor, "raw", dims=frames.dims if dims else None)


@pytest.mark.parametrize("dims", [True, False])
def test_losses_as_raw_tensors(tmp_path, capsys, dims):
    check(tmp_path, None, train_step=functools.partial(train_step_of_raw_loss, dims=dims))
    out = capsys.readouterr().out
    assert ("\nloss raw: [B, time] float32" in out) == dims
    assert (f"train_step: not looked at. In {__file__}, line " in out) == (not dims)
    assert "no errors" in out


def test_outputs_as_raw_tensors(tmp_path, capsys):
    def forward_step(*, extern_data, **_kwargs):
        data = extern_data["data"]
        rf.get_run_ctx().mark_as_output(data.raw_tensor, "raw", dims=data.dims)

    check(tmp_path, forward_step)
    out = capsys.readouterr().out
    assert "\noutput raw: [B, time, feature=9] float32" in out
    assert "no errors" in out
