"""Options that interrupt, restart or end a training, and those that look into it."""

import os
import time

import pytest
import tensorflow as tf

import returnn.engine.run.training
import returnn.tf.engine.passes.data_pass
import returnn.tf.engine.session.trained_network
from returnn.forward_iface import ForwardCallbackIface
from returnn.log import log
from returnn.tf.engine import Engine, tasks
from tests.tf.engine.small_config import config
from tests.tf.engine.test_tasks import DECODER, DEV, FRAMES


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


def other_network(epoch):
    return {**FRAMES, "hidden": {**FRAMES["hidden"], "activation": ["tanh", "relu", "sigmoid"][epoch % 3]}}


@pytest.mark.parametrize(("limit", "restart_at"), [(None, None), (1, 3), (2, 4), (3, None)])
def test_restart_after_changes_of_the_network(limit, restart_at, tmp_path, monkeypatch, capsys):
    def restart():
        raise KeyboardInterrupt

    monkeypatch.setattr(returnn.tf.engine.session.trained_network, "restart_program", restart)
    options = config(
        tmp_path, network=None, get_network=other_network, num_epochs=4, restart_after_num_net_reinit=limit
    )
    if restart_at is None:
        tasks.train(options)
    else:
        with pytest.raises(KeyboardInterrupt):
            tasks.train(options)
        assert f"starts anew, after {limit} changes of the network" in capsys.readouterr().out
    last = 4 if restart_at is None else restart_at - 1
    assert sorted(name for name in os.listdir(tmp_path) if name.endswith(".index"))[-1] == f"net.00{last}.index"


def test_no_restart_without_a_model_file(tmp_path, capsys):
    tasks.train(config(tmp_path, network=None, get_network=other_network, num_epochs=3, model=None,
                       restart_after_num_net_reinit=1))  # fmt: skip
    assert "restart_after_num_net_reinit: the last epoch has no model file" in capsys.readouterr().out


@pytest.mark.parametrize(("seconds_left", "factor", "stops"), [(1000, 1e9, True), (10**6, 1.2, False)])
def test_training_stops_when_the_job_ends_too_soon(seconds_left, factor, stops, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + seconds_left))
    options = config(
        tmp_path, num_epochs=2, stop_for_resubmission_when_low_time_left=True,
        stop_for_resubmission_safety_factor=factor,
    )  # fmt: skip
    if stops:
        with pytest.raises(SystemExit) as info:
            tasks.train(options)
        assert info.value.code == os.EX_TEMPFAIL
        assert "stops after epoch 1: the job has" in capsys.readouterr().out
    else:
        tasks.train(options)
    assert (tmp_path / "net.001.index").exists()
    assert (tmp_path / "net.002.index").exists() != stops


def test_training_stops_inside_of_an_epoch_when_the_job_ends(tmp_path, monkeypatch, capsys):
    options = {"num_epochs": 2, "stop_for_resubmission_when_low_time_left": True}
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 30))
    with pytest.raises(SystemExit) as info:
        tasks.train(config(tmp_path, **options))
    assert info.value.code == os.EX_TEMPFAIL
    text = "stops after epoch 1, step 1: the job has less than 0:01:00 left. The same command again goes on there."
    assert text in capsys.readouterr().out
    monkeypatch.delenv("SLURM_JOB_END_TIME")
    tasks.train(config(tmp_path, **options))
    assert "start training at epoch 1 of 2, after step 1" in capsys.readouterr().out


def test_training_does_not_stop_unless_asked_to(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_END_TIME", "0")
    tasks.train(config(tmp_path, num_epochs=2))
    assert (tmp_path / "net.002.index").exists()


def test_shells(tmp_path, monkeypatch):
    opened = []

    def shell(names, exit_afterwards):
        opened.append((sorted(names), names["data_pass"].num_steps if "data_pass" in names else None))
        assert not exit_afterwards

    for module in (returnn.engine.run.training, returnn.tf.engine.passes.data_pass):
        monkeypatch.setattr(module, "debug_shell", shell)
    tasks.train(config(tmp_path, debug_shell_before_train_loop=True, debug_shell_in_runner=True))
    assert opened == [(["session", "training"], None), (["data_pass", "feed", "session"], 1)]
    opened.clear()
    tasks.train(config(tmp_path / "2", debug_shell_in_runner_step=0))
    assert opened == []


class Tags(ForwardCallbackIface):
    def init(self, *, model):
        self.tags = []

    def process_seq(self, *, seq_tag, outputs):
        self.tags.append(seq_tag)


@pytest.mark.parametrize("may_skip", [False, True])
def test_forward_leaves_out_no_sequences_unless_it_may(may_skip, tmp_path):
    callback = Tags()
    options = {"max_seq_length": 15, "allow_skipping_seqs_in_forward": may_skip, "allow_random_model_init": True}
    tasks.forward(config(tmp_path, network=FRAMES, forward_data=DEV, forward_callback=callback, **options))
    assert len(callback.tags) == 5 if not may_skip else 0 < len(callback.tags) < 5


def test_training_with_a_search_of_its_own(tmp_path):
    engine = Engine(config(tmp_path, network=DECODER, search_train_network_layers=["decision"]))
    engine.init_train_from_config()
    extra = engine.network.extra_nets["extra.search"]
    assert extra.search_flag
    assert not engine.network.search_flag
    assert extra.layers["decision"].network is extra
    engine.train()


@pytest.mark.parametrize("wanted", [False, True])
def test_plan_of_a_loop_is_logged(wanted, tmp_path, capsys):
    tasks.initialize_model(config(tmp_path, network=DECODER, debug_rec_layer=wanted))
    assert capsys.readouterr().out.count("loop 'output':\n") == wanted
