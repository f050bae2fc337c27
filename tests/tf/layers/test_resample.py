"""Examples of `ResizeLayer` and `SliceLayer`."""

import numpy

from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of


def test_fill_dropout_keeps_all_frames_of_the_source():
    resize = {"class": "resize", "factor": 3, "axis": "T", "kind": "fill", "fill_dropout": 0.5, "from": "data"}
    net = {"resized": {**resize, "fill_value": 7}, "length": {"class": "length", "from": "resized"}}
    result = LayerNet(net, train_flag=True).run(batch_of())
    assert (result["length"] < 3 * numpy.array(LENGTHS)).any()
    for x, out, length in zip(batch_of()["data"], result["resized"], LENGTHS, strict=True):
        own = out[(out != 7).all(axis=-1) & (out != 0).all(axis=-1)]
        numpy.testing.assert_array_equal(own, x[:length])


def test_without_training_there_is_no_fill_dropout():
    resize = {"class": "resize", "factor": 2, "axis": "T", "kind": "fill", "fill_dropout": 0.9, "from": "data"}
    net = {"resized": resize, "length": {"class": "length", "from": "resized"}}
    assert LayerNet(net).run(batch_of())["length"].tolist() == [2 * length for length in LENGTHS]


def test_negative_step_goes_backwards_in_each_sequence():
    slices = {"class": "slice", "axis": "T", "slice_start": -1, "slice_end": 0, "slice_step": -2, "from": "data"}
    result = LayerNet({"sliced": slices}).run(batch_of())
    for x, out, length in zip(batch_of()["data"], result["sliced"], LENGTHS, strict=True):
        expected = x[:length][-1:0:-2]
        numpy.testing.assert_array_equal(out[: len(expected)], expected)
        assert not out[len(expected) :].any()
