"""Options of loops with a subnetwork, and loops in each other."""

import numpy
import pytest

from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, construct, drawn, sequences, tf, valid, weights_for
from tests.tf.layers.rec.test_units import assert_close

UNITS = {
    "inside": {"s": {"class": "linear", "activation": "tanh", "n_out": 4, "from": ["data:source", "prev:s"]},
               "output": {"class": "copy", "from": "s"}},
    "moved out": {"s": {"class": "linear", "activation": "tanh", "n_out": 4, "from": "data:source"},
                  "output": {"class": "combine", "kind": "sub", "from": ["s", "prev:s"]}},
    "both": {"x": {"class": "linear", "activation": None, "n_out": 4, "from": "data:source"},
             "s": {"class": "combine", "kind": "mul", "from": ["x", "prev:s"], "initial_output": 1.0},
             "output": {"class": "activation", "activation": "sigmoid", "from": "s"}},
    "extern data": {"output": {"class": "combine", "kind": "sub", "from": ["data", "prev:output"]}},
    "unstacked": {"frame": {"class": "rec_unstack", "from": "base:data"},
                  "output": {"class": "combine", "kind": "sub", "from": ["frame", "prev:output"]}},
}  # fmt: skip


def loop(unit, **options):
    return {"output": {"class": "rec", "from": "data", "unit": unit, **options}}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", UNITS)
def test_backward_is_forward_on_reversed_sequences(name, optimize):
    data, lengths = sequences(n_batch=3, max_len=5)
    order = numpy.stack([[n - 1 - t if t < n else t for t in range(5)] for n in lengths])[..., None]
    forward = RecurrentNet(loop(UNITS[name])).run(numpy.take_along_axis(data, order, axis=1), lengths).output
    backward = RecurrentNet(loop(UNITS[name], direction=-1, optimize_move_layers_out=optimize)).run(data, lengths)
    assert_close(valid(backward.output, lengths), valid(numpy.take_along_axis(forward, order, axis=1), lengths))


def test_layers_of_a_backward_loop_are_in_the_order_of_the_source():
    data, lengths = sequences()
    unit = {"s": {"class": "copy", "from": "data:source", "is_output_layer": True},
            "output": {"class": "combine", "kind": "add", "from": ["s", "prev:output"]}}  # fmt: skip
    result = RecurrentNet(loop(unit, direction=-1), fetch=("output/s",)).run(data, lengths)
    assert_close(valid(result.out["output/s"], lengths), valid(data, lengths))


@pytest.mark.parametrize("name", ["inside", "moved out", "both"])
def test_unrolled_is_looped(name):
    data, lengths = sequences(n_batch=2, max_len=4)
    results, num_loops = [], []
    for unroll in (False, True):
        net_dict = {  # of each frame and its neighbours, as the number of frames has to be known
            "windows": {"class": "window", "window_size": 3, "from": "data"},
            "loop": {**loop(UNITS[name])["output"], "from": "windows", "axis": "stag:window", "unroll": unroll},
            "output": {"class": "reduce", "mode": "sum", "axis": "stag:window", "from": "loop"},
        }
        net = RecurrentNet(net_dict, with_grads=True, train=True)
        num_loops.append(sum(op.type in ("While", "StatelessWhile") for op in net.graph.get_operations()))
        results.append(net.run(data, lengths, weights=weights_for(lengths, 4)))
    assert num_loops[1] == 0
    assert (num_loops[0] > 0) is (name != "moved out")
    assert_close(valid(results[1].output, lengths), valid(results[0].output, lengths))
    assert_close(results[1].grads, results[0].grads, tol=1e-4)


@pytest.mark.parametrize("name", ["inside", "both"])
def test_with_a_largest_number_of_frames_unrolled_is_looped(name):
    data, lengths = sequences(n_batch=2, max_len=4)
    nets = [
        RecurrentNet(loop(UNITS[name], max_seq_len=5, unroll=unroll), with_grads=True, train=True)
        for unroll in (False, True)
    ]
    looped, unrolled = (net.run(data, lengths, weights=weights_for(lengths, 4)) for net in nets)
    assert not any("While" in op.type for op in nets[1].graph.get_operations())
    assert_close(valid(unrolled.output, lengths), valid(looped.output, lengths))
    assert_close(unrolled.grads, looped.grads, tol=1e-4)
    data, lengths = sequences(n_batch=1, max_len=6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more frames than max_seq_len=5"):
        nets[1].run(data, lengths, weights=weights_for(lengths, 6))


def test_without_back_prop_there_are_no_gradients_through_the_loop():
    data, lengths = sequences(n_batch=2, max_len=3)
    net = RecurrentNet(loop(UNITS["inside"], back_prop=False), train=True)
    with net.graph.as_default():
        (weights,) = [p for name, p in net.variables.items() if name.endswith("W")]
        assert tf.compat.v1.gradients(net.fetches["out"]["output"], [weights]) == [None]
    assert numpy.isfinite(net.run(data, lengths).output).all()


def test_a_loop_over_a_dim_of_known_size_needs_no_input():
    unit = {"output": {"class": "eval", "from": ["prev:output", "base:data:vec"], "eval": "source(0) + source(1)"}}
    net_dict = {"output": {"class": "rec", "from": [], "axis": Dim(4, name="steps"), "unit": unit}}
    vec = numpy.ones((3, 5), "float32")
    output = RecurrentNet(net_dict).run(*sequences(), vec=vec).output
    numpy.testing.assert_array_equal(output[0, :, 0], [1.0, 2.0, 3.0, 4.0])


def test_debug_prints_the_layers_of_each_step(capfd):
    data, _ = sequences(n_batch=1, max_len=2)
    RecurrentNet(loop(UNITS["inside"], debug=True)).run(data, [2])
    printed = [line.split(" :")[0] for line in capfd.readouterr().out.splitlines() if " :" in line]
    assert printed == ["output/s, step 0", "output/s, step 1"]


# Loops in loops, over another dim.

OTHER = {"other": {"class": "slice", "axis": "T", "slice_start": 1, "from": "data"}}


def sum_over_other(query, state):
    """:return: layers of a step: a loop inside of it, over another dim, whose frames depend on the step"""
    cell = {"class": "linear", "activation": "tanh", "n_out": 4, "from": ["data:source", "prev:s", *query]}
    inner = {"s": {**cell, **state}, "output": {"class": "copy", "from": "s"}}
    return {
        "q": {"class": "linear", "activation": None, "n_out": 4, "from": ["data:source", "prev:output"]},
        "inner": {"class": "rec", "from": "base:other", "unit": inner},
        "output": {"class": "reduce", "mode": "sum", "axis": "T", "from": "inner"},
    }


@pytest.mark.parametrize(
    ("query", "state"), [(["base:q"], {}), ([], {"initial_output": "base:q"})], ids=["step", "state"]
)
def test_a_loop_in_a_loop(query, state):
    data, lengths = sequences(n_batch=2, max_len=4)
    lengths[:] = [4, 3]
    net_dict = {**OTHER, **loop(sum_over_other(query, state))}
    result = RecurrentNet(net_dict, with_grads=True, train=True).run(data, lengths, weights=weights_for(lengths, 4))
    p = {name.removeprefix("output/rec/"): value for name, value in result.params.items()}
    for b, n in enumerate(lengths):
        before = numpy.zeros(4)
        for t in range(n):
            q = numpy.concatenate([data[b, t], before]) @ p["q/W"] + p["q/b"]
            s, total = (q if state else numpy.zeros(4)), numpy.zeros(4)
            for x in data[b, 1:n]:
                frame = numpy.concatenate([x, s, *([q] if query else [])])
                s = numpy.tanh(frame @ p["inner/rec/s/W"] + p["inner/rec/s/b"])
                total += s
            before = total
            assert_close(result.output[b, t], total, tol=1e-4)
    assert all(numpy.abs(grad).max() > 0 for grad in result.grads.values())


def test_a_loop_in_a_subnetwork_and_a_subnetwork_in_a_loop():
    data, lengths = sequences()
    whole = RecurrentNet(loop(UNITS["inside"])).run(data, lengths)
    sub = {"class": "subnetwork", "from": "data", "subnetwork": loop(UNITS["inside"])}
    in_sub = RecurrentNet({"output": sub}, fetch=("output",))
    in_sub.set_params({name: whole.params[name.removeprefix("output/")] for name in in_sub.variables})
    assert_close(in_sub.run(data, lengths).output, whole.output)
    layers = {"s": {**UNITS["inside"]["s"], "from": ["data", "prev:s"]}, "output": UNITS["inside"]["output"]}
    unit = {"sub": {"class": "subnetwork", "from": "data:source", "subnetwork": layers},
            "output": {"class": "copy", "from": "sub"}}  # fmt: skip
    in_loop = RecurrentNet(loop(unit))
    in_loop.set_params({name: whole.params[name.replace("sub/", "")] for name in in_loop.variables})
    assert_close(valid(in_loop.run(data, lengths).output, lengths), valid(whole.output, lengths))


@pytest.mark.parametrize("source", ["data:source", "prev:output"])
def test_frames_of_a_layer_in_a_subnetwork_in_a_loop(source):
    layers = {
        "h": {"class": "linear", "activation": "tanh", "from": "data", "n_out": 3, "is_output_layer": True},
        "output": {"class": "eval", "from": "h", "eval": "2 * source(0)"},
    }
    unit = {
        "sub": {"class": "subnetwork", "from": ["data:source", source], "subnetwork": layers},
        "output": {"class": "copy", "from": "sub"},
    }
    net_dict = {"output": {"class": "rec", "from": "data", "unit": unit}}
    data, lengths = sequences()
    out = RecurrentNet(net_dict, fetch=("output", "output/sub/h")).run(data, lengths).out
    numpy.testing.assert_array_equal(*(valid(x, lengths) for x in (out["output"], 2 * out["output/sub/h"])))


def test_losses_in_a_subnetwork_in_a_loop():
    data, lengths = sequences(n_batch=2, max_len=3)
    linear = {"class": "linear", "activation": None, "n_out": 1, "from": "data", "loss": "as_is"}
    layers = {"score": linear, "output": {"class": "copy", "from": "score"}}
    for sources in (["data:source"], ["data:source", "prev:output"]):
        unit = {"sub": {"class": "subnetwork", "from": sources, "subnetwork": layers},
                "output": {"class": "copy", "from": "sub"}}  # fmt: skip
        net = RecurrentNet(loop(unit), train=True)
        with net.graph.as_default():
            losses = net.net.get_losses_initialized()[0]
            assert list(losses) == ["output/sub/score"]
            net.fetches["out"]["loss"] = losses["output/sub/score"].get_loss_value()
        result = net.run(data, lengths)
        assert_close(result.out["loss"], valid(result.output, lengths).sum())


# What cannot be.

WHERE = "layer 'output' (class 'rec')"
NUMBER = {"dtype": "int32", "shape": (), "dim": None, "feature_dim_axis": None}
END = {
    "end": {"class": "compare", "from": "prev:n", "value": 3},
    "n": {"class": "eval", "from": "prev:n", "eval": "source(0) + 1", "out_type": NUMBER, "initial_output": 0},
    "output": {"class": "copy", "from": "n"},
}


@pytest.mark.parametrize(
    ("unit", "options", "message"),
    [
        (END, {"from": [], "max_seq_len": 3, "direction": -1}, "direction -1: the loop has to know its length"),
    ],
)
def test_error(unit, options, message):
    with tf.Graph().as_default(), pytest.raises(ConfigError) as info:
        construct(loop(unit, **options))
    assert str(info.value).startswith(f"{WHERE}: {message}"), str(info.value)
    assert len(str(info.value).splitlines()) <= 5


# The whole sequence that the loop goes over, in each of its frames: what comes of frame q and all frames x [T, F].
WHOLE_SEQUENCE = {
    "attention": (
        {
            "energy": {"class": "dot", "from": ["base:x", "data:source"], "reduce": "F"},
            "weights": {"class": "softmax_over_spatial", "from": "energy"},
            "output": {"class": "generic_attention", "weights": "weights", "base": "base:x"},
        },
        lambda q, x: numpy.exp(x @ q) @ x / numpy.exp(x @ q).sum(),
    ),
    "mean": (
        {"mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "base:x"},
         "output": {"class": "combine", "kind": "mul", "from": ["mean", "data:source"]}},
        lambda q, x: x.mean(axis=0) * q,
    ),
    "products": (
        {"all": {"class": "combine", "kind": "mul", "from": ["base:x", "data:source"]},
         "output": {"class": "reduce", "mode": "max", "axis": "T", "from": "all"}},
        lambda q, x: (x * q).max(axis=0),
    ),
    "loop": (
        {"sums": {"class": "rec", "from": "base:x", "unit": {
            "scaled": {"class": "combine", "kind": "mul", "from": ["data:source", "base:data:source"]},
            "output": {"class": "combine", "kind": "add", "from": ["scaled", "prev:output"]}}},
         "output": {"class": "reduce", "mode": "mean", "axis": "T", "from": "sums"}},
        lambda q, x: numpy.cumsum(x * q, axis=0).mean(axis=0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", WHOLE_SEQUENCE)
def test_a_frame_sees_all_frames_of_what_the_loop_goes_over(name, optimize):
    unit, reference = WHOLE_SEQUENCE[name]
    data, lengths = sequences(n_batch=3, max_len=5)
    net_dict = {
        "x": {"class": "copy", "from": "data"},
        **loop(unit, optimize_move_layers_out=optimize),
    }
    output = RecurrentNet(net_dict).run(data, lengths).output
    wanted = [reference(data[b, t], data[b, :n]) for b, n in enumerate(lengths) for t in range(n)]
    assert_close(valid(output, lengths), numpy.stack(wanted))


def test_all_frames_in_each_frame_have_a_dim_of_their_own():
    data, lengths = sequences(n_batch=2, max_len=4)
    unit = {
        "all": {"class": "combine", "kind": "mul", "from": ["base:x", "data:source"], "is_output_layer": True},
        "output": {"class": "copy", "from": "data:source"},
    }
    net_dict = {
        "x": {"class": "copy", "from": "data"},
        "loop": loop(unit)["output"],
        "output": {"class": "reduce", "mode": "sum", "axis": "spatial:1", "from": "loop/all"},
    }
    net = RecurrentNet(net_dict, fetch=("loop/all", "output"))
    time, _, other, _ = net.net.get_layer("loop/all").output.dims
    assert time != other
    out = net.run(data, lengths).out["loop/all"]
    assert_close(out[1, :2, :2], data[1, :2, None] * data[1, None, :2])


@pytest.mark.parametrize("direction", [1, -1])
def test_dims_of_a_layer_follow_from_its_initial_output(direction):
    unit = {
        "decayed": {"class": "eval", "from": "prev:decayed", "eval": "source(0) * 0.5", "initial_output": "base:start"},
        "output": {"class": "copy", "from": "decayed"},
    }
    data, lengths = sequences(n_batch=2, max_len=3)
    net_dict = {"start": {"class": "copy", "from": "data:vec"}, **loop(unit, direction=direction)}
    vec = numpy.ones((2, 5), "float32")
    output = RecurrentNet(net_dict).run(data, lengths, vec=vec).output
    assert_close(output[0], [[x] * 5 for x in ([0.5, 0.25, 0.125] if direction == 1 else [0.125, 0.25, 0.5])])


def test_a_loop_shares_all_parameters_of_another_one():
    data, lengths = sequences(n_batch=2, max_len=3)
    nested = {"class": "rec", "unit": "gru", "n_out": 4, "from": "s"}
    unit = {**UNITS["inside"], "output": nested}
    first = loop(unit)["output"]
    net = RecurrentNet(
        {"first": {**first, "is_output_layer": True}, "output": {**first, "reuse_params": "first"}},
        fetch=("output", "first"),
    )
    assert all(name.startswith("first/") for name in net.variables)
    out = net.run(data, lengths).out
    assert_close(out["output"], out["first"])


@pytest.mark.parametrize("optimize", [True, False])
def test_the_l2_norm_of_a_loop_is_that_of_all_its_parameters(optimize):
    net = RecurrentNet(loop(UNITS["both"], L2=0.5, optimize_move_layers_out=optimize), train=True)
    with net.graph.as_default():
        norm = net.session.run(net.net.get_total_constraints())
    numpy.testing.assert_allclose(norm, 0.5 * sum((x**2).sum() for x in net.params.values()), rtol=1e-5)


@pytest.mark.parametrize("options", [{"spatial_smoothing": 0.3}, {"darc1": 0.2}, {"L2": 0.1}], ids=str)
@pytest.mark.parametrize("is_in_subnetwork", [True, False])
def test_regularization_in_a_loop_is_that_outside(is_in_subnetwork, options):
    def constraints(net_dict):
        net = RecurrentNet(net_dict, train=True)
        with net.graph.as_default():
            total = net.net.get_total_constraints()
        data, lengths = sequences()
        feed = {net.extern["data"].raw_tensor: data, net.lengths: lengths, net.batch_size: len(data)}
        values = {name: drawn(name.rpartition("/")[2], x.shape) for name, x in net.params.items()}
        net.set_params(values)
        return net.session.run(total, feed_dict=feed)

    linear = {"class": "linear", "activation": "tanh", "n_out": 4, **options}
    if is_in_subnetwork:
        subnetwork = {"inner": {**linear, "from": "data"}, "output": {"class": "copy", "from": "inner"}}
        linear = {"class": "subnetwork", "subnetwork": subnetwork}
    outside = constraints({"layer": {**linear, "from": "data"}, "output": {"class": "copy", "from": "layer"}})
    unit = {"layer": {**linear, "from": "data:source"}, "output": {"class": "copy", "from": "layer"}}
    assert outside > 0
    for optimize in (True, False):
        inside = constraints(loop(unit, optimize_move_layers_out=optimize))
        numpy.testing.assert_allclose(inside, outside, rtol=1e-5)


@pytest.mark.parametrize("optimize", [True, False])
def test_steps_go_on_from_batch_to_batch(optimize):
    unit = {
        "position": {"class": "positional_encoding", "from": "data:source", "add_to_input": True},
        "step": {"class": "cast", "from": ":i", "dtype": "float32"},
        "output": {"class": "combine", "kind": "add", "from": ["position", "step"]},
    }
    data, _ = sequences(n_batch=2, max_len=6, n_in=4)
    options = {"optimize_move_layers_out": optimize}
    whole = RecurrentNet(loop(unit, **options), n_in=4).run(data, [6, 6]).output
    net = RecurrentNet(loop(unit, use_global_rec_step_offset=True, **options), n_in=4)
    with net.graph.as_default():
        net.fetches["count"] = net.net.get_post_control_dependencies()
        epoch_step = net.net.get_epoch_step()
    parts = [net.run(data[:, 3 * i : 3 * i + 3], [3, 3], feed={epoch_step: i}).output for i in range(2)]
    assert_close(numpy.concatenate(parts, axis=1), whole)
    assert_close(net.run(data[:, :3], [3, 3], feed={epoch_step: 0}).output, parts[0])


def test_steps_of_an_inner_loop_cannot_go_on():
    inner = {**loop(UNITS["inside"], use_global_rec_step_offset=True)["output"], "from": "base:data"}
    unit = {"inner": inner, "output": {"class": "reduce", "axis": "T", "mode": "sum", "from": "inner"}}
    with tf.Graph().as_default(), pytest.raises(ConfigError, match="only possible for a loop that is not inside"):
        construct(loop(unit, optimize_move_layers_out=False))


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("optimize", [True, False])
def test_the_output_has_the_frames_of_the_loop_also_if_all_are_the_same(optimize, direction):
    unit = {"output": {"class": "eval", "from": "base:data:vec", "eval": "source(0) * 2"}}
    net_dict = {
        **loop(unit, optimize_move_layers_out=optimize, direction=direction),
        "sum": {"class": "reduce", "mode": "sum", "axis": "T", "from": "output", "is_output_layer": True},
    }
    net = RecurrentNet(net_dict, fetch=("output", "sum"))
    data, lengths = sequences(n_batch=2, max_len=3)
    out = net.run(data, lengths, vec=numpy.ones((2, 5), "float32")).out
    assert net.net.get_layer("output").output.get_time_dim_tag() == net.extern["data"].get_time_dim_tag()
    assert out["output"].shape == (2, 3, 5)
    assert_close(out["sum"], [[2.0 * n] * 5 for n in lengths])


@pytest.mark.parametrize("optimize", [True, False])
def test_names_of_what_a_layer_begins_with_are_those_that_it_sees(optimize):
    """In a subnetwork of the time step, each "base:" is one network further out."""

    def layers(base):
        source = f"{base}data:source"
        initial = f"{base}base:start"
        return {
            "sum": {"class": "combine", "kind": "add", "from": [source, "prev:sum"], "initial_output": initial},
            "cell": {"class": "rnn_cell", "unit": "gru", "n_out": 3, "from": source, "initial_state": initial},
            "output": {"class": "combine", "kind": "add", "from": ["sum", "cell"]},
        }

    start = {"class": "linear", "activation": None, "n_out": 3, "from": "data:vec"}
    other = {"class": "constant", "value": 9.0}  # of the same name, in the loop
    units = [
        {**layers(""), "start": other},
        {
            "all": {"class": "subnetwork", "from": [], "subnetwork": layers("base:")},
            "output": {"class": "copy", "from": "all"},
            "start": other,
        },
    ]
    data, lengths = sequences(n_batch=2, max_len=3)
    outputs = []
    for unit in units:
        net = RecurrentNet({"start": start, **loop(unit, optimize_move_layers_out=optimize)})
        drawn_for = {name: name.replace("/all/", "/") for name in net.variables}
        net.set_params({name: drawn(of, tuple(net.variables[name].shape)) for name, of in drawn_for.items()})
        outputs.append(net.run(data, lengths, vec=numpy.ones((2, 5), "float32")).output)
    assert_close(*outputs)
