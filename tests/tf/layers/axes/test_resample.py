"""Examples of `ResizeLayer` and `SliceLayer`."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, construct


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


@pytest.mark.parametrize("kind", ["linear", "cubic"])
@pytest.mark.parametrize("factor", [2, 3, 5])
def test_interpolation_is_that_of_tensorflow(kind, factor):
    """As `tf.compat.v1.image.resize`, for which a sequence is an image of one column."""
    batch = batch_of((5, 5), padding={"float32": 0, "int32": 0})
    resize = {"class": "resize", "factor": factor, "axis": "T", "kind": kind, "from": "data"}
    result = LayerNet({"resized": resize}).run(batch, (5, 5))["resized"]
    method = {"linear": tf.compat.v1.image.ResizeMethod.BILINEAR, "cubic": tf.compat.v1.image.ResizeMethod.BICUBIC}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        image = tf.constant(batch["data"])[:, :, None]
        expected = session.run(tf.compat.v1.image.resize_images(image, (5 * factor, 1), method=method[kind]))
    numpy.testing.assert_allclose(result, expected[:, :, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("desc", "words"),
    [
        ({"class": "repeat", "repetitions": -1}, "option 'repetitions': -1. Possible: from 0 on."),
        ({"class": "resize", "factor": 0, "axis": "T"}, "option 'factor': 0. Possible: from 1 on."),
    ],
)
def test_numbers_that_are_too_small(desc, words):
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"output": {**desc, "from": "data"}})
    assert str(info.value) == f"layer 'output' (class '{desc['class']}'): {words}"


SHORTER = {"class": "shift_axis", "axis": "T", "amount": -1, "from": "data"}
AFTER_SHIFT = {
    "linear": {"class": "linear", "n_out": 3, "activation": "tanh", "from": "shifted"},
    "mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "shifted"},
    "attention": {"class": "self_attention", "num_heads": 1, "total_key_dim": 2, "n_out": 2, "from": "shifted"},
    "conv": {"class": "conv", "filter_size": (3,), "padding": "valid", "n_out": 2, "from": "shifted"},
    "chunks": {"class": "split_dims", "axis": "T", "dims": (-1, 2), "from": "shifted"},
    "lstm": {"class": "rec", "unit": "lstm", "direction": -1, "n_out": 3, "from": "shifted"},
    "loop": {"class": "rec", "unit": {"output": {"class": "cumsum", "from": "data:source"}}, "from": "shifted"},
    "flat": {"class": "flatten_batch", "from": "shifted"},
    "more": {"class": "postfix_in_time", "postfix": 2.0, "from": "shifted"},
    "softmax": {"class": "softmax_over_spatial", "from": "shifted"},
}


def test_axis_that_is_longer_than_its_sequences_changes_none_of_their_frames():
    lengths = {f"length of {name}": {"class": "length", "from": name} for name in ("shifted", "conv", "chunks", "more")}
    nets = [LayerNet({"shifted": shift, **AFTER_SHIFT, **lengths}) for shift in (SHORTER, {**SHORTER, "pad": False})]
    with nets[0].graph.as_default():
        values = nets[0].net.get_param_values_dict(nets[0].session)
    with nets[1].graph.as_default():
        nets[1].net.set_param_values_by_dict(values, session=nets[1].session)
    longer, exact = (net.run(batch_of()) for net in nets)
    assert longer["shifted"].shape[1] == exact["shifted"].shape[1] + 1 == max(LENGTHS)
    assert longer["length of shifted"].tolist() == [length - 1 for length in LENGTHS]
    for name, expected in exact.items():
        both = longer[name], expected
        if name not in ("mean", "flat") and not name.startswith("length"):
            frames = exact.get(f"length of {name}", exact["length of shifted"])
            both = tuple(numpy.concatenate([x[:size] for x, size in zip(out, frames, strict=True)]) for out in both)
        numpy.testing.assert_allclose(*both, rtol=1e-4, err_msg=name)
