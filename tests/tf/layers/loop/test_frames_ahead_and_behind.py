"""Layers that look at frames behind or before their own one, outside of the loop that they stand in."""

import numpy
import pytest

from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LayerNet, batch_of

BATCH = batch_of(padding={"float32": 0.0, "int32": 0})

LOOKING_AHEAD = {
    "window": {"x": {"class": "window", "window_size": 3, "window_right": 1, "from": "data:source"}},
    "window of states": {"x": {"class": "window", "window_size": 3, "window_left": 0, "from": "pre"}},
    "cumsum": {"x": {"class": "cumsum", "reverse": True, "from": "pre"}},
}


@pytest.mark.parametrize("name", LOOKING_AHEAD)
@pytest.mark.parametrize("is_used_inside", [True, False])
def test_what_looks_ahead_is_outside_whatever_the_option_says(name, is_used_inside):
    linear = {"class": "linear", "activation": "tanh", "forward_weights_init": 0.3}
    of_layer = {"class": "merge_dims", "axes": ["stag:window", "F"], "from": "x"}
    layers = {
        "pre": {**linear, "n_out": 3, "from": ["data:source"] if is_used_inside else ["data:source", "prev:pre"]},
        **LOOKING_AHEAD[name],
        "flat": {"class": "copy", "from": "x"} if name == "cumsum" else of_layer,
        "y": {**linear, "n_out": 2, "from": ["flat", "prev:y"] if is_used_inside else "flat"},
        "output": {"class": "copy", "from": "y"},
    }
    loops = {
        str(optimize): {"class": "rec", "unit": layers, "from": "data", "optimize_move_layers_out": optimize}
        for optimize in (True, False)
    }
    found = LayerNet(loops).run(BATCH)
    assert found["True"].any()
    numpy.testing.assert_allclose(found["False"], found["True"], rtol=1e-4, atol=1e-6)


def test_frames_with_their_past_are_known_outside():
    """Each has as many entries as there are frames, with zeros and a mask where later frames have more."""
    past = Dim(None, name="past")
    unit = {
        "x": {"class": "linear", "activation": "tanh", "n_out": 3, "from": ["data:source", "prev:mean"]},
        "with_past": {"class": "cum_concat", "from": "x", "out_spatial_dim": past},
        "y": {"class": "linear", "activation": "tanh", "n_out": 2, "from": ["with_past", "prev:mean"]},
        "mean": {"class": "reduce", "mode": "mean", "axis": past, "from": "y"},
        "output": {"class": "copy", "from": "mean"},
    }
    unit["x"]["is_output_layer"] = unit["with_past"]["is_output_layer"] = unit["y"]["is_output_layer"] = True
    net_dict = {"loop": {"class": "rec", "unit": unit, "from": "data"}}
    net_dict["mean"] = {"class": "reduce", "mode": "mean", "axis": past, "from": "loop/y"}
    net_dict.update({name: {"class": "copy", "from": f"loop/{name}"} for name in ("x", "with_past")})
    found = LayerNet(net_dict, fetch=("loop", "mean", "x", "with_past")).run(BATCH)
    numpy.testing.assert_allclose(found["mean"], found["loop"], rtol=1e-5, atol=1e-6)
    with_past = numpy.moveaxis(found["with_past"], -1, 2)  # (B, T, past, F)
    for t in range(3):  # frames that all sequences have
        numpy.testing.assert_array_equal(with_past[:, t, : t + 1], found["x"][:, : t + 1])
        assert not with_past[:, t, t + 1 :].any()


def test_frames_with_their_past_are_not_known_where_a_loop_ends_by_itself():
    past = Dim(None, name="past")
    unit = {
        "x": {"class": "linear", "n_out": 3, "activation": "tanh", "from": "prev:output"},
        "with_past": {"class": "cum_concat", "from": "x", "out_spatial_dim": past, "is_output_layer": True},
        "output": {"class": "reduce", "mode": "mean", "axis": past, "from": "with_past"},
        "end": {"class": "compare", "kind": "greater", "from": ":i", "value": 2},
    }
    with pytest.raises(ConfigError, match=r"layer 'loop/with_past': has .*past.*, which grows in each step"):
        LayerNet({"loop": {"class": "rec", "unit": unit, "from": [], "max_seq_len": 5}})
