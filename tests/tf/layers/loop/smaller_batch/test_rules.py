"""Which time steps may be computed for a part of the batch."""

from __future__ import annotations

import pytest

from returnn.tensor import batch_dim
from returnn.tf.layers.loop.smaller_batch.rules import reason_of_layers

STEP = {
    "s": {"class": "rnn_cell", "unit": "lstm", "n_out": 4, "from": ["prev:output", "base:ctx"]},
    "p": {"class": "softmax", "from": "s", "n_out": 3},
    "output": {"class": "choice", "from": "p", "beam_size": 3, "target": "classes"},
}


def test_a_decoder_is_about_single_sequences():
    assert reason_of_layers(STEP, 3) == ""
    energy = {"class": "dot", "from": ["a", "b"], "add_var2_if_empty": False}  # no axis, although False is 0
    assert reason_of_layers({**STEP, "energy": energy}, 3) == ""


@pytest.mark.parametrize(
    ("desc", "word"),
    [
        ({"class": "batch_norm", "from": "s"}, "batch_norm"),
        ({"class": "own_layer", "from": "s"}, "own_layer"),
        ({"class": "linear", "from": "s", "batch_norm": True}, "batch_norm"),
        ({"class": "reduce", "from": "s", "mode": "max", "axes": ["T", "B"]}, "axes"),
        ({"class": "gather", "from": "s", "position": 0, "axis": batch_dim}, "axis"),
        ({"class": "norm", "from": "s", "axis": 0}, "axis"),
        ({"class": "eval", "from": "s", "eval": "tf.reduce_max(source(0), axis=0)"}, "eval"),
        ({"class": "choice", "from": "p", "beam_size": 3, "custom_score_combine": lambda **_: None}, "custom_score"),
        ({"class": "choice", "from": "p", "beam_size": 3, "random_sample_scale": 1.0}, "random_sample_scale"),
        ({"class": "choice", "from": "p", "beam_size": 3, "cheating": "exclusive"}, "cheating"),
        ({"class": "choice", "from": "q", "beam_size": 2}, "beam_size"),
        (
            {"class": "subnetwork", "subnetwork": {"output": {"class": "batch_softmax", "from": "data"}}},
            "batch_softmax",
        ),
    ],
)
def test_the_reason_names_layer_and_option(desc, word):
    reason = reason_of_layers({**STEP, "x": desc}, 3)
    assert word in reason
    assert reason.startswith(("layer x:", "layer output:"))  # that of the subnetwork
