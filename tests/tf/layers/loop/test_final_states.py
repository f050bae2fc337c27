"""States of the layers of a loop that the outside sees, and states that are kept from batch to batch."""

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, construct, sequences, tf
from tests.tf.layers.rec.test_rec_layer import last
from tests.tf.layers.rec.test_units import assert_close

CELL = {"class": "rnn_cell", "unit": "lstmblock", "n_out": 4}
PLACES = {"inside": ["data:source", "prev:s"], "moved out": ["data:source"]}


def loop(unit, **options):
    return {"class": "rec", "from": "data", "unit": unit, **options}


def cell_loop(sources, **options):
    return loop({"s": {**CELL, "from": sources, **options}, "output": {"class": "copy", "from": "s"}})


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("direction", [1, -1])
def test_last_state_of_a_layer_in_a_loop(place, direction):
    data, lengths = sequences(n_batch=4, max_len=5)
    lengths[3] = 0
    desc = {**cell_loop(PLACES[place], initial_state=0.25), "direction": direction}
    net_dict = {"loop": desc, "output": {"class": "copy", "from": "loop"}, "c": last("loop/s", key="c"),
                "h": last("loop/s", key="h")}  # fmt: skip
    out = RecurrentNet(net_dict, fetch=("output", "c", "h")).run(data, lengths).out
    for b, n in enumerate(lengths[:3]):
        assert_close(out["h"][b], out["output"][b, n - 1 if direction == 1 else 0])
    numpy.testing.assert_array_equal(out["h"][3], 0.25)
    numpy.testing.assert_array_equal(out["c"][3], 0.25)
    assert not numpy.allclose(out["c"], out["h"])


def test_state_of_a_loop_is_the_one_of_its_output():
    data, lengths = sequences()
    unit = {"output": {**CELL, "from": ["data:source", "prev:output"]}}
    net_dict = {"loop": loop(unit), "output": last("loop"), "same": last("loop/output")}
    out = RecurrentNet(net_dict, fetch=("output", "same")).run(data, lengths).out
    assert out["output"].shape == (3, 8)
    numpy.testing.assert_array_equal(out["output"], out["same"])


@pytest.mark.parametrize("place", PLACES)
def test_a_layer_goes_on_from_the_last_state_of_a_loop(place):
    data, _ = sequences(n_batch=2, max_len=6)
    whole = RecurrentNet({"output": cell_loop(PLACES[place])}).run(data, [6, 6])
    parts = {"begin": {"slice_end": 2}, "end": {"slice_start": 2}}
    net_dict = {
        **{name: {"class": "slice", "axis": "T", "from": "data", **opts} for name, opts in parts.items()},
        "loop": {**cell_loop(PLACES[place]), "from": "begin"},
        "output": {**cell_loop(PLACES[place], initial_state="base:loop/s"), "from": "end"},
    }
    net = RecurrentNet(net_dict)
    net.set_params({name: whole.params[name.replace("loop/", "output/")] for name in net.variables})
    assert_close(net.run(data, [6, 6]).output, whole.output[:, 2:])


def test_a_loop_without_state_at_its_output_says_so():
    with tf.Graph().as_default(), pytest.raises(ConfigError) as info:
        construct({"loop": cell_loop(["data:source", "prev:s"]), "output": last("loop")})
    assert str(info.value) == "layer 'loop/output' (class 'copy'): has no hidden state."


KEPT = {
    "cell inside": lambda word: cell_loop(PLACES["inside"], **word("initial_state")),
    "cell moved out": lambda word: cell_loop(PLACES["moved out"], **word("initial_state")),
    "one part": lambda word: cell_loop(PLACES["inside"], initial_state={"c": word("c")["c"], "h": 0}),
    "previous output": lambda word: loop({
        "s": {"class": "linear", "activation": "tanh", "n_out": 4, "from": ["data:source", "prev:s"],
              **word("initial_output")},
        "output": {"class": "copy", "from": "s"},
    }),
    "previous output, moved out": lambda word: loop({
        "s": {"class": "linear", "activation": "tanh", "n_out": 4, "from": ["data:source"], **word("initial_output")},
        "output": {"class": "combine", "kind": "sub", "from": ["s", "prev:s"]},
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in KEPT if name != "one part"])
@pytest.mark.parametrize("word", ["keep_over_epoch", "keep_over_epoch_no_init"])
def test_a_loop_goes_on_in_the_next_batch(name, word):
    data, _ = sequences(n_batch=2, max_len=6)
    whole = RecurrentNet({"output": KEPT[name](lambda option: {})}).run(data, [6, 6]).output
    net = RecurrentNet({"output": KEPT[name](lambda option: {option: word})})
    with net.graph.as_default():
        net.fetches["keep"] = net.net.get_post_control_dependencies()
        epoch_step = net.net.get_epoch_step()
    parts = [net.run(data[:, 3 * i : 3 * i + 3], [3, 3], feed={epoch_step: i}).output for i in range(2)]
    assert_close(numpy.concatenate(parts, axis=1), whole)
    again = net.run(data[:, :3], [3, 3], feed={epoch_step: 0}).output
    assert numpy.allclose(again, parts[0]) is (word == "keep_over_epoch")
    assert_close(net.run(data[:1], [6], feed={epoch_step: 5}).output, whole[:1])


def test_one_part_of_a_state_can_be_kept():
    data, _ = sequences(n_batch=2, max_len=3)
    net = RecurrentNet({"output": KEPT["one part"](lambda option: {option: "keep_over_epoch_no_init"})})
    with net.graph.as_default():
        net.fetches["keep"] = net.net.get_post_control_dependencies()
    first, second = (net.run(data, [3, 3]).output for _ in range(2))
    assert not numpy.allclose(first, second)


@pytest.mark.parametrize("place", PLACES)
def test_state_of_a_subnetwork_is_the_one_of_its_output(place):
    data, lengths = sequences()
    block = {
        "class": "subnetwork",
        "from": PLACES[place],
        "subnetwork": {"output": {**CELL, "from": "data", "name_scope": "/cell"}},
    }
    state = {"class": "get_last_hidden_state", "from": "prev:s", "key": "c", "is_output_layer": True}
    cell = {**CELL, "from": PLACES[place], "name_scope": "/cell"}
    found, wanted = (
        RecurrentNet(
            {"loop": loop({"s": s, "c": state, "output": {"class": "copy", "from": "s"}}), "output": last("loop/s")},
            fetch=("output", "loop/c"),
        )
        .run(data, lengths)
        .out
        for s in (block, cell)
    )
    for name, value in wanted.items():
        assert_close(found[name], value)
