"""Training, evaluation, forwarding and search within this process."""

import ast
import os
import signal
from pathlib import Path

import numpy
import pytest
import tensorflow as tf

from returnn.datasets import init_dataset
from returnn.datasets.hdf import HDFDataset
from returnn.engine.hypothesis_files import read_hypotheses
from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.engine.report.epoch_report import EpochReport
from returnn.engine.run.interrupts import InterruptedRun
from returnn.engine.run.non_finite import NonFiniteError
from returnn.log import log
from returnn.tf.checkpoint import CheckpointError
from returnn.tf.engine import Engine, tasks
from returnn.util.errors import ConfigError, UserError
from tests.tf.engine.small_config import assert_same, config, parameters

DEV = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


def train(folder, **options):
    tasks.train(config(folder, **options))


def test_resumed_training_is_as_undisturbed_one(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    train(tmp_path / "one", num_epochs=2)
    train(tmp_path / "two", num_epochs=1)
    train(tmp_path / "two", num_epochs=2)
    assert_same(parameters(tmp_path / "one" / "net.002"), parameters(tmp_path / "two" / "net.002"))


def test_models_that_a_training_does_not_begin_with_are_named(tmp_path, capsys):
    train(tmp_path, num_epochs=2)
    first, last = str(tmp_path / "net.001"), str(tmp_path / "net.002")
    assert "is not used" not in capsys.readouterr().out
    train(tmp_path, num_epochs=2, load=f"{first}.index", load_epoch=1)
    output = capsys.readouterr().out
    assert (
        f"option 'load': '{first}.index' is not used, as the training goes on from '{last}'. "
        "'start_epoch = 1' begins with it, and writes over the models; another 'model' keeps them."
    ) in output
    assert (
        f"option 'load_epoch': 1 is not used, as the training goes on from '{last}'. "
        "'start_epoch = 2' goes on after that epoch."
    ) in output
    train(tmp_path, num_epochs=2, load=last, load_epoch=2)
    train(tmp_path, num_epochs=1, load=first, start_epoch="1")
    output = capsys.readouterr().out
    assert f"load '{first}'" in output
    assert "is not used" not in output


def test_resumed_newbob_goes_on_with_its_rates_without_a_learning_rate_file(tmp_path):
    options = {"learning_rate_control": "newbob", "newbob_relative_error_threshold": -10.0, "learning_rate": 0.1}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    train(tmp_path / "one", num_epochs=4, dev=DEV, **options)
    for num_epochs in (1, 3, 4):
        train(tmp_path / "two", num_epochs=num_epochs, dev=DEV, **options)
    rates = [
        [data.learning_rate for data in read_learning_rate_file(tmp_path / name / "net.learning_rates").values()]
        for name in ("one", "two")
    ]
    assert rates[0] == rates[1]
    assert len(set(rates[0])) > 2  # they do change
    assert_same(parameters(tmp_path / "one" / "net.004"), parameters(tmp_path / "two" / "net.004"))


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_damaged_checkpoint_falls_back_to_the_one_before(damage, tmp_path, capsys):
    train(tmp_path, num_epochs=2)
    expected = parameters(tmp_path / "net.002")
    file = tmp_path / "net.002.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 0x10
        file.write_bytes(content)
    capsys.readouterr()
    train(tmp_path, num_epochs=2)
    output = capsys.readouterr().out
    assert "net.002" in output
    assert "The one before is taken." in output
    assert "start training at epoch 2 of 2" in output
    assert_same(expected, parameters(tmp_path / "net.002"))


def test_folder_that_cannot_be_made_names_the_file(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match="option 'model': no file can be written to the folder") as info:
        train(tmp_path / "file")
    assert len(str(info.value).splitlines()) <= 5


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_names_the_file(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="option 'model': no file can be written to the folder"):
        train(tmp_path)


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="there is no folder where nobody may write")
def test_folder_where_nobody_may_write_names_the_file():
    with pytest.raises(UserError, match="option 'model': no file can be written to the folder '/sys/kernel'"):
        train(Path("/sys/kernel"))


def test_huge_learning_rate_names_step_and_sequences_and_keeps_parameters(tmp_path):
    network = {
        "hidden": {"class": "linear", "activation": "exp", "n_out": 3, "from": "data"},
        "output": {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"},
    }
    with pytest.raises(NonFiniteError) as info:
        train(tmp_path, network=network, learning_rate=1e6, max_seqs=5)
    text = str(info.value)
    assert "train, epoch 1, step " in text
    assert "sequences 'seq-" in text
    assert "the loss is not finite. The parameters are those of before the step." in text
    assert "The first layer with a value that is not finite: 'hidden'." in text
    (broken,) = {name.removesuffix(".index") for name in os.listdir(tmp_path) if name.endswith(".index")}
    assert all(numpy.isfinite(value).all() for value in parameters(tmp_path / broken).values())


def test_parameter_that_an_update_has_made_not_finite_is_named(tmp_path):
    with pytest.raises(NonFiniteError) as info:
        train(tmp_path, optimizer={"class": "adafactor", "epsilon_1": -1e9}, max_seqs=5)
    assert "train, epoch 1, step 1, sequences " in str(info.value)
    assert "' is not finite itself, though loss and gradients of each update were.\n  Look at 'optimizer'" in (
        str(info.value)
    )


def test_loss_that_is_not_finite_is_named_if_all_layers_are(tmp_path):
    network = {
        "output": {"class": "softmax", "from": "data", "loss": "ce", "target": "classes"},
        "log": {
            "class": "eval", "from": "data", "loss": "as_is",
            "eval": "tf.where(source(0) > 1e9, source(0), 1e38 * tf.ones_like(source(0)))",
        },
    }  # fmt: skip
    with pytest.raises(NonFiniteError, match="All layers are finite, but not the losses: log\\."):
        train(tmp_path, network=network)


def sqrt_of_zero(layers_below):
    """:return: a network whose loss is finite, and whose gradient is NaN at zeros (0 * infinity)"""
    return {
        **layers_below,
        "square": {"class": "eval", "from": "hidden", "eval": "tf.sqrt(tf.square(source(0)) * 0.0)"},
        "output": {"class": "softmax", "from": "square", "loss": "ce", "target": "classes"},
    }


def test_gradient_that_is_not_finite_names_step_sequences_parameter_and_layer(tmp_path):
    network = sqrt_of_zero({"hidden": {"class": "linear", "activation": None, "n_out": 3, "from": "data"}})
    with pytest.raises(NonFiniteError) as info:
        train(tmp_path, network=network)
    text = str(info.value)
    assert text.startswith("train, epoch 1, step 0, sequences 'seq-")
    assert "a gradient is not finite, though the loss is. The parameters are those of before the step." in text
    assert "of layer 'hidden' is the nearest to the losses; 2 of 4 parameters have one." in text
    assert len(text.splitlines()) <= 5
    assert [name for name in os.listdir(tmp_path) if name.endswith(".index")] == ["net.001.broken.index"]
    values = parameters(tmp_path / "net.001.broken")
    assert all(numpy.isfinite(value).all() for value in values.values())
    assert values["global_step"] == 0


def test_checkpoint_with_parameters_that_are_not_finite_is_not_written(tmp_path):
    output = {"class": "softmax", "from": "data", "loss": "ce", "target": "classes"}
    train(tmp_path, num_epochs=1, network={"output": output})
    before = parameters(tmp_path / "net.001")
    network = {"output": {**output, "loss_scale": 1e15}}
    with pytest.raises(CheckpointError) as info:  # loss and gradients are finite, and the parameters after it are not
        train(tmp_path, num_epochs=2, network=network, learning_rate=1e30, max_seqs=20, batch_size=100_000)
    text = str(info.value)
    assert f"checkpoint '{tmp_path}/net.002' is not written: " in text
    assert " are not finite" in text
    assert "Checkpoints that are there are as they were." in text
    assert sorted(name for name in os.listdir(tmp_path) if name.endswith(".index")) == ["net.001.index"]
    assert_same(before, parameters(tmp_path / "net.001"))


def test_score_of_dev_data_that_is_not_finite_names_the_sequences(tmp_path, capsys):
    dev = {
        "class": "StaticDataset",
        "data": [
            {"data": numpy.full((4, 9), value, "float32"), "classes": numpy.zeros(4, "int32")} for value in (1.0, 1e30)
        ],
        "output_dim": {"data": (9, 2), "classes": (2, 1)},
    }
    network = {"output": {"class": "softmax", "from": "square", "loss": "ce", "target": "classes"}}
    network["square"] = {"class": "eval", "from": "data", "eval": "tf.square(source(0))"}
    train(tmp_path, dev=dev, network=network)
    output = capsys.readouterr().out
    assert "dev, epoch 1, step 0, sequences 'seq-0', 'seq-1': " in output
    assert output.count("is not finite. Neither is the mean of all sequences.") == 1


def test_nan_in_the_data_names_the_sequence(tmp_path):
    def seq(value):
        return {"data": numpy.full((4, 9), value, "float32"), "classes": numpy.zeros(4, "int32")}

    data = {
        "class": "StaticDataset",
        "data": [seq(1.0), seq(numpy.nan)],
        "output_dim": {"data": (9, 2), "classes": (2, 1)},
    }
    with pytest.raises(UserError) as info:
        train(tmp_path, train=data, max_seqs=1)
    text = str(info.value)
    assert "seq-1" in text
    assert "step 1" in text or "'data'" in text
    assert len(text.splitlines()) <= 5


def test_ctrl_c_finishes_the_step(tmp_path, capsys):
    def step(source, **_kwargs):
        def interrupt(x):
            os.kill(os.getpid(), signal.SIGINT)
            return x

        x = source(0)
        result = tf.numpy_function(interrupt, [x], tf.float32)
        result.set_shape(x.shape)
        return result

    network = {
        "interrupt": {"class": "eval", "eval": step, "from": "data"},
        "output": {"class": "softmax", "from": "interrupt", "loss": "ce", "target": "classes"},
    }
    with pytest.raises(InterruptedRun, match="interrupted by SIGINT after train epoch 1, step 1"):
        train(tmp_path, network=network)
    output = capsys.readouterr().out
    assert "The same command again goes on there." in output
    assert [name for name in os.listdir(tmp_path) if name.endswith(".index")] == ["net.001.unfinished.index"]


def test_ctrl_c_between_epochs_lets_the_epoch_end(tmp_path, capsys, monkeypatch):
    def interrupted_report(*_args):
        os.kill(os.getpid(), signal.SIGINT)
        print("the report is complete")

    monkeypatch.setattr(EpochReport, "epoch", interrupted_report)
    with pytest.raises(InterruptedRun, match="interrupted by SIGINT after epoch 1"):
        train(tmp_path, num_epochs=3)
    output = capsys.readouterr().out
    assert "the report is complete" in output
    assert "interrupted by SIGINT after epoch 1. The same command again goes on after the last model." in output


def test_scores_of_eval_are_those_of_the_training(tmp_path, capsys):
    train(tmp_path, dev=DEV)
    scores = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch 1,")]
    tasks.evaluate(config(tmp_path, dev=DEV, task="eval", load_epoch=1))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("dev: ")]
    loss = float(line.rpartition("loss output ")[2].partition(",")[0])
    assert f"dev_score {loss:.4g}" in scores[0]


def test_forward_writes_what_the_network_gives(tmp_path):
    train(tmp_path)
    output_file = str(tmp_path / "out.hdf")
    options = {"forward_data": DEV, "task": "forward", "output_file": output_file}
    tasks.forward(config(tmp_path, **options))
    dataset = HDFDataset([output_file])
    dataset.initialize()
    dataset.init_seq_order(epoch=1)
    assert dataset.num_seqs == 5
    dataset.load_seqs(0, 5)
    for i in range(5):
        values = dataset.get_data(i, "data")
        assert values.shape[1] == 2
        numpy.testing.assert_allclose(values.sum(axis=1), 1.0, rtol=1e-5)
    with pytest.raises(ConfigError, match=r"out\.hdf' exists"):
        tasks.forward(config(tmp_path, **options))
    tasks.forward(config(tmp_path, **options, forward_override_hdf_output=True))


@pytest.mark.parametrize("file_format", ["txt", "py"])
def test_search_writes_hypotheses(file_format, tmp_path):
    train(tmp_path)
    network = {
        "hidden": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
        "output": {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"},
        "best": {"class": "reduce", "mode": "argmax", "axis": "F", "from": "output"},
    }
    file = tmp_path / "hyps"
    tasks.search_task(config(
        tmp_path, network=network, task="search", search_data=DEV, search_output_layer="best",
        search_output_file=str(file), search_output_file_format=file_format,
    ))  # fmt: skip
    if file_format == "txt":
        texts = file.read_text().splitlines()
    else:
        hypotheses = ast.literal_eval(file.read_text())
        assert all(tag.startswith("seq-") for tag in hypotheses)
        texts = list(hypotheses.values())
    assert len(texts) == 5
    assert all(text and set(text) <= {"L", "R"} for text in texts)  # as the data set writes its labels


def test_search_by_hand_after_a_training(tmp_path):
    unit = {
        "prob": {"class": "softmax", "from": "prev:emb", "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 2, "initial_output": 0},
        "emb": {"class": "linear", "n_out": 3, "activation": None, "from": "output"},
    }
    network = {
        "output": {"class": "rec", "from": [], "target": "classes", "unit": unit},
        "best": {"class": "decide", "from": "output", "target": "classes", "loss": "edit_distance"},
    }
    engine = Engine(config(tmp_path, network=network))
    engine.init_train_from_config()
    engine.train()
    trained = engine.network.get_params_serialized(engine.tf_session)
    engine.use_search_flag = True  # no loss of a search depends on parameters
    engine.init_network_from_config()
    assert engine.updater is None
    file = tmp_path / "hyps.py"
    engine.search(init_dataset(DEV), output_layer_names="best", output_file=str(file), output_file_format="py")
    assert len(read_hypotheses(str(file))) == 5
    engine.use_search_flag = False
    engine.init_train_from_config()  # goes on
    assert engine.updater is not None
    again = engine.network.get_params_serialized(engine.tf_session)
    assert again.values_dict.keys() == trained.values_dict.keys()
    engine.finalize()


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (tasks.train, {"train": None}, "option 'train' is required"),
        (tasks.train, {"network": None}, "option 'network' is required"),
        (
            tasks.train,
            {"start_epoch": "soon"},
            "option 'start_epoch': got 'soon', but expected 'auto' or an integer from 1",
        ),
        (tasks.train, {"tf_session_opts": {"nonsense": 1}}, "option 'tf_session_opts'"),
        (tasks.evaluate, {"dev": DEV, "task": "eval"}, "there is no model to work on"),
        (tasks.evaluate, {"dev": DEV, "task": "eval", "load_epoch": 7}, "there is no model of epoch 7"),
        (tasks.evaluate, {"task": "eval", "allow_random_model_init": True}, "task 'eval': there is no data"),
        (
            tasks.forward,
            {"task": "forward", "allow_random_model_init": True},
            "option 'forward_data': it is not set, and there is no data 'eval'",
        ),
        (
            tasks.search_task,
            {"task": "search", "allow_random_model_init": True, "search_data": DEV, "search_output_layer": "outputt"},
            "'output'",
        ),
        (
            tasks.search_task,
            {"task": "search", "allow_random_model_init": True, "search_data": DEV, "search_output_layer": "output"},
            "expected labels",
        ),
        (
            tasks.search_task,
            {"task": "search", "allow_random_model_init": True, "search_data": DEV, "search_output_file_format": "x"},
            "there is no format 'x'",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_wrong_options_are_named(task, options, message, tmp_path):
    with pytest.raises(UserError) as info:
        task(config(tmp_path, **options))
    assert message in str(info.value)
    assert len(str(info.value).splitlines()) <= 5


@pytest.mark.parametrize("options", [{}, {"num_outputs": 2}], ids=str)
def test_data_that_the_config_leaves_to_the_data_set(options, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    described = config(tmp_path / "one")
    tasks.train(described)
    left_out = config(tmp_path / "two", **options)
    del left_out.typed_dict["extern_data"]
    tasks.train(left_out)
    assert_same(parameters(tmp_path / "one" / "net.001"), parameters(tmp_path / "two" / "net.001"))


def test_forward_writes_what_has_no_frames_as_one_frame(tmp_path):
    reduced = {"class": "reduce", "mode": "mean", "is_output_layer": True}
    network = {
        "output": {"class": "softmax", "from": "data", "target": "classes", "loss": "ce"},
        "embedding": {**reduced, "axis": "T", "from": "output"},
        "scalar": {**reduced, "axis": "F", "from": "embedding"},
        "label": {**reduced, "mode": "argmax", "axis": "F", "from": "embedding"},
        "number": {"class": "eval", "from": "label", "eval": "source(0) + 7", "is_output_layer": True},
    }
    shapes = {"embedding": (1, 2), "scalar": (1,), "label": (1,)}
    options = {"forward_data": DEV, "task": "forward", "network": network, "allow_random_model_init": True}
    for layer, shape in shapes.items():
        output_file = str(tmp_path / f"{layer}.hdf")
        tasks.forward(config(tmp_path, **options, output_file=output_file, forward_output_layer=layer))
        dataset = HDFDataset([output_file])
        dataset.initialize()
        dataset.init_seq_order(epoch=1)
        dataset.load_seqs(0, 5)
        assert [dataset.get_data(i, "data").shape for i in range(5)] == [shape] * 5
        assert dataset.is_data_sparse("data") == (layer == "label")
        assert dataset.get_data_dim("data") == {"embedding": 2, "scalar": 1, "label": 2}[layer]
    wrong = config(tmp_path, **options, output_file=str(tmp_path / "number.hdf"), forward_output_layer="number")
    with pytest.raises(UserError, match=r"forward: layer 'number': .*: the label [78], but by its dim they are 0 to 1"):
        tasks.forward(wrong)
