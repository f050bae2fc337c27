import numpy
import pytest

from returnn.tf.layers.rec.units.base import RecUnit
from returnn.tf.util.data import FeatureDim
from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, construct, drawn, sequences, tf


def rec(unit="nativelstm2", **options):
    return {"class": "rec", "unit": unit, "n_out": 4, "from": "data", **options}


def vec_layer(n_out=4, **options):
    return {"class": "linear", "activation": "tanh", "from": "data:vec", "n_out": n_out, **options}


def last(source="output", **options):
    return {"class": "get_last_hidden_state", "from": source, "is_output_layer": True, **options}


# Dims.


@pytest.mark.parametrize("inner", [{"n_out": 4}, {"out_dim": FeatureDim("inner", 4)}], ids=["n_out", "out_dim"])
def test_out_dim_of_a_subnetwork_is_the_feature_dim_of_its_output(inner):
    outer = FeatureDim("outer", 4)
    unit = {"output": {"class": "linear", "activation": "tanh", "from": ["data:source", "prev:output"], **inner}}
    with tf.Graph().as_default():
        net = construct({"output": {"class": "rec", "from": "data", "unit": unit, "out_dim": outer}})
        assert net.get_layer("output").output.feature_dim is outer


def test_out_dim_of_a_subnetwork_with_sparse_output():
    labels = FeatureDim("labels", 3)
    unit = {"output": {"class": "reduce", "mode": "argmax", "axis": "F", "from": "data:source"}}
    with tf.Graph().as_default():
        net = construct({"output": {"class": "rec", "from": "data", "unit": unit, "out_dim": labels}})
        assert net.get_layer("output").output.sparse_dim is labels


# States.


@pytest.mark.parametrize("unit", ["nativelstm2", "gru", "nativelstm"])
@pytest.mark.parametrize("direction", [1, -1])
def test_last_state_is_the_one_at_the_end_of_each_sequence(unit, direction):
    data, lengths = sequences(n_batch=4, max_len=5)
    lengths[3] = 0
    key = {"nativelstm2": "h", "gru": "*", "nativelstm": "c"}[unit]
    net_dict = {"output": rec(unit, direction=direction), "state": last(key=key)}
    result = RecurrentNet(net_dict, fetch=("output", "state")).run(data, lengths)
    numpy.testing.assert_array_equal(result.out["state"][3], 0.0)
    if unit == "nativelstm":
        return  # its output is not its state
    for b, n in enumerate(lengths[:3]):
        end = n - 1 if direction == 1 else 0
        numpy.testing.assert_array_equal(result.out["state"][b], result.output[b, end])


def test_initial_state_of_another_layer_continues_its_sequence():
    data, _ = sequences(n_batch=2, max_len=6)
    whole = RecurrentNet({"output": rec()}).run(data, [6, 6])
    net = RecurrentNet({
        "begin": {"class": "slice", "axis": "T", "slice_end": 2, "from": "data"},
        "end": {"class": "slice", "axis": "T", "slice_start": 2, "from": "data"},
        "first": rec(**{"from": "begin"}, name_scope="output/rec"),
        "output": rec(**{"from": "end"}, initial_state="first", reuse_params="first"),
    })  # fmt: skip
    net.set_params({name: whole.params[name] for name in net.variables})
    numpy.testing.assert_allclose(net.run(data, [6, 6]).output, whole.output[:, 2:], rtol=1e-5, atol=1e-6)


def test_forms_of_initial_state_that_mean_the_same():
    data, lengths = sequences()
    vec = drawn("vec", (3, 5))
    ones = {"class": "eval", "from": "data:vec", "eval": "source(0)[:, :4] * 0. + 1.", "out_type": {"dim": 4}}
    results = [
        RecurrentNet({"c": vec_layer(), "layer_of_ones": ones, "output": rec(initial_state=form)}).run(
            data, lengths, vec=vec
        )
        for form in ({"c": "c", "h": 1.0}, ["c", 1], {"h": "ones", "c": "c"}, ("c", "layer_of_ones"))
    ]
    plain = RecurrentNet({"output": rec()}).run(data, lengths).output
    assert not numpy.allclose(plain, results[0].output)
    for result in results[1:]:
        numpy.testing.assert_array_equal(result.output, results[0].output)
    for zero in (0, 0.0, "zeros", None, {"c": 0, "h": "zeros"}):
        result = RecurrentNet({"output": rec(initial_state=zero)}).run(data, lengths)
        numpy.testing.assert_array_equal(result.output, plain)


def test_trained_initial_state():
    data, lengths = sequences()
    net = RecurrentNet({"output": rec(initial_state="var")}, with_grads=True)
    assert {name for name in net.variables if "initial" in name} == {"output/rec/initial_c", "output/rec/initial_h"}
    result = net.run(data, lengths, weights=numpy.ones((3, 6, 4), "float32"))
    assert numpy.abs(result.grads["output/rec/initial_c"]).min() > 0


@pytest.mark.parametrize("word", ["keep_over_epoch", "keep_over_epoch_no_init"])
def test_state_kept_from_batch_to_batch(word):
    data, _ = sequences(n_batch=2, max_len=6)
    whole = RecurrentNet({"output": rec()}).run(data, [6, 6]).output
    net = RecurrentNet({"output": rec(initial_state=word)})
    with net.graph.as_default():
        net.fetches["keep"] = net.net.get_post_control_dependencies()
        epoch_step = net.net.get_epoch_step()
    parts = [net.run(data[:, 3 * i : 3 * i + 3], [3, 3], feed={epoch_step: i}).output for i in range(2)]
    numpy.testing.assert_allclose(numpy.concatenate(parts, axis=1), whole, rtol=1e-5, atol=1e-6)
    again = net.run(data[:, :3], [3, 3], feed={epoch_step: 0}).output
    assert numpy.allclose(again, parts[0]) is (word == "keep_over_epoch")
    numpy.testing.assert_allclose(net.run(data[:1], [6], feed={epoch_step: 5}).output, whole[:1], rtol=1e-5, atol=1e-6)


def test_hidden_state_of_a_hidden_state_is_the_same():
    data, lengths = sequences()
    net_dict = {"lstm": rec(), "c": last("lstm", key="c"), "output": last("c", key="h")}
    out = RecurrentNet(net_dict, fetch=("output", "c")).run(data, lengths).out
    numpy.testing.assert_array_equal(out["output"], out["c"])


def test_hidden_states_side_by_side_and_summed():
    data, lengths = sequences()
    net_dict = {
        "a": rec(), "b": rec(direction=-1),
        **{f"{source}_{key}": last(source, key=key) for source in "ab" for key in "ch"},
        "all": last(["a", "b"]), "sum": last(["a", "b"], combine="add"), "first": last("a", key=0, n_out=4),
        "output": rec("gru"),
    }  # fmt: skip
    names = ("a_c", "a_h", "b_c", "b_h")
    out = RecurrentNet(net_dict, fetch=("all", "sum", "first", *names)).run(data, lengths).out
    numpy.testing.assert_array_equal(out["all"], numpy.concatenate([out[n] for n in names], axis=-1))
    numpy.testing.assert_allclose(out["sum"][:, :4], out["a_c"] + out["b_c"], rtol=1e-6)
    numpy.testing.assert_array_equal(out["first"], out["a_c"])


# Random things.


RANDOM = [
    ("nativelstm2", {"rec_weight_dropout": 0.5}),
    ("rhn", {"dropout": 0.5}),
    ("layernormvariantslstm", {"dropout": 0.5}),
    ("layernormvariantslstm", {"dropout_h": 0.5}),
    ("zoneoutlstm", {"zoneout_factor_cell": 0.5, "zoneout_factor_output": 0.3}),
]


@pytest.mark.parametrize(("unit", "opts"), RANDOM, ids=str)
def test_dropout_and_zoneout_are_random_in_training_alone(unit, opts):
    data, lengths = sequences()
    for train in (True, False):
        net = RecurrentNet({"output": rec(unit, unit_opts=opts)}, train=train)
        outputs = [net.run(data, lengths).output for _ in range(2)]
        assert numpy.allclose(*outputs) is not train


def test_zoneout_of_everything_keeps_the_state():
    data, lengths = sequences()
    opts = {"zoneout_factor_cell": 1.0, "zoneout_factor_output": 1.0, "use_zoneout_output": True}
    net = RecurrentNet({"output": rec("zoneoutlstm", unit_opts=opts, initial_state="ones")}, train=True)
    output = net.run(data, lengths).output
    for entry, length in zip(output, lengths, strict=True):
        numpy.testing.assert_array_equal(entry[:length], 1.0)


# Initial values, and units of a user.


def initial_params(desc):
    net = RecurrentNet({"output": desc})
    net.session.run([p.initializer for p in net.variables.values()])
    return {name.rpartition("/")[2]: net.session.run(p) for name, p in net.variables.items()}


def test_initial_values_of_biases():
    rhn = initial_params(rec("rhn", unit_opts={"transform_bias": -2.0}))
    numpy.testing.assert_array_equal(rhn["b"], [0.0] * 4 + [-2.0] * 4)
    opts = {"forget_bias": 1.0, "norm_shift": 0.5}
    norm = initial_params(rec("layernormvariantslstm", unit_opts=opts))
    numpy.testing.assert_array_equal(norm["beta_input_below"], [0.5] * 8 + [1.5] * 4 + [0.5] * 4)
    given = initial_params(rec("nativelstm2", bias_init=0.25, forward_weights_init="ones", recurrent_weights_init=0.5))
    for name, value in {"b": 0.25, "W": 1.0, "W_re": 0.5}.items():
        numpy.testing.assert_array_equal(given[name], value)


class DecayingSum(RecUnit):
    """`y = x + decay y'`."""

    state_names = ("state",)
    output_state = 0

    def __init__(self, decay=0.5, **kwargs):
        super().__init__(**kwargs)
        self.decay = decay

    def project(self, source):
        return source

    def step(self, x, state, *once):
        output = x + self.decay * state[0]
        return output, (output,)


def test_unit_of_a_user():
    data, lengths = sequences()
    net_dict = {"output": rec(DecayingSum, unit_opts={"decay": 1.0}, n_out=3)}
    result = RecurrentNet(net_dict).run(data, lengths)
    numpy.testing.assert_allclose(result.output[0], numpy.cumsum(data[0], axis=0), rtol=1e-5)


# Layout and graph.


def test_stacked_layers_need_no_transpose_in_between():
    def count(num_layers):
        net_dict = {f"l{i}": rec(**{"from": f"l{i - 1}" if i else "data"}) for i in range(num_layers)}
        net_dict["output"] = {"class": "copy", "from": f"l{num_layers - 1}"}
        with tf.Graph().as_default() as graph:
            construct(net_dict)
            return sum(op.type == "Transpose" for op in graph.get_operations())

    assert count(3) == count(1)


def test_a_step_of_an_lstm_has_few_operations(monkeypatch):
    monkeypatch.setenv("RETURNN_NATIVE", "0")
    with tf.Graph().as_default() as graph:
        construct({"output": rec()})
        (loop,) = [op for op in graph.get_operations() if op.type in ("While", "StatelessWhile")]
        functions = {f.signature.name: f for f in graph.as_graph_def().library.function}
        nodes = functions[loop.get_attr("body").name].node_def
    ops = [node.op for node in nodes if node.op not in ("Const", "Identity", "NoOp")]
    assert len(ops) <= 20, ops


# What can be wrong.


LAST = "layer 'output' (class 'get_last_hidden_state')"
ERRORS = [
    (
        rec("nativlstm"),
        "layer 'output' (class 'rec'): option 'unit': there is no unit 'nativlstm'.\n  Did you mean 'nativelstm'",
    ),
    (rec(3), "layer 'output' (class 'rec'): option 'unit' has to be a text or a dict, not 3."),
    (
        rec("rhn", unit_opts={"dept": 3}),
        "layer 'output' (class 'rec'): unit 'rhn': unit_opts: there is no option 'dept'.\n  Did you mean 'depth'?",
    ),
    (
        rec("vanillalstm", unit_opts={"forget_bias": 1.0}),
        "layer 'output' (class 'rec'): unit 'vanillalstm': unit_opts: there is no option 'forget_bias'.\n"
        "  This unit has no options.",
    ),
    (
        rec("standardlstm", unit_opts={"state_is_tuple": False}),
        "layer 'output' (class 'rec'): unit 'standardlstm': the option 'state_is_tuple' can only be True, got False.",
    ),
    (
        rec(initial_state={"c": 0, "hh": 0}),
        "layer 'output' (class 'rec'): option 'initial_state': the state has no part 'hh'.\n  Did you mean 'h'?",
    ),
    (rec(initial_state={"c": 0}), "layer 'output' (class 'rec'): option 'initial_state': the part 'h' is missing."),
    (
        rec(initial_state=[0, 0, 0]),
        "layer 'output' (class 'rec'): option 'initial_state': got 3 values for the 2 parts c, h.",
    ),
    (rec(initial_state="zeroes"), "layer 'output': there is no layer 'zeroes'."),
    (rec(direction=2), "layer 'output' (class 'rec'): option 'direction': expected 1 or -1, got 2."),
    (
        rec(input_projection=False),
        "layer 'output' (class 'rec'): without input_projection, the source must have 4 * n_out = 16 features, "
        "but it has 3.",
    ),
    (
        rec("gru", input_projection=False),
        "layer 'output' (class 'rec'): without input_projection, the source must have n_out = 4 features, "
        "but it has 3.",
    ),
    (
        rec(**{"from": "data:vec"}, direction=-1),
        "layer 'output' (class 'rec'): direction -1: the source",
    ),
    (
        rec("zoneoutlstm", unit_opts={"zoneout_factor_cell": 1.5}),
        "layer 'output' (class 'rec'): unit_opts: zoneout_factor_cell=1.5, zoneout_factor_output=0.0: both must be "
        "between 0 and 1.",
    ),
    (
        rec("layernormvariantslstm", unit_opts={"per_gate_norm": True}),
        "layer 'output' (class 'rec'): unit_opts: only one of global_norm, per_gate_norm can be True.\n"
        "  The default of global_norm is True.",
    ),
    (
        rec("layernormvariantslstm", unit_opts={"with_concat": True}),
        "layer 'output' (class 'rec'): unit_opts: with_concat=True needs global_norm=False.",
    ),
    (
        {"class": "rnn_cell", "unit": "gru", "n_out": 4, "from": "data", "initial_output": 0},
        "layer 'output' (class 'rnn_cell'): option 'initial_output': it follows from 'initial_state', give that.",
    ),
    (
        {"class": "get_last_hidden_state", "from": "data"},
        "layer 'data' (class 'source'): has no hidden state.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("desc", "message"), ERRORS, ids=[message[:60] for _, message in ERRORS])
def test_error(desc, message):
    with tf.Graph().as_default(), pytest.raises(ConfigError) as info:
        construct({"output": desc})
    assert str(info.value).startswith(message), str(info.value)
    assert len(str(info.value).splitlines()) <= 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "d"}, "layer 'a' (class 'rec'): the hidden state has no part 'd'.\n  Possible: c, h, '*'."),
        ({"n_out": 3}, f"{LAST}: the hidden state has 8 features, but 'n_out' is 3."),
        ({"combine": "mul"}, f"{LAST}: option 'combine': expected 'concat' or 'add', got 'mul'."),
        ({"from": []}, f"{LAST}: a source is required (option 'from')."),
    ],
)
def test_error_of_last_hidden_state(options, message):
    with tf.Graph().as_default(), pytest.raises(ConfigError) as info:
        construct({"a": rec(), "output": last("a", **options) | options})
    assert str(info.value) == message


def test_a_layer_added_to_itself_in_a_loop():
    linear = {"class": "linear", "activation": None, "from": ["data:source", "prev:output"], "n_out": 4}
    twice = {"class": "combine", "kind": "add", "from": ["x", "x"]}
    doubled = {"class": "eval", "eval": "source(0) * 2", "from": "x"}
    data, lengths = sequences()
    found, wanted = (
        RecurrentNet({"output": {"class": "rec", "from": "data", "unit": {"x": linear, "output": layer}}})
        .run(data, lengths)
        .output
        for layer in (twice, doubled)
    )
    numpy.testing.assert_allclose(found, wanted)
