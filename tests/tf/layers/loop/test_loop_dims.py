"""How the dims of a time step become known that needs its own past."""

import numpy
import pytest

from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences


def linear(source, **options):
    return {"class": "linear", "activation": "tanh", "n_out": 4, "from": source, **options}


def loop(unit):
    return {"output": {"class": "rec", "from": "data", "unit": unit}}


SAME = {
    "activation": {"class": "activation", "activation": "tanh", "from": "hidden"},
    "copy of copy": {"class": "copy", "from": "copied"},
    "sum": {"class": "combine", "kind": "add", "from": ["hidden", "second"]},
    "expression": {"class": "eval", "eval": "source(0) * 2.", "from": "hidden"},
}


@pytest.mark.parametrize("output", SAME.values(), ids=SAME)
def test_a_layer_of_which_only_the_sources_have_a_size(output):
    unit = {
        "hidden": linear(["prev:output"], activation="sigmoid"),
        "second": linear(["hidden"]),
        "copied": {"class": "copy", "from": "hidden"},
        "output": output,
    }
    data, lengths = sequences()
    with_size = {**unit, "output": {**output, "n_out": 4}}
    results = [RecurrentNet(loop(layers)).run(data, lengths).output for layers in (unit, with_size)]
    numpy.testing.assert_array_equal(*results)
    assert results[0].std() > 0


def test_dims_that_differ_from_those_of_the_sources():
    output = {"class": "reduce_out", "mode": "max", "num_pieces": 2, "from": "hidden"}
    unit = {"hidden": linear("prev:output"), "output": output}
    data, lengths = sequences()
    net = RecurrentNet(loop(unit))
    assert net.variables["output/rec/hidden/W"].shape.as_list() == [2, 4]
    assert net.run(data, lengths).output.shape[2:] == (2,)


@pytest.mark.parametrize(
    ("code", "out_type", "shape"),
    [
        ("source(0)[..., 0]", {"shape": (), "dim": None}, ()),
        ("source(0)[..., :2]", {"shape": (2,), "dim": 2}, (2,)),
        ("tf.cast(source(0)[..., 0] > 0., tf.int32)", {"shape": (), "sparse": True, "dim": 2, "dtype": "int32"}, ()),
        ("source(0)[..., None]", {"shape": (3, 1), "dim": 1, "time_dim_axis": None}, (3, 1)),
        ("source(0) > 0.", {"dtype": "bool"}, (3,)),
    ],
)
def test_out_type_of_code_in_a_loop_is_about_a_frame(code, out_type, shape):
    data, lengths = sequences()
    unit = {"output": {"class": "eval", "from": "data:source", "eval": code, "out_type": out_type}}
    inside, outside = (
        RecurrentNet({"output": {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": optimize}})
        .run(data, lengths)
        .output
        for optimize in (False, True)
    )
    assert inside.shape == (3, 6, *shape)
    for b, length in enumerate(lengths):
        numpy.testing.assert_array_equal(inside[b, :length], outside[b, :length])
