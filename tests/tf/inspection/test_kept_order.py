"""A network that keeps states from batch to batch, and data in an order that breaks them up."""

import pytest

import returnn.__main__ as rnn
from returnn.config import Config
from returnn.tf.inspection.config_check import check_config
from returnn.util.backend_engine import BackendEngine
from returnn.util.system.warn_once import forget_shown
from tests.tools.test_search_models import write_config

DATA = {"class": "Task12AXDataset", "num_seqs": 4}
KEPT = {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data", "initial_state": "keep_over_epoch"}
INSIDE = {"class": "subnetwork", "from": "data", "subnetwork": {"output": KEPT}}
IN_LOOP = {"class": "rec", "from": "data", "unit": {
    "output": {"class": "linear", "n_out": 3, "activation": "tanh", "from": ["data:source", "prev:output"],
               "initial_output": "keep_over_epoch_no_init"},
}}  # fmt: skip
TEXT = "'dev' is in the order 'sorted', but layer {!r} keeps its state from batch to batch"


@pytest.fixture(autouse=True)
def backend():
    forget_shown()
    yield
    BackendEngine.selected_engine = None


def options(layer, dev=DATA):
    return {
        "extern_data": {"data": {"dim": 9}, "classes": {"dim": 2, "sparse": True}},
        "train": DATA,
        "dev": dev,
        "network": {"kept": layer, "output": {"class": "softmax", "from": "kept", "loss": "ce"}},
        "learning_rate": 0.1,
        "behavior_version": 21,
    }


@pytest.mark.parametrize(
    ("layer", "dev", "name"),
    [
        (KEPT, DATA, "kept"),
        ({**KEPT, "initial_state": {"h": "keep_over_epoch", "c": "zeros"}}, DATA, "kept"),
        ({**KEPT, "initial_state": ["keep_over_epoch", "zeros"]}, DATA, "kept"),
        (INSIDE, DATA, "kept/output"),
        (IN_LOOP, DATA, "kept/output"),
        (KEPT, {**DATA, "seq_ordering": "default"}, None),
        ({**KEPT, "initial_state": "zeros"}, DATA, None),
    ],
)
def test_check_warns_of_data_sorted_by_length(layer, dev, name):
    report = check_config(Config(options(layer, dev)))
    assert report.errors == []
    found = [text for text in report.warnings if "from batch to batch" in text]
    assert len(found) == (name is not None)
    assert all(TEXT.format(name) in text and "'seq_ordering': 'default'" in text for text in found)


def test_evaluation_warns_once(tmp_path, capfd):
    path = write_config(tmp_path, options(KEPT))
    assert rnn.main(["rnn.py", str(path), "++num_epochs", "2"]) == 0
    out, err = capfd.readouterr()
    assert (out + err).count(TEXT.format("kept")) == 1
