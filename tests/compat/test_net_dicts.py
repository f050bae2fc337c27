"""Layer classes and options that net dicts had once."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.compat import net_dicts
from returnn.tf.layers.options.past import PAST
from returnn.tf.layers.options.registry import get_layer_class, get_layer_class_name_list
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, construct


def error_of(layer):
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"output": {"from": "data", **layer}})
    return str(info.value)


def test_sequences_are_reversed():
    batch = batch_of()
    out = LayerNet({"back": {"class": "reverse_sequence", "from": "data"}}).run(batch)["back"]
    for row, x, length in zip(out, batch["data"], LENGTHS, strict=True):
        numpy.testing.assert_array_equal(row[:length], x[:length][::-1])


def test_frames_are_repeated():
    batch = batch_of()
    out = LayerNet({"up": {"class": "upsample", "from": "data", "axis": "T", "factor": 2}}).run(batch)["up"]
    numpy.testing.assert_array_equal(out[0, : 2 * LENGTHS[0]], numpy.repeat(batch["data"][0, : LENGTHS[0]], 2, axis=0))
    assert "option 'time_like_last_source' is no more.\n  Behind the layer, write 'reinterpret_data'" in error_of(
        {"class": "upsample", "factor": 2, "time_like_last_source": True}
    )


@pytest.mark.parametrize("option", ["fused", "fused_bn"])
def test_how_batch_norm_is_computed_has_no_effect(option):
    norm = {"class": "batch_norm", "from": "data", "masked_time": True}
    result = LayerNet({"old": {**norm, option: True}, "new": norm}).run(batch_of())
    numpy.testing.assert_array_equal(result["old"], result["new"])


@pytest.mark.parametrize("name", net_dicts._INSTEAD_OF_CLASS)
def test_a_class_that_is_no_more(name):
    message = error_of({"class": name})
    assert f"the layer class {name!r} is no more.\n  Instead: " in message
    assert name not in get_layer_class_name_list()


@pytest.mark.parametrize(("layer_class", "option"), net_dicts._INSTEAD_OF_OPTION)
def test_an_option_that_is_no_more(layer_class, option):
    needed = {"rec": {"unit": "lstm", "n_out": 2}, "unmask": {"mask": "data"}}.get(layer_class, {"n_out": 2})
    message = error_of({"class": layer_class, **needed, option: True})
    assert f"the option {option!r} is no more.\n  Instead: " in message


def test_what_is_written_instead_exists():
    for name in PAST.renamed_classes.values():
        assert get_layer_class(name).layer_class == name
    words = [word for text in PAST.instead_of_class.values() for word in text.split("'")[1::2]]
    known = {*get_layer_class_name_list(), "pool_size", "mode", "set_dim_tags", "sampling_loss", "nativelstm2"}
    assert set(words) <= known
