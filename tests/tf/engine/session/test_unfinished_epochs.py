"""Checkpoints inside of an epoch: when they are written, and which ones are used."""

import os
import signal
import time

import numpy
import pytest
import tensorflow as tf

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.engine.run.evaluation import Evaluation
from returnn.engine.run.interrupts import InterruptedRun
from returnn.engine.training_position import BatchPosition, PositionError, TrainingPosition
from returnn.log import log
from returnn.tf.checkpoint import delete_checkpoint
from returnn.tf.engine import tasks
from returnn.util.numbers.global_random import GlobalRandomState
from tests.tf.engine.resuming import run, scores
from tests.tf.engine.small_config import assert_same, config, parameters

OPTIONS = {"save_interval_steps": 2, "max_seqs": 4}


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


def names(folder):
    return sorted(name.removesuffix(".index") for name in os.listdir(folder) if name.endswith(".index"))


def flip_bit(folder, name):
    file = folder / f"{name}.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


def test_newest_step_is_kept_until_the_epoch_has_a_model(tmp_path):
    run(tmp_path, {**OPTIONS, "num_epochs": 3, "save_interval": 2}, kill_after=4)
    assert names(tmp_path) == ["net.001.unfinished"]
    assert run(tmp_path, {**OPTIONS, "num_epochs": 3, "save_interval": 2}, kill_after=2) == (1, 5)
    assert names(tmp_path) == ["net.001.unfinished"]  # epoch 1 gets no model, so the training would go on from step 4
    assert run(tmp_path, {**OPTIONS, "num_epochs": 3, "save_interval": 2}, kill_after=3) == (1, 5)
    assert names(tmp_path) == ["net.002.unfinished"]
    assert run(tmp_path, {**OPTIONS, "num_epochs": 3, "save_interval": 2}) == (2, 3)
    assert names(tmp_path) == ["net.002", "net.003"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"save_interval_s": 1e-6}, ["net.001.unfinished"]),
        ({"save_interval_s": 1000}, []),
        ({"save_interval_s": 0}, []),
        ({"save_interval_s": 0, "save_interval_steps": 4}, []),
        ({"save_interval_s": 0, "save_interval_steps": 1}, ["net.001.unfinished"]),
        ({"save_interval_s": 1e-6, "dry_run": True}, []),
    ],
    ids=str,
)
def test_when_it_is_saved(options, expected, tmp_path):
    run(tmp_path, {"max_seqs": 4, **options}, kill_after=3)
    assert names(tmp_path) == expected


def unusable(folder, capsys, **options):
    """:return: what is said, in one line; and epoch and step where the training starts"""
    capsys.readouterr()
    start = run(folder, {**OPTIONS, "num_epochs": 2, **options})
    (line,) = [text for text in capsys.readouterr().out.splitlines() if "is passed over" in text]
    return line, start


def train_into_second_epoch(folder, **options):
    assert run(folder, {**OPTIONS, "num_epochs": 2, **options}, kill_after=8) == (1, 1)
    assert names(folder) == ["net.001", "net.002.unfinished"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"max_seqs": 3}, "The epoch does not begin with the same 2 batches as before"),
        ({"optimizer": {"class": "adam"}}, "The network is another one by now: 'optimize/"),
    ],
    ids=str,
)
def test_other_options_start_the_epoch_at_its_beginning(options, reason, tmp_path, capsys):
    train_into_second_epoch(tmp_path)
    line, start = unusable(tmp_path, capsys, **options)
    assert "net.002.unfinished' is passed over, so a part of an epoch is lost." in line
    assert reason in line
    assert start == (2, 1)


def test_changed_learning_rate_counts_for_the_rest_of_the_epoch(tmp_path):
    options = {**OPTIONS, "num_epochs": 1, "optimizer": {"class": "sgd"}}
    run(tmp_path, {**options, "learning_rate": 0.1}, kill_after=2)
    saved = parameters(tmp_path / "net.001.unfinished")
    assert run(tmp_path, {**options, "learning_rate": 1e-30}) == (1, 3)
    after = parameters(tmp_path / "net.001")
    weights = [name for name in after if name.endswith("/W")]
    assert weights
    assert_same({name: saved[name] for name in weights}, {name: after[name] for name in weights})


def test_damaged_one_starts_the_epoch_at_its_beginning(tmp_path, capsys):
    (tmp_path / "one").mkdir()
    run(tmp_path / "one", {**OPTIONS, "num_epochs": 2, "save_interval_s": 0, "save_interval_steps": 0})
    train_into_second_epoch(tmp_path / "other")
    flip_bit(tmp_path / "other", "net.002.unfinished")
    line, start = unusable(tmp_path / "other", capsys)
    assert "is damaged" in line
    assert start == (2, 1)
    assert_same(parameters(tmp_path / "one" / "net.002"), parameters(tmp_path / "other" / "net.002"))


def test_models_that_were_deleted_take_it_along(tmp_path, capsys):
    run(tmp_path, {**OPTIONS, "num_epochs": 3}, kill_after=13)
    assert names(tmp_path) == ["net.001", "net.002", "net.003.unfinished"]
    delete_checkpoint(str(tmp_path / "net.002"))
    line, start = unusable(tmp_path, capsys)
    assert "The last model was that of epoch 2, not 1." in line
    assert start == (2, 1)


def test_kill_in_the_last_evaluation(tmp_path, monkeypatch, capsys):
    dev = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}
    options = {
        "num_epochs": 2,
        "dev": dev,
        "optimizer": {"class": "sgd", "use_ema": True},
        "learning_rate_control": "newbob",
        "cleanup_old_models": {"keep_last_n": 1, "keep_best_n": 0, "keep": []},
    }
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    tasks.train(config(tmp_path / "one", **options))
    with monkeypatch.context() as patch:
        evaluate = Evaluation.run

        def killed(self, **kwargs):
            if self.epochs.current == 2:
                raise KeyboardInterrupt
            return evaluate(self, **kwargs)

        patch.setattr(Evaluation, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            tasks.train(config(tmp_path / "other", **options))
    for is_evaluated in (True, False):
        capsys.readouterr()
        tasks.train(config(tmp_path / "other", **options))
        output = capsys.readouterr().out
        assert "finished already: epoch 2 of 2" in output
        assert ("epoch 2, dev_error" in output) == is_evaluated
    assert scores(tmp_path / "one") == scores(tmp_path / "other")
    assert names(tmp_path / "one") == names(tmp_path / "other") == ["net.002"]
    assert_same(parameters(tmp_path / "one" / "net.002"), parameters(tmp_path / "other" / "net.002"))


def test_start_epoch_starts_at_its_beginning(tmp_path):
    train_into_second_epoch(tmp_path)
    assert run(tmp_path, {**OPTIONS, "num_epochs": 2, "start_epoch": 2}) == (2, 1)
    assert names(tmp_path) == ["net.001", "net.002"]


def test_other_tasks_do_not_see_it(tmp_path, capsys):
    run(tmp_path, OPTIONS, kill_after=3)
    with pytest.raises(Exception, match="has no checkpoint"):
        tasks.evaluate(config(tmp_path, task="eval", dev={"class": "Task12AXDataset", "num_seqs": 5}))
    tasks.initialize_model(config(tmp_path, task="initialize_model"))
    assert names(tmp_path) == ["net.000", "net.001.unfinished"]


def test_full_disk_is_said_and_the_training_goes_on(tmp_path, capsys, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device", "net.001.unfinished.saving")

    mkdir = os.mkdir
    monkeypatch.setattr(os, "mkdir", lambda path, *args: full() if "unfinished" in str(path) else mkdir(path, *args))
    run(tmp_path, OPTIONS)
    output = capsys.readouterr().out
    assert output.count("cannot be written: No space left on device") == 1
    assert names(tmp_path) == ["net.001"]


def test_signal_saves_now(tmp_path, capsys):
    options = {"num_epochs": 1, "max_seqs": 4}

    def interrupt(x):
        os.kill(os.getpid(), signal.SIGTERM)
        return x

    def step(source, **_kwargs):
        x = source(0)
        result = tf.numpy_function(interrupt, [x], tf.float32)
        result.set_shape(x.shape)
        return result

    network = {
        "interrupt": {"class": "eval", "eval": step, "from": "data"},
        "output": {"class": "softmax", "from": "interrupt", "loss": "ce", "target": "classes"},
    }
    for after in range(1, 5):
        with pytest.raises(InterruptedRun, match=f"interrupted by SIGTERM after train epoch 1, step {after}"):
            tasks.train(config(tmp_path, network=network, **options))
        assert "The same command again goes on there." in capsys.readouterr().out
    assert names(tmp_path) == ["net.001.unfinished"]


class Slow(CachedDataset2):
    """Gets a signal while its first sequences are loaded, if that is wanted."""

    is_interrupted = False

    def __init__(self):
        super().__init__(name="train")
        self.num_outputs = {"data": (9, 2), "classes": (2, 1)}
        self._num_seqs = 20

    def init_seq_order(self, epoch=None, seq_list=None, seq_order=None):
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self._num_seqs = 20
        return True

    def _collect_single_seq(self, seq_idx):
        if self.is_interrupted and seq_idx == 3:
            time.sleep(0.5)  # until the training waits for data
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        data = numpy.full([4, 9], seq_idx, "float32")
        return DatasetSeq(seq_idx, data, targets={"classes": numpy.zeros(4, "int32")}, seq_tag=f"seq-{seq_idx}")


def test_signal_before_the_first_step_leaves_it_as_it_is(tmp_path, monkeypatch, capsys):
    run(tmp_path, {**OPTIONS, "train": Slow}, kill_after=3)
    content = {path.name: path.read_bytes() for path in tmp_path.iterdir() if "unfinished" in path.name}
    monkeypatch.setattr(Slow, "is_interrupted", True)
    with pytest.raises(InterruptedRun, match="interrupted by SIGTERM after train epoch 1, step 2"):
        tasks.train(config(tmp_path, **OPTIONS, train=Slow))
    assert "The same command again goes on there." in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if "unfinished" in path.name} == content


def position(**options):
    return TrainingPosition(
        **{
            "epoch": 3,
            "first_train_step": 10,
            "num_steps": 4,
            "num_seqs": 8,
            "batches": BatchPosition(5, 123),
            "elapsed_s": 0.1,
            "score_sums": {"loss:a": 1 / 3, "error:a": float("inf")},
            "score_frames": {"a": 7.0},
            "random_state": GlobalRandomState.current(),
            **options,
        }
    )


def test_position_is_the_same_after_a_file():
    assert TrainingPosition.from_text(position().as_text()) == position()


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format": 2}', '{"format": 2, "batches": 3}'])
def test_damaged_position(text):
    with pytest.raises(PositionError, match=r"^The position in it is damaged\.$"):
        TrainingPosition.from_text(text)


def test_position_of_another_version():
    with pytest.raises(PositionError, match=r"^It was written by another version of the toolkit\.$"):
        TrainingPosition.from_text('{"format": 0}')
