import json
import math

import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.engine.report.summaries import summaries_folder
from returnn.log import log
from returnn.tf.engine import tasks
from returnn.tf.engine.passes.step_trace import StepTracer
from returnn.util.errors import ConfigError, UserError
from tests.tf.engine.small_config import config

DEV = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


def read_events(folder):
    """:return: by tag the list of step and value, and the steps at which a run starts"""
    found, starts = {}, []
    for file in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            if event.HasField("session_log"):
                starts.append(event.step)
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found, starts


def test_scores_of_each_step_and_of_each_evaluation(tmp_path):
    options = config(tmp_path, num_epochs=2, dev=DEV, learning_rates=[0.01, 0.005])
    tasks.train(options)
    train, starts = read_events(tmp_path / "tensorboard" / "train")
    dev, _ = read_events(tmp_path / "tensorboard" / "dev")
    assert set(train) == {"loss/output", "error/output", "learning_rate"}
    assert [step for step, _ in train["loss/output"]] == [0, 1, 2, 3]
    assert [round(rate, 6) for _, rate in train["learning_rate"]] == [0.01, 0.01, 0.005, 0.005]
    assert set(dev) == {"loss/output", "error/output"}
    assert [step for step, _ in dev["loss/output"]] == [2, 4]
    assert starts == [0, 2]


def test_resumed_training_goes_on_at_its_step(tmp_path):
    tasks.train(config(tmp_path, num_epochs=1))
    tasks.train(config(tmp_path, num_epochs=2))
    train, starts = read_events(tmp_path / "tensorboard" / "train")
    assert [step for step, _ in train["loss/output"]] == [0, 1, 2, 3]
    assert starts == [0, 2]


def test_what_is_asked_for_is_written(tmp_path, capsys):
    def with_summary(source, **kwargs):
        x = source(0)
        tf.compat.v1.summary.scalar("mean of x", tf.reduce_mean(x))
        return x

    network = {
        "seen": {"class": "eval", "from": "data", "eval": with_summary},
        "output": {"class": "softmax", "from": "seen", "loss": "ce", "target": "classes"},
    }
    options = config(
        tmp_path, network=network, log_grad_norm=True, debug_grad_summaries=True, debug_objective_loss_summaries=True,
        debug_unnormalized_loss_summaries=True,
    )  # fmt: skip
    tasks.train(options)
    found, _ = read_events(tmp_path / "tensorboard" / "train")
    names = {"grad_norm", "objective_loss/output", "unnormalized_loss/output"}
    assert names <= set(found)
    assert any("mean_of_x" in tag for tag in found)
    assert any(tag.endswith("max_abs") for tag in found)
    assert all(math.isfinite(value) for name in names for _, value in found[name])
    assert ", grad_norm " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        ({"model": "a/net"}, "a/tensorboard"),
        ({"model": "a/net", "tf_log_dir": "b"}, "b"),
        ({"model": "a/net", "tf_log_dir": None}, None),
        ({"model": "a/net", "dry_run": True}, None),
        ({"model": "a/net", "dry_run": True, "tf_log_dir": "b"}, None),
        ({}, None),
    ],
)
def test_folder(options, folder):
    assert summaries_folder(Config(options)) == folder


def test_nothing_is_written_without_a_folder(tmp_path):
    tasks.train(config(tmp_path, tf_log_dir=None))
    assert not (tmp_path / "tensorboard").exists()


def test_evaluation_alone_writes_nothing(tmp_path):
    tasks.train(config(tmp_path, tf_log_dir=None))
    tasks.evaluate(config(tmp_path, task="eval", dev=DEV))
    assert not (tmp_path / "tensorboard").exists()


def test_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match="option 'tf_log_dir': no file can be written to the folder"):
        tasks.train(config(tmp_path, tf_log_dir=str(tmp_path / "file" / "log")))


def test_each_nth_step_is_traced(tmp_path):
    options = {"report_tensor_allocations_upon_oom": True}
    tasks.train(config(tmp_path, store_metadata_mod_step=2, max_seqs=5, tf_run_options=options))
    traces = sorted((tmp_path / "tensorboard").glob("timeline-*.json"))
    assert [path.name for path in traces] == ["timeline-1-0.json", "timeline-1-2.json"]
    assert any("MatMul" in event["name"] for event in json.loads(traces[0].read_text())["traceEvents"])


def test_profile_of_an_epoch(tmp_path):
    tasks.train(config(tmp_path, store_tf_profile=True))
    assert list((tmp_path / "tensorboard" / "plugins" / "profile").rglob("*.xplane.pb"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tf_run_options": {"trace": 3}}, "option 'tf_run_options': .*\n  Possible: debug_options, .*trace_level"),
        ({"store_tf_profile": True}, "option 'store_tf_profile': there is no folder for it.\n  Set 'tf_log_dir'"),
        ({"store_metadata_mod_step": 3}, "option 'store_metadata_mod_step': there is no folder for it."),
        ({"store_metadata_mod_step": 3, "store_tf_profile": True}, "only one is possible at a time"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ConfigError, match=message):
        StepTracer(Config(options), None)


def test_statistics_of_frames(tmp_path, capsys):
    network = {
        "output": {"class": "softmax", "from": "data", "loss": "ce", "target": "classes"},
        "stats": {
            "class": "framewise_statistics", "sil_label_idx": 0, "histogram_num_bins": 2, "from": "output",
            "is_output_layer": True,
        },
    }  # fmt: skip
    tasks.train(config(tmp_path, network=network))
    found, _ = read_events(tmp_path / "tensorboard" / "train")
    accuracy = [value for _, value in found["stats:output:accuracy"]]
    assert [1 - value for _, value in found["error/output"]] == pytest.approx(accuracy, abs=1e-5)
    out = capsys.readouterr().out
    assert f"stats:output:accuracy {accuracy[0]:.4g}" in out
    assert ", stats:output:target_prob_histogram [" in out
