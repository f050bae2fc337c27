"""Which lengths a mask has."""

import numpy
import pytest

from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

SHORTER = {"class": "eval", "from": "length", "eval": "source(0) - 1"}
LAYERS = {
    "length": {"class": "length", "from": "data"},
    "shorter": SHORTER,
    "cut": {"class": "slice", "axis": "T", "slice_end": -1, "from": "data"},
}


@pytest.mark.parametrize(("source", "missing"), [(None, 0), ("data:ids", 0), ("shorter", 1), ("cut", 1)])
def test_lengths_are_those_of_a_layer_or_the_layer(source, missing):
    batch = batch_of(padding={"float32": 0.0, "int32": 0})
    options = {} if source is None else {"seq_len_source": source}
    mask = {"class": "seq_len_mask", "mask_value": -9.0, "from": "data", **options}
    found = LayerNet({**LAYERS, "mask": mask}, fetch=("mask",)).run(batch)["mask"]
    for values, expected, length in zip(found, batch["data"], LENGTHS, strict=True):
        numpy.testing.assert_allclose(values[: length - missing], expected[: length - missing])
        assert (values[length - missing : length] == -9.0).all()
