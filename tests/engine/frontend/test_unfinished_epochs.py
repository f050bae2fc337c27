"""Models in Python whose training is killed inside of an epoch: on both backends, it goes on there, bit for bit."""

import os
import zipfile

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.config import set_global_config
from returnn.engine.frontend.tasks import make_engine
from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.log import log
from returnn.util.backend_engine import BackendEngine
from returnn.util.files.checkpoint_files import CheckpointError
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import time_dim

STEPS = {"save_interval_steps": 2, "save_interval_s": 0, "max_seqs": 4, "num_epochs": 2}  # 5 steps per epoch
IN_PROCESSES = {"class": "MultiProcDataset", "dataset": small_model.TRAIN, "num_workers": 2, "buffer_size": 2}
SUFFIX = {"torch": ".pt", "tensorflow": ".index"}


class Killed(BaseException):
    """Nothing handles it, as with SIGKILL."""


@pytest.fixture(autouse=True)
def backend_of_process():
    log.initialize(verbosity=[3])
    before = BackendEngine.selected_engine
    yield
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = before
    tf.compat.v1.reset_default_graph()
    time_dim.reset_raw()


def run(folder, backend, kill_after=None, **options):
    """
    :param folder: of the models
    :param backend: option `backend`
    :param kill_after: so many steps of this run; None: it ends by itself
    :param options: of the config
    :return: the epoch and the number of steps in it where it started
    """
    folder.mkdir(exist_ok=True)
    options = {**STEPS, "backend": backend, "learning_rate_file": str(folder / "learning_rates"), **options}
    made = small_model.config(folder, **options)
    set_global_config(made)
    BackendEngine.select_engine(config=made)
    engine = make_engine(made)
    steps = []
    after_step = engine.training._after_step

    def killing(model_pass, agreed):
        after_step(model_pass, agreed)
        engine.model_files.unfinished.wait()  # steps are so short here that the next one would be saved instead
        steps.append((model_pass.epoch, model_pass.num_steps))
        if len(steps) == kill_after:
            raise Killed

    engine.training._after_step = killing
    try:
        engine.init_train_from_config()
        engine.train()
        assert kill_after is None, f"has only {len(steps)} steps"
    except Killed:
        pass
    finally:
        engine.finalize()
    return steps[0]


def names(folder, backend):
    suffix = SUFFIX[backend]
    found = [name for name in os.listdir(folder) if name.endswith(suffix) and not name.endswith(".opt.pt")]
    return sorted(name.removesuffix(suffix) for name in found)


def values(folder, name, backend):
    """:return: what the checkpoint has, also of the optimizer, flat"""
    if backend == "torch":
        files = [torch.load(folder / f"{name}{suffix}", weights_only=True) for suffix in (".pt", ".opt.pt")]
        state = files[1]["optimizer"]["state"]
        moments = {f"{i}/{key}": value for i, entry in state.items() for key, value in entry.items()}
        return {**files[0]["model"], **moments, "step": files[0]["step"]}
    reader = tf.train.load_checkpoint(str(folder / name))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


def scores(folder):
    data = read_learning_rate_file(folder / "learning_rates")
    return {epoch: (entry.learning_rate, entry.error) for epoch, entry in data.items()}


@pytest.mark.parametrize(("backend", "options"), [
    ("torch", {}),
    ("torch", {"accum_grad_multiple_step": 3, "optimizer": {"class": "sgd", "momentum": 0.9}}),
    ("torch", {"torch_dataloader_opts": {"num_workers": 1}}),
    ("torch", {"torch_dataloader_opts": {"num_workers": 2}, "train": IN_PROCESSES}),
    ("tensorflow", {}),
    ("tensorflow", {"accum_grad_multiple_step": 3}),
], ids=str)  # fmt: skip
def test_killed_training_ends_as_undisturbed_one(backend, options, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    run(one, backend, **{**options, "save_interval_steps": 0})
    # Steps 2, 4, ... are saved, so a kill after an odd one costs a step.
    starts = [run(other, backend, number, **options) for number in (3, 5, None)]
    assert starts == [(1, 1), (1, 3), (2, 3)]
    assert names(one, backend) == names(other, backend) == ["net.001", "net.002"]
    assert scores(one) == scores(other)
    wanted, found = (values(folder, "net.002", backend) for folder in (one, other))
    assert set(wanted) == set(found)
    for name, value in wanted.items():
        numpy.testing.assert_array_equal(numpy.asarray(value), numpy.asarray(found[name]), err_msg=name)


@pytest.mark.parametrize("backend", ["torch", "tensorflow"])
def test_changed_learning_rate_counts_for_the_rest_of_the_epoch(backend, tmp_path):
    options = {"num_epochs": 1, "optimizer": {"class": "sgd"}}
    run(tmp_path, backend, kill_after=2, learning_rate=0.1, **options)
    if backend == "torch":
        saved = torch.load(tmp_path / "net.001.unfinished.pt", weights_only=True)["parameters"]
    else:
        saved = values(tmp_path, "net.001.unfinished", backend)
    assert run(tmp_path, backend, learning_rate=1e-30, **options) == (1, 3)
    after = values(tmp_path, "net.001", backend)
    weights = [name for name in after if name.endswith("weight")]
    assert len(weights) >= 2
    for name in weights:
        numpy.testing.assert_array_equal(numpy.asarray(saved[name]), numpy.asarray(after[name]), err_msg=name)
    assert scores(tmp_path)[1][0] == 1e-30


def wider(**_):
    return small_model.Model(hidden=5)


@pytest.mark.parametrize(("backend", "options", "reason"), [
    ("torch", {"max_seqs": 3}, "The epoch does not begin with the same 2 batches as before"),
    ("torch", {"max_seqs": 3, "torch_dataloader_opts": {"num_workers": 1}}, "The epoch does not begin with"),
    ("torch", {"get_model": wider}, "The model is another one by now: 'conv.bias'"),
    ("tensorflow", {"max_seqs": 3}, "The epoch does not begin with the same 2 batches as before"),
    ("tensorflow", {"optimizer": {"class": "sgd"}}, "The model is another one by now: 'optimize/"),
])  # fmt: skip
def test_what_does_not_fit_starts_the_epoch_at_its_beginning(backend, options, reason, tmp_path, capsys):
    run(tmp_path, backend, 3)
    assert names(tmp_path, backend) == ["net.001.unfinished"]
    assert run(tmp_path, backend, 1, **options) == (1, 1)
    (line,) = [text for text in capsys.readouterr().out.splitlines() if "is passed over" in text]
    assert "net.001.unfinished' is passed over, so a part of an epoch is lost." in line
    assert reason in line


def test_damaged_file_starts_the_epoch_at_its_beginning(tmp_path, capsys):
    run(tmp_path, "torch", 3)
    file = tmp_path / "net.001.unfinished.pt"
    content = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.file_size)
    content[largest.header_offset + 200] ^= 0x10
    file.write_bytes(content)
    assert run(tmp_path, "torch", 1) == (1, 1)
    assert "is damaged" in capsys.readouterr().out


def test_values_that_are_not_finite_are_not_written(tmp_path):
    run(tmp_path, "torch", 3)
    runner = make_runner(tmp_path)
    snapshot = runner.snapshot()
    snapshot.parameters["output.bias"][0] = float("nan")
    with pytest.raises(CheckpointError, match=r"is not written: 1 value of 'output.bias' is not finite."):
        runner.unfinished.write(str(tmp_path / "net.007.unfinished"), snapshot, "position")


def make_runner(folder):
    made = small_model.config(folder, backend="torch")
    BackendEngine.select_engine(config=made)
    engine = make_engine(made)
    engine.runner.build(epoch=1, step=0, filename=None, is_training=True, is_own=False)
    return engine.runner
