"""Sources behind each other."""

import numpy
import pytest

from returnn.tensor import Dim
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, one_of


@pytest.mark.parametrize("has_out_dim", [False, True])
def test_sequences_come_behind_the_longest_one(has_out_dim):
    out_dim = Dim(None, name="both") if has_out_dim else None
    net_dict = {
        "x": {"class": "concat", "from": [("data", "T"), ("data", "T")], "out_dim": out_dim},
        "lengths": {"class": "length", "from": "x"},
    }
    batch = batch_of(padding={"float32": 7.0, "int32": 0})
    result = LayerNet(net_dict).run(batch)
    assert result["lengths"].tolist() == [2 * length for length in LENGTHS]
    for out, data, length in zip(result["x"], batch["data"], LENGTHS, strict=True):
        in_memory = numpy.concatenate([data, data])
        numpy.testing.assert_array_equal(out[: 2 * length], in_memory[: 2 * length])


def test_sequences_of_the_same_length_have_no_gap_in_between():
    batch = one_of(batch_of(), 0)
    net_dict = {
        "x": {"class": "concat", "from": [("data", "T"), ("cut", "T")]},
        "cut": {"class": "slice", "axis": "T", "slice_start": 2, "from": "data"},
    }
    out = LayerNet(net_dict, fetch=("x",)).run(batch, lengths=LENGTHS[:1])["x"]
    numpy.testing.assert_array_equal(out[0], numpy.concatenate([batch["data"][0], batch["data"][0, 2:]]))


def test_features_and_frames_of_fixed_number():
    net_dict = {"x": {"class": "concat", "from": [("data:image", "dim:4"), ("data:image", "dim:4")]}}
    batch = batch_of(padding={"float32": 0.0, "int32": 0})
    out = LayerNet(net_dict).run(batch)["x"]
    numpy.testing.assert_array_equal(out, numpy.concatenate([batch["image"], batch["image"]], axis=2))
