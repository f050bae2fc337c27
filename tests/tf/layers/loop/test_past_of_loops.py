"""Layers that look at all frames of a loop so far, and at positions in it."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from returnn.tensor import Dim
from returnn.tensor.dim import single_step_dim
from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, valid
from tests.tf.layers.rec.test_units import assert_close


def in_loop(unit: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"output": {"class": "rec", "from": "data", "unit": unit, **options}}


def attention_to_past(query: str) -> dict[str, Any]:
    past = Dim(None, name="past")
    auto = {"var1": "auto", "var2": "auto"}
    return {
        "past": {"class": "cum_concat", "from": "data:source", "out_spatial_dim": past},
        "query": {"class": "linear", "activation": None, "from": query, "n_out": 3},
        "energy": {"class": "dot", "from": ["query", "past"], "red1": "F", "red2": "F", **auto},
        "weights": {"class": "softmax_over_spatial", "axis": past, "from": "energy"},
        "output": {"class": "dot", "from": ["weights", "past"], "reduce": past, "n_out": 3},
    }


def self_attention(**options: Any) -> dict[str, Any]:
    options = {"num_heads": 2, "total_key_dim": 4, "n_out": 6, "attention_left_only": True, **options}
    return {"class": "self_attention", **options}


UNITS = {
    "positional_encoding": lambda: {
        "output": {"class": "positional_encoding", "from": "data:source", "add_to_input": True}
    },
    "cum_concat": lambda: attention_to_past("data:source"),
    "cum_concat read by the loop": lambda: attention_to_past("prev:output"),
    "self_attention": lambda: {"output": self_attention(**{"from": "data:source"})},
    "self_attention with key_shift": lambda: {
        "shift": {"class": "relative_positional_encoding", "from": "data:source", "n_out": 2, "clipping": 2},
        "output": self_attention(**{"from": "data:source", "key_shift": "shift"}),
    },
    "key_shift read by the loop": lambda: {
        "shift": {"class": "relative_positional_encoding", "from": "data:source", "n_out": 2, "clipping": 2},
        "x": {"class": "linear", "activation": None, "from": ["data:source", "prev:output"], "n_out": 3},
        "output": self_attention(**{"from": "x", "key_shift": "shift"}),
    },
}


@pytest.mark.parametrize("name", UNITS)
def test_moving_layers_out_of_the_loop_changes_nothing(name):
    data, lengths = sequences()
    inside, outside = (
        RecurrentNet(in_loop(UNITS[name](), optimize_move_layers_out=move)).run(data, lengths).output
        for move in (False, True)
    )
    numpy.testing.assert_allclose(valid(inside, lengths), valid(outside, lengths), atol=1e-5)


@pytest.mark.parametrize("name", UNITS)
def test_other_sequences_and_padding_do_not_matter(name):
    data, lengths = sequences()
    net = RecurrentNet(in_loop(UNITS[name]()))
    output = net.run(data, lengths).output
    for b, length in enumerate(lengths):
        alone = net.run(data[b : b + 1, :length], lengths[b : b + 1]).output
        numpy.testing.assert_allclose(output[b, :length], alone[0], atol=1e-5)


def test_self_attention_to_all_frames_sees_the_future():
    data, lengths = sequences(n_batch=1)
    net = RecurrentNet({"output": self_attention(**{"from": "data", "attention_left_only": False})})
    before = net.run(data, lengths).output
    data[0, -1] += 1
    assert (abs(net.run(data, lengths).output - before)[0, 0] > 1e-4).all()


def test_self_attention_on_labels_is_the_one_on_their_one_hot_vectors():
    data, lengths = sequences()
    out_type = {"sparse": True, "dim": 7, "shape": (None,), "dtype": "int32"}
    code = "tf.cast(tf.abs(3.0 * source(0)[:, :, 0]), tf.int32) % 7"
    labels = {"class": "eval", "from": "data", "eval": code, "out_type": out_type}
    one_hot = {"class": "eval", "from": "labels", "eval": "tf.one_hot(source(0), 7)",
               "out_type": {"sparse": False, "dim": 7, "shape": (None, 7), "dtype": "float32"}}  # fmt: skip
    nets = [
        RecurrentNet({"labels": labels, "vectors": one_hot, "output": self_attention(**{"from": name})})
        for name in ("labels", "vectors")
    ]
    sparse, dense = (valid(net.run(data, lengths).output, lengths) for net in nets)
    numpy.testing.assert_allclose(sparse, dense, atol=1e-5)


def test_relative_positions_are_those_of_the_frames():
    encoding = {"class": "relative_positional_encoding", "from": "data", "n_out": 4, "clipping": 2}
    net = RecurrentNet({"output": {"class": "copy", "from": "data"}, "encoding": {**encoding, "is_output_layer": True}})
    data, lengths = sequences(n_batch=1, max_len=5)
    feed = {net.extern["data"].raw_tensor: data, net.lengths: lengths}
    out = net.session.run(net.net.get_layer("encoding").output.raw_tensor, feed_dict=feed)
    matrix = net.params["encoding/encoding_matrix"]
    assert out.shape == (5, 5, 4)
    numpy.testing.assert_array_equal(out[1, 2], matrix[3])
    numpy.testing.assert_array_equal(out[4, 0], matrix[0])


@pytest.mark.parametrize("source", ["data:source", "x"])
def test_distances_of_one_query_to_given_keys(source):
    """`None` and `single_step_dim` both mean a single query."""
    results = []
    for query in (None, single_step_dim):
        past = Dim(None, name="past")
        encoding = {"class": "relative_positional_encoding", "from": "past", "n_out": 3, "query_offset": 2}
        unit = {
            "past": {"class": "cum_concat", "from": source, "out_spatial_dim": past},
            "encoding": {**encoding, "query_spatial_dim": query, "key_value_spatial_dim": past, "clipping": 1},
            "sum": {"class": "reduce", "mode": "sum", "axis": past, "from": "encoding"},
            "x": {"class": "linear", "activation": None, "from": ["data:source", "prev:x"], "n_out": 3},
            "output": {"class": "copy", "from": ["x", "sum"]},
        }
        net = RecurrentNet(in_loop(unit))
        results.append((net.run(*sequences(n_batch=1, max_len=5)).output, net.params))
    matrix = results[0][1]["output/rec/encoding/encoding_matrix"]
    wanted = numpy.cumsum(matrix[[0, 0, 1, 2, 2]], axis=0)  # the distances are -2, -1, 0, 1, 2
    for output, _ in results:
        numpy.testing.assert_allclose(output[0, :, 3:], wanted, atol=1e-6)


@pytest.mark.parametrize("source", ["data:source", "x"])
@pytest.mark.parametrize("query", [None, single_step_dim])
def test_a_single_query_is_the_frame_of_the_step(source, query):
    """As without any dims. Unless `query_offset` says another number."""
    results = []
    for dims in ({}, {"query_spatial_dim": query}):
        past = Dim(None, name="past")
        given = {**dims, "key_value_spatial_dim": past} if dims else {}
        reduced = {"class": "reduce", "mode": "sum", "axis": past if dims else "stag:frames so far"}
        unit = {
            "past": {"class": "cum_concat", "from": source, "out_spatial_dim": past},
            "encoding": {"class": "relative_positional_encoding", "from": "past" if dims else source, "n_out": 3}
            | {"clipping": 2, **given},
            "sum": {**reduced, "from": "encoding"},
            "flat": {"class": "squeeze", "axis": "auto", "from": "sum"}
            if not dims
            else {"class": "copy", "from": "sum"},
            "x": {"class": "linear", "activation": None, "from": ["data:source", "prev:x"], "n_out": 3},
            "output": {"class": "copy", "from": ["x", "flat"]},
        }
        net = RecurrentNet(in_loop(unit))
        results.append((net.run(*sequences(n_batch=1, max_len=5)).output, net.params))
    matrix = results[1][1]["output/rec/encoding/encoding_matrix"]
    wanted = numpy.cumsum(matrix[[2, 1, 0, 0, 0]], axis=0)  # the distances are 0, -1, -2, -3, -4
    for output, _ in results:
        numpy.testing.assert_allclose(output[0, :, 3:], wanted, atol=1e-6)


@pytest.mark.parametrize("source", ["data:source", "x"])
@pytest.mark.parametrize(
    "layer",
    [
        {"class": "cumsum"},
        {"class": "window", "window_size": 3, "window_right": 0},
        {"class": "positional_encoding", "add_to_input": True},
    ],
    ids=lambda layer: layer["class"],
)
def test_a_single_step_is_one_of_the_loop_around(layer, source):
    data, lengths = sequences()
    outputs = []
    for axis in ("T", single_step_dim):
        unit = {
            "x": {"class": "linear", "activation": None, "from": ["data:source", "prev:x"], "n_out": 3},
            "y": {**layer, "from": source, "axis": axis},
            "sum": {"class": "reduce", "mode": "sum", "axis": "static", "from": "y"},
            "output": {"class": "eval", "from": ["x", "sum"], "eval": "source(0) + source(1)"},
        }
        outputs.append(valid(RecurrentNet(in_loop(unit)).run(data, lengths).output, lengths))
    numpy.testing.assert_array_equal(*outputs)


def one_frame():
    return numpy.array([1], "int32")


def test_state_var_lengths_count_also_where_nothing_in_the_loop_needs_them():
    data, lengths = sequences(n_batch=1)
    outputs = [
        RecurrentNet(in_loop({"output": self_attention(**{"from": "data:source", **options})}))
        .run(data, lengths)
        .output
        for options in ({}, {"state_var_lengths": lambda: numpy.array([1], "int32")})
    ]
    numpy.testing.assert_allclose(outputs[0][0, :2], outputs[1][0, :2], atol=1e-6)
    assert abs(outputs[0] - outputs[1])[0, 2:].min() > 0


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ({"output": self_attention(**{"from": "data:source", "attention_left_only": False})}, "attention_left_only"),
        ({"output": self_attention(**{"from": "data:source", "n_out": 7})}, "option 'n_out': 7 cannot be divided"),
        ({"output": self_attention(**{"from": "data:source", "initial_state": "var"})}, "Possible: a number, zeros"),
    ],
)
def test_what_self_attention_cannot_do_is_said(unit, text):
    with pytest.raises(ConfigError, match=text):
        RecurrentNet(in_loop(unit))


def test_cum_concat_needs_a_loop():
    with pytest.raises(ConfigError, match="has to be inside of one"):
        RecurrentNet({"output": {"class": "cum_concat", "from": "data", "out_spatial_dim": Dim(None, name="past")}})


@pytest.mark.parametrize("feedback", [[], ["prev:output"]], ids=["moved", "inside"])
def test_the_frame_of_the_source_before(feedback):
    unit = {
        "before": {"class": "copy", "from": "prev:data:source", "is_output_layer": True},
        "output": {"class": "linear", "activation": None, "from": ["before", *feedback], "n_out": 3},
    }
    data, lengths = sequences()
    net = RecurrentNet(in_loop(unit, optimize_move_layers_out=not feedback), fetch=("output/before",))
    before = net.run(data, lengths).out["output/before"]
    numpy.testing.assert_array_equal(before[:, 0], 0)
    numpy.testing.assert_array_equal(before[:, 1:], data[:, :-1])


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_two_loops_may_have_the_same_dim_for_their_past(first, second):
    past = Dim(None, name="past")
    unit = {
        "past": {"class": "cum_concat", "from": "data:source", "out_spatial_dim": past},
        "energy": {"class": "dot", "from": ["data:source", "past"], "reduce": "F"},
        "weights": {"class": "softmax_over_spatial", "from": "energy", "axis": past},
        "output": {"class": "dot", "from": ["weights", "past"], "reduce": past},
    }
    net_dict = {
        "first": {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": first},
        "half": {"class": "pool", "mode": "max", "pool_size": [2], "padding": "valid", "from": "first"},
        "output": {"class": "rec", "from": "half", "unit": unit, "optimize_move_layers_out": second},
    }
    data, lengths = sequences(n_batch=2, max_len=6)
    output = RecurrentNet(net_dict).run(data, lengths).output
    for b, n in enumerate(lengths):
        frames = attended(data[b, :n])
        halves = frames[: n // 2 * 2].reshape(n // 2, 2, -1).max(axis=1)
        assert_close(output[b, : n // 2], attended(halves))


def attended(x):
    """:return: [T, F]: self-attention of each frame over those up to it"""
    energies = numpy.where(numpy.tri(len(x), dtype=bool), x @ x.T, -numpy.inf)
    weights = numpy.exp(energies - energies.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ x
