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


@pytest.mark.parametrize("options", [{}, {"include_eos": True}])
@pytest.mark.parametrize("vocab", [{}, {"eos_label": 0}, {"seq_postfix": [0]}])
def test_an_error_for_each_label_of_the_end_is_told_of(vocab, options):
    """The hypotheses end before it, unless the loop has `include_eos`."""
    net_dict = {
        "output": {"class": "rec", "from": [], "unit": UNIT, "target": "classes", "max_seq_len": 5, **options},
        "decision": {
            "class": "decide", "from": "output", "loss": "edit_distance", "target": "classes", "only_on_search": True,
        },
    }  # fmt: skip
    labels = {
        "class": "Vocabulary",
        "vocab_file": None,
        "labels": ["</s>", "a", "b", "c"],
        "unknown_label": None,
        **vocab,
    }
    data = {"train": {"class": "Task12AXDataset"}, "check_data": False}
    extern_data = {**EXTERN_DATA, "classes": {"vocab": labels}}
    report = check_config(Config({**data, "extern_data": extern_data, "network": net_dict}))
    assert not report.errors
    found = [text for text in report.warnings if "counts an error more per sequence" in text]
    assert len(found) == (1 if vocab and not options else 0)
    assert all("'include_eos': True" in text and "'</s>'" in text for text in found)
