import numpy
import pytest

from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.tf.layers.rec import TwoDLSTMLayer
from returnn.tf.native_op import TwoDNativeLstmCell
from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, construct, drawn, sequences, tf, valid
from tests.tf.layers.rec.test_cells import run_graph
from tests.tf.layers.rec.test_units import assert_close

NET = {  # a source with other lengths than the target
    "source": {"class": "slice", "axis": "T", "slice_start": 1, "from": "data"},
    "twod": {"class": "twod_lstm", "from": ["source", "data"], "n_out": 4},
    "output": {"class": "copy", "from": "twod"},
}
LOOP = {
    "source": NET["source"],
    "output": {"class": "rec", "from": "data", "unit": {
        "twod": {"class": "twod_lstm", "from": ["base:source", "data:source"], "n_out": 4},
        "output": {"class": "copy", "from": "twod"},
    }},
}  # fmt: skip


def with_options(net_dict, **options):
    if "twod" in net_dict:
        return {**net_dict, "twod": {**net_dict["twod"], **options}}
    unit = net_dict["output"]["unit"]
    return {**net_dict, "output": {**net_dict["output"], "unit": {**unit, "twod": {**unit["twod"], **options}}}}


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def by_hand(source, target, params, pooling):
    """:return: (T, F) for one sequence: entry by entry, as the paper has it"""
    size = params["V_h"].shape[0]
    zeros = numpy.zeros((len(source) + 1, len(target) + 1, size))
    c, h = zeros.copy(), zeros.copy()
    for j, x in enumerate(source):
        for i, y in enumerate(target):
            z = numpy.concatenate([x, y]) @ params["W"] + params["b"]
            z = z + h[j, i + 1] @ params["V_h"] + h[j + 1, i] @ params["V_v"]
            new, gate_in, forget, out, left = numpy.split(z, 5)
            before = sigmoid(left) * c[j, i + 1] + (1 - sigmoid(left)) * c[j + 1, i]
            c[j + 1, i + 1] = sigmoid(forget) * before + sigmoid(gate_in) * numpy.tanh(new)
            h[j + 1, i + 1] = sigmoid(out) * numpy.tanh(c[j + 1, i + 1])
    return {"last": h[-1, 1:], "max": h[1:, 1:].max(axis=0), "avg": h[1:, 1:].mean(axis=0)}[pooling]


@pytest.mark.parametrize("pooling", ["last", "max", "avg"])
def test_it_is_the_formula(pooling):
    data, lengths = sequences(n_batch=3, max_len=5)
    lengths[2] = 2
    result = RecurrentNet(with_options(NET, pooling=pooling)).run(data, lengths)
    params = {name.removeprefix("twod/"): value for name, value in result.params.items()}
    for b, n in enumerate(lengths):
        expected = by_hand(data[b, 1:n], data[b, :n], params, pooling)
        assert_close(result.output[b, :n], expected)


def test_kernel_is_the_loop_with_gradients(monkeypatch):
    data, lengths = sequences(n_batch=3, max_len=5)
    weights = numpy.random.RandomState(1).normal(size=(3, 5, 4)).astype("float32")
    nets = [RecurrentNet(NET, with_grads=True, train=True)]
    if get_operations() is None:
        pytest.skip("there is no compiler")
    monkeypatch.setenv("RETURNN_NATIVE", "0")
    nets.append(RecurrentNet(NET, with_grads=True, train=True))
    is_loop = [any("While" in op.type for op in net.graph.get_operations()) for net in nets]
    assert is_loop == [False, True]
    results = [net.run(data, lengths, weights=weights) for net in nets]
    assert_close(results[0].output, results[1].output)
    assert_close(results[0].grads, results[1].grads, tol=1e-4)


def test_in_a_loop_it_is_the_same_with_gradients():
    data, lengths = sequences(n_batch=2, max_len=4)
    weights = numpy.random.RandomState(1).normal(size=(2, 4, 4)).astype("float32")
    weights *= (numpy.arange(4)[None] < lengths[:, None])[..., None]
    results = {}
    loops = {
        optimize: {**LOOP, "output": {**LOOP["output"], "optimize_move_layers_out": optimize}} for optimize in (0, 1)
    }
    for name, net_dict in {"outside": NET, "inside": loops[0], "moved": loops[1]}.items():
        net = RecurrentNet(net_dict, with_grads=True, train=True)
        net.set_params({key: drawn(key.rpartition("/")[2], tuple(p.shape)) for key, p in net.variables.items()})
        result = net.run(data, lengths, weights=weights)
        result.grads = {key.removeprefix("output/rec/"): value for key, value in result.grads.items()}
        results[name] = result
    for name in ("inside", "moved"):
        assert_close(valid(results[name].output, lengths), valid(results["outside"].output, lengths))
        assert_close(results[name].grads, results["outside"].grads, tol=1e-4)


def test_raw_cell_is_the_layer():
    data, lengths = sequences(n_batch=2, max_len=4)
    result = RecurrentNet(NET).run(data, lengths)
    params = {name.removeprefix("twod/"): value for name, value in result.params.items()}

    def raw():
        cell = TwoDNativeLstmCell(pooling="last", n_hidden=4)
        mask = tf.transpose(tf.sequence_mask(lengths - 1, 3))
        time_major = data.transpose(1, 0, 2)
        output, _, _ = cell(tf.constant(time_major[1:]), mask, target=tf.constant(time_major))
        return tf.transpose(output, [1, 0, 2])

    assert_close(valid(run_graph(raw, params), lengths), valid(result.output, lengths))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "min"}, "there is no pooling 'min'.\n  Possible: avg, last, max."),
        ({"unit_opts": {"a": 1}}, "option 'unit_opts': there is no option 'a'."),
        ({"from": "data"}, "two sources are needed, source and target; got 1."),
    ],
)
def test_error(options, message):
    with tf.Graph().as_default(), pytest.raises(ConfigError) as info:
        construct(with_options(NET, **options))
    assert str(info.value) == f"layer 'twod' (class 'twod_lstm'): {message}"


def test_state_before_the_first_frame_as_code_of_users_asks_for_it():
    state = TwoDLSTMLayer.helper_extra_outputs(batch_dim=tf.constant(2), src_length=tf.constant(3), features=4)
    assert list(state) == ["c", "h"]
    for value in state.values():
        numpy.testing.assert_equal(tf.get_static_value(value), numpy.zeros((3, 2, 4), "float32"))


def test_state_before_the_first_frame_is_that_of_the_layer():
    with tf.Graph().as_default():
        network = construct({**LOOP, "output": {**LOOP["output"], "optimize_move_layers_out": False}})
        layer = network.layers["output"].cell.net.layers["twod"]
        options = {"sources": layer.sources, "n_out": 4, "name": "twod", "rec_layer": network.layers["output"]}
        state = TwoDLSTMLayer.get_rec_initial_extra_outputs(batch_dim=tf.constant(2), **options)
        shapes = TwoDLSTMLayer.get_rec_initial_extra_outputs_shape_invariants(**options)
        assert set(state) == set(shapes) == set(layer.state_templates)
        for key, value in state.items():
            template = layer.state_templates[key].template
            assert [dim.size for dim in template.dims] == shapes[key].as_list()
            assert shapes[key].is_compatible_with(value.shape)
            assert value.dtype.name == template.dtype
