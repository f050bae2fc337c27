"""Edit distances frame by frame."""

from __future__ import annotations

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, valid


def table_net(**options):
    labels = {"class": "reduce", "mode": "argmax", "axis": "F", "from": "data", "is_output_layer": True}
    table = {"class": "edit_distance_table", "from": "data:source", "target": "layer:base:labels"}
    return {
        "labels": labels,
        "output": {"class": "rec", "from": "labels", "unit": {"output": table}, **options},
    }


def test_moving_the_table_out_of_the_loop_changes_nothing():
    data, lengths = sequences()
    inside, outside = (
        RecurrentNet(table_net(optimize_move_layers_out=move)).run(data, lengths).output for move in (False, True)
    )
    numpy.testing.assert_array_equal(valid(inside, lengths)[:, 0], valid(outside, lengths)[:, 0])


def test_the_same_labels_have_no_distance():
    data, lengths = sequences()
    rows = RecurrentNet(table_net()).run(data, lengths).output
    for b, length in enumerate(lengths):
        numpy.testing.assert_array_equal(numpy.diagonal(rows[b, :length, 1 : length + 1]), 0)


def test_a_target_is_required():
    net_dict = table_net()
    del net_dict["output"]["unit"]["output"]["target"]
    with pytest.raises(ConfigError, match="the option 'target' is required"):
        RecurrentNet(net_dict)
