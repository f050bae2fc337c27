"""Scripts about checkpoints, and what else a training leaves."""

import json
import pickle

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.engine.learning_rate_control import load_learning_rate_control_from_config
from returnn.engine.learning_rate_file import EpochData, write_learning_rate_file
from returnn.tf.checkpoint import CheckpointWriter, existing_checkpoints
from returnn.tf.checkpoint.average import write_checkpoint


@pytest.fixture
def model(tmp_path):
    """Three checkpoints, and their scores."""
    for epoch in (1, 2, 3):
        values = {
            "layer/W": numpy.full((2, 3), float(epoch), dtype="float32"),
            "layer/b": numpy.array([epoch, -epoch, 0], dtype="float32"),
            "global_step": numpy.array(10 * epoch, dtype="int64"),
        }
        write_checkpoint(values, str(tmp_path / f"net.00{epoch}"))
    scores = {1: {"dev_error": 0.5, "train_score": 3.0}, 2: {"dev_error": 0.2}, 3: {"dev_error": 0.3}}
    epochs = {epoch: EpochData(learning_rate=0.1, error=error) for epoch, error in scores.items()}
    write_learning_rate_file(tmp_path / "scores", epochs)
    return tmp_path / "net"


def test_inspect(tool, model):
    status, out, err = tool("tf_inspect_checkpoint", "--file_name", f"{model}.003.index")
    assert (status, err) == (0, "")
    assert out == (
        "global_step  int64[]  1\nlayer/W      float32[2, 3]  6\nlayer/b      float32[3]  3\n3 tensors, 10 values\n"
    )
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        writer = CheckpointWriter({"layer/b": tf.constant([2.0, -2.0, numpy.nan])})
        writer.save(session, f"{model}.002", may_be_broken=True)
    out = tool("tf_inspect_checkpoint", "--file_name", f"{model}.002", "--tensor_name", "layer/b")[1]
    assert out == ("layer/b: mean 0, std 2, min -2, max 2; 1 value is not finite\n[ 2. -2. nan]\n")
    out = tool("tf_inspect_checkpoint", "--file_name", f"{model}.003", "--all_tensors", "--printoptions", "sign='+'")[1]
    assert "[[+3. +3. +3.]\n [+3. +3. +3.]]" in out


def test_inspect_wrong(tool, model):
    assert tool("tf_inspect_checkpoint", "--file_name", f"{model}.003", "--tensor_name", "layer/w")[2] == (
        f"error: checkpoint '{model}.003': there is no tensor 'layer/w'.\n  Did you mean 'layer/b' or 'layer/W'?\n"
    )
    assert tool("tf_inspect_checkpoint", "--file_name", f"{model}.004")[2].startswith(
        f"error: checkpoint '{model}.004' does not exist.\n"
    )
    assert tool("tf_inspect_checkpoint", "--file_name", f"{model}.003", "--printoptions", "x")[2] == (
        "error: option '--printoptions': 'x': expected NAME=VALUE, such as precision=3.\n"
    )


@pytest.mark.parametrize(
    "which", [["--num_last_checkpoints", 2], ["--checkpoints", "002,003"], ["--checkpoints", 2, 3]]
)
def test_average(tool, model, tmp_path, which):
    out_path = tmp_path / "averaged"
    assert tool("tf_avg_checkpoints", "--prefix", f"{model}.", *which, "--output_path", out_path)[0] == 0
    reader = tf.train.load_checkpoint(str(out_path))
    numpy.testing.assert_array_equal(reader.get_tensor("layer/W"), numpy.full((2, 3), 2.5, dtype="float32"))
    assert reader.get_tensor("global_step") == 30
    assert reader.get_variable_to_dtype_map()["layer/W"] == tf.float32


def test_average_that_is_not_finite_is_not_written(tool, model, tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = {"layer/W": tf.fill((2, 3), numpy.float32(numpy.nan))}
        values |= {"layer/b": tf.zeros(3), "global_step": tf.constant(1, tf.int64)}
        CheckpointWriter(values).save(session, f"{model}.003", may_be_broken=True)
    out_path = tmp_path / "averaged"
    options = ["--prefix", f"{model}.", "--num_last_checkpoints", 2, "--output_path", out_path]
    status, _, err = tool("tf_avg_checkpoints", *options)
    assert status == 1
    assert "averaged' is not written: 6 values of 'layer/W' are not finite." in err


def test_average_of_different_models(tool, model, tmp_path):
    write_checkpoint({"layer/W": numpy.zeros((2, 3), dtype="float32")}, str(tmp_path / "net.004"))
    status, _, err = tool("tf_avg_checkpoints", "--prefix", f"{model}.", "--num_last_checkpoints", 2)
    assert status == 1
    assert err == (
        f"error: checkpoints '{model}.003' and '{model}.004' are of different models.\n"
        f"  2 variables in one of them only, as 'global_step' in '{model}.003'.\n"
    )
    assert tool("tf_avg_checkpoints", "--prefix", f"{model}.", "--num_last_checkpoints", 9)[0] == 1


def test_best_epochs(tool, model, tmp_path, config_file):
    out = tool("get-best-model-epoch", "--learning-rate-file", tmp_path / "scores", "--n", 2)[1]
    assert out == "epoch 2: dev_error 0.2\nepoch 3: dev_error 0.3\n"
    assert tool("get-best-model-epoch", tmp_path / "scores", "--n", 2)[1] == out  # as the file of another tool
    config = config_file(learning_rate_file=str(tmp_path / "scores"))
    assert tool("get-best-model-epoch", config, "--n", 2)[1] == out
    assert tool("get-best-model-epoch", "--config", config, "--key", "train_score")[1] == "epoch 1: train_score 3.0\n"
    assert tool("get-best-model-epoch", "--config", config, "--key", "dev_err")[2] == (
        "error: option '--key': there is no score 'dev_err'.\n  Did you mean 'dev_error'?\n"
    )


def test_best_epochs_by_names_of_other_backends(tool, tmp_path):
    file = tmp_path / "scores"
    scores = {1: (0.5, 2.0), 2: (0.2, 3.0)}
    epochs = {
        n: EpochData(error={"dev_loss_a": x, "dev_loss_ce": y}, meta={"as_error": ["a"]})
        for n, (x, y) in scores.items()
    }
    write_learning_rate_file(file, epochs)
    by_loss, by_error = "epoch 1: dev_loss_ce 2.0\n", "epoch 2: dev_loss_a 0.2\n"
    assert tool("get-best-model-epoch", file, "--n", 1)[1] == by_loss
    for key, expected in {"dev_score": by_loss, "dev_score_ce": by_loss, "dev_error": by_error}.items():
        assert tool("get-best-model-epoch", file, "--n", 1, "--key", key)[1] == expected


def test_best_epochs_go_by_what_the_training_goes_by(tool, tmp_path, config_file):
    scores = {1: (0.5, 3.0), 2: (0.2, 2.0), 3: (0.3, 1.0), 4: (0.3, 1.0)}
    epochs = {n: EpochData(learning_rate=0.1, error={"dev_error": x, "dev_score": y}) for n, (x, y) in scores.items()}
    file = tmp_path / "scores"
    write_learning_rate_file(file, epochs)
    by_score, by_error = "epoch 4: dev_score 1.0\nepoch 3: dev_score 1.0\n", "epoch 2: dev_error 0.2\n"
    assert tool("get-best-model-epoch", file, "--n", 2)[1] == by_score
    config = config_file(learning_rate_file=str(file))
    assert tool("get-best-model-epoch", config, "--n", 2)[1] == by_score
    control = load_learning_rate_control_from_config(Config({"learning_rate_file": str(file)}))
    assert control.get_last_best_epoch(last_epoch=4) == 4
    assert tool("get-best-model-epoch", config, "--n", 1, "--key", "dev_error")[1] == by_error
    options = {"learning_rate_file": str(file), "learning_rate_control_error_measure": "dev_error_output"}
    config = config_file(**options)
    assert tool("get-best-model-epoch", config, "--n", 1)[1] == by_error
    assert tool("get-best-model-epoch", config, "--n", 1, "--learning-rate-file", file)[1] == by_error
    control = load_learning_rate_control_from_config(Config(options))
    assert control.get_last_best_epoch(last_epoch=4) == 2


def test_cleanup(tool, model, tmp_path, config_file):
    config = config_file(
        model=str(model), learning_rate_file=str(tmp_path / "scores"),
        cleanup_old_models={"keep_last_n": 1, "keep_best_n": 1, "keep": []},
    )  # fmt: skip
    out = tool("cleanup-old-models", "--config", config, "--dry_run")[1]
    assert out == f"{model}: 3 checkpoints; keep epochs 2, 3\nwould delete epochs 1\n"
    assert sorted(existing_checkpoints(str(model))) == [1, 2, 3]
    assert "deleted epochs 1, " in tool("cleanup-old-models", "--config", config)[1]
    assert sorted(existing_checkpoints(str(model))) == [2, 3]
    assert tool("cleanup-old-models", "--model", model, "--scores", tmp_path / "scors")[0] == 1


def test_network_as_json(tool, config_file, tmp_path):
    network = {"output": {"class": "softmax", "from": "data", "n_out": 3}}
    config = config_file(network=network)
    assert tool("dump-network-json", config, "--out", tmp_path / "net.json")[0] == 0
    assert json.loads((tmp_path / "net.json").read_text()) == network


def test_pickle(tool, tmp_path):
    (tmp_path / "x.pkl").write_bytes(pickle.dumps({"a": [1, 2]}))
    assert tool("dump-pickle", tmp_path / "x.pkl")[1] == "{'a': [1, 2]}\n"
    (tmp_path / "x.pkl").write_bytes(b"x")
    assert tool("dump-pickle", tmp_path / "x.pkl")[0] == 1


def test_event_file(tool, tmp_path):
    with tf.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter(str(tmp_path / "events"))
        writer.add_summary(tf.compat.v1.Summary(value=[{"tag": "objective/loss", "simple_value": 0.5}]), 7)
        writer.close()
    (file,) = (tmp_path / "events").iterdir()
    assert tool("tf_inspect_summary_log", file) == (0, "step 7: 0.5\n", "")
    assert tool("tf_inspect_summary_log", file, "--tag", "objective/los")[2].endswith(
        "Did you mean 'objective/loss'?\n"
    )
    assert (
        tool("tf_inspect_summary_log", tmp_path / "x")[2] == f"error: event file '{tmp_path / 'x'}' does not exist.\n"
    )
