"""Hypotheses that are decided: what is said where there are none."""

import pytest

from returnn.config import Config
from returnn.tf.inspection.config_check import check_config

EXTERN_DATA = {"data": {"dim": 9, "shape": (None, 9)}, "classes": {"dim": 4, "sparse": True}}
UNIT = {
    "s": {"class": "rnn_cell", "unit": "lstm", "n_out": 3, "from": "prev:output"},
    "prob": {"class": "softmax", "from": "s", "target": "classes", "loss": "ce"},
    "output": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 2, "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 0},
}


@pytest.mark.parametrize("options", [{}, {"only_on_search": True}])
def test_a_loss_that_is_0_in_training_is_told_of(options):
    decision = {"class": "decide", "from": "output", "loss": "edit_distance", "target": "classes", **options}
    net_dict = {
        "output": {"class": "rec", "from": [], "unit": UNIT, "target": "classes", "max_seq_len": 5},
        "decision": decision,
    }
    data = {"train": {"class": "Task12AXDataset"}, "extern_data": EXTERN_DATA, "check_data": False}
    report = check_config(Config({**data, "network": net_dict}))
    assert not report.errors
    found = [
        text for text in report.warnings if "'decision'" in text and "'only_on_search': True leaves it out" in text
    ]
    assert len(found) == (0 if options else 1)
