"""Units as cells on raw tensors, and cells of a user as units."""

import numpy
import pytest

from returnn.tf.layers.rec import (
    BaseRNNCell,
    LayerNormVariantsLSTMCell,
    RecLayer,
    RHNCell,
    RnnCellLayer,
    VanillaLSTMCell,
    ZoneoutLSTMCell,
)
from returnn.tf.layers.rec.units.blocksparse import BlocksparseLSTMCell, block_mask
from returnn.tf.native_op import NativeLstm2, NativeLstmCell, NativeLstmLowMemCell, RecSeqCellOp
from returnn.tf.util.lstm_state import LSTMStateTuple
from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, construct, drawn, sequences, tf, tf1, valid
from tests.tf.layers.rec.test_units import assert_close, one

CELLS = {
    "vanillalstm": lambda: VanillaLSTMCell(4),
    "rhn": lambda: RHNCell(num_units=4, depth=2),
    "layernormvariantslstm": lambda: LayerNormVariantsLSTMCell(4, 1.0, 0.5),
    "zoneoutlstm": lambda: ZoneoutLSTMCell(num_units=4, zoneout_factor_cell=0.2),
    "gru": lambda: RecLayer.get_rnn_cell_class("gru")(4),
}
OPTS = {"rhn": {"depth": 2}, "layernormvariantslstm": {"norm_shift": 0.5}, "zoneoutlstm": {"zoneout_factor_cell": 0.2}}


def run_graph(make, params=None):
    """:return: values of what `make()` returns, with the parameters drawn by name or given by it"""
    with tf.Graph().as_default(), tf1.Session() as session:
        fetch = make()
        for variable in tf1.global_variables():
            name = variable.name.split(":")[0]
            value = drawn(name, tuple(variable.shape)) if params is None else params[name]
            variable.load(value, session)
        return session.run(fetch)


@pytest.mark.parametrize("unit", CELLS)
def test_a_cell_called_step_by_step_is_the_layer(unit):
    data, _ = sequences(n_batch=2, max_len=3)
    layer = RecurrentNet(one(unit, OPTS.get(unit)))
    whole = layer.run(data, [3, 3])

    def by_steps():
        cell = CELLS[unit]()
        x = cell.get_input_transformed(tf.constant(data.transpose(1, 0, 2)), batch_dim=2)
        state, outputs = cell.zero_state(2, tf.float32), []
        for t in range(3):
            output, state = cell(x[t], state)
            outputs.append(output)
        tf.nest.assert_same_structure(state, cell.state_size)
        return tf.stack(outputs, axis=1)

    params = {name.removeprefix("output/rec/"): value for name, value in whole.params.items()}
    assert_close(run_graph(by_steps, params), whole.output)
    assert CELLS[unit]().output_size == 4


def test_the_state_of_an_lstm_has_names():
    assert VanillaLSTMCell(4).state_size == LSTMStateTuple(c=4, h=4)
    assert RHNCell(4).state_size == 4
    assert RnnCellLayer.get_hidden_state_size(n_out=3, unit="lstmblock") == LSTMStateTuple(3, 3)


def test_dropout_of_a_cell_is_the_same_for_all_steps():
    def by_steps():
        cell = RHNCell(4, is_training=True, depth=1, dropout=0.5, dropout_seed=3)
        x = cell.get_input_transformed(tf.zeros([2, 3]))
        state = tf.ones([2, 4])
        return cell(x, state)[0], cell(x, state)[0]

    first, second = run_graph(by_steps)
    numpy.testing.assert_array_equal(first, second)


def test_the_input_has_to_be_transformed_first():
    with tf.Graph().as_default(), pytest.raises(ConfigError, match="VanillaLSTMCell: call get_input_transformed first"):
        VanillaLSTMCell(4)(tf.zeros([2, 16]), LSTMStateTuple(tf.zeros([2, 4]), tf.zeros([2, 4])))


# Cells of a user.


class DecayingSum(BaseRNNCell):
    """`c = x W + decay c'`, `h = tanh(c)`."""

    def __init__(self, num_units, decay=0.5):
        super().__init__()
        self.num_units, self.decay = num_units, decay

    @property
    def state_size(self):
        return LSTMStateTuple(self.num_units, self.num_units)

    @property
    def output_size(self):
        return self.num_units

    def get_input_transformed(self, x, batch_dim=None):
        weights = tf1.get_variable("weights", [x.shape[-1], self.num_units])
        return tf.tensordot(x, weights, 1)

    def call(self, inputs, state):
        c = inputs + self.decay * state.c * tf1.get_variable("scale", [self.num_units])
        return tf.tanh(c), LSTMStateTuple(c, tf.tanh(c))


@pytest.mark.parametrize("layer", ["rec", "rnn_cell"])
@pytest.mark.parametrize("optimize", [True, False])
def test_cell_of_a_user(layer, optimize):
    data, lengths = sequences(n_batch=2, max_len=4)
    step = {"class": layer, "unit": DecayingSum, "unit_opts": {"decay": 0.9}, "n_out": 4, "from": "data:source"}
    unit = {"s": step, "output": {"class": "copy", "from": "s"}}
    loop = {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": optimize}
    net = RecurrentNet({"output": loop}, with_grads=True, train=True)
    scope = "output/rec/s/rec/"
    assert set(net.variables) == {f"{scope}weights", f"{scope}scale"}
    result = net.run(data, lengths, weights=numpy.ones((2, 4, 4), "float32"))
    x, c, expected = data @ result.params[f"{scope}weights"], 0.0, []
    for t in range(4):
        c = x[:, t] + 0.9 * c * result.params[f"{scope}scale"]
        expected.append(numpy.tanh(c))
    assert_close(valid(result.output, lengths), valid(numpy.stack(expected, axis=1), lengths))
    assert numpy.abs(result.grads[f"{scope}scale"]).min() > 0


def test_state_of_a_cell_of_a_user_has_names():
    data, lengths = sequences()
    state = {"class": "get_last_hidden_state", "from": "output", "key": "c", "is_output_layer": True}
    net = RecurrentNet({**one(DecayingSum, initial_state={"c": 1.0, "h": 0.0}), "c": state}, fetch=("output", "c"))
    result = net.run(data, lengths)
    last = numpy.stack([result.output[b, n - 1] for b, n in enumerate(lengths)])
    assert_close(numpy.tanh(result.out["c"]), last)


class WrongSize(DecayingSum):
    @property
    def output_size(self):
        return self.num_units + 1


def test_cell_with_another_size_is_an_error():
    with tf.Graph().as_default(), pytest.raises(ConfigError) as info:
        construct(one(WrongSize))
    assert str(info.value) == (
        "layer 'output' (class 'rec'): unit WrongSize: output and each part of the state have to be of size n_out = 4."
        "\n  They are 5 and LSTMStateTuple(c=4, h=4)."
    )


def test_there_are_no_blocksparse_kernels():
    with tf.Graph().as_default(), pytest.raises(ConfigError, match="needs the kernels of the package 'blocksparse'"):
        construct(one("BlocksparseMultiplicativeMultistepLSTM"))


@pytest.mark.parametrize("option", ["block_size", "connectivity"])
def test_options_of_block_sparse_weights(option):
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=f"option '{option}' has to be at least 1, got 0"):
        construct(one("blocksparselstm", unit_opts={option: 0}))


@pytest.mark.parametrize(("num_in", "num_out", "size", "connectivity"), [(8, 12, 4, 1), (7, 5, 2, 3), (3, 4, 32, 5)])
def test_block_sparse_weights_have_so_many_blocks(num_in, num_out, size, connectivity):
    mask = block_mask(num_in, num_out, size, connectivity, numpy.random.RandomState(1))
    assert mask.shape == (num_in, num_out)
    for column in range(0, num_out, size):
        part = mask[:, column : column + size]
        assert (part == part[:, :1]).all()
        blocks = [part[row : row + size, 0] for row in range(0, num_in, size)]
        assert all(block.all() == block.any() for block in blocks)
        assert sum(block.all() for block in blocks) == min(connectivity, len(blocks))


def test_a_block_sparse_lstm_takes_the_parameters_of_a_native_one():
    random = numpy.random.RandomState(3)
    values = {"W": random.normal(size=[3, 16]), "W_re": random.normal(size=[4, 16]), "b": random.normal(size=[16])}
    values = {name: value.astype("float32") for name, value in values.items()}
    x, c, h = (random.normal(size=[2, n]).astype("float32") for n in (3, 4, 4))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        cell = BlocksparseLSTMCell(4, block_size=2, connectivity=1)
        output, _ = cell(cell.get_input_transformed(tf.constant(x)), (tf.constant(c), tf.constant(h)))
        cell.load_params_from_native_lstm(values, session)
        actual = session.run(output)
        with pytest.raises(ConfigError, match="the native LSTM has no 'W'"):
            cell.load_params_from_native_lstm({"b": values["b"]}, session)
    for name, seed in (("W", 1), ("W_re", 2)):
        source, num_in = numpy.random.RandomState(seed), values[name].shape[0]
        values[name] = values[name] * numpy.concatenate([block_mask(num_in, 4, 2, 1, source) for _ in range(4)], axis=1)
    j, i, f, o = numpy.split(x @ values["W"] + values["b"] + h @ values["W_re"], 4, axis=-1)
    new_c = c / (1 + numpy.exp(-f)) + numpy.tanh(j) / (1 + numpy.exp(-i))
    numpy.testing.assert_allclose(actual, numpy.tanh(new_c) / (1 + numpy.exp(-o)), rtol=1e-4)


# Cells over whole sequences.


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize(("cell", "unit"), [(NativeLstm2, "nativelstm2"), (NativeLstmLowMemCell, "nativelstmlowmem")])
def test_native_cells_are_the_layers(cell, unit, step):
    data, lengths = sequences(n_batch=3, max_len=5)
    net_dict = one(cell, direction=step)
    net_dict["last"] = {"class": "get_last_hidden_state", "from": "output", "is_output_layer": True}
    layer = RecurrentNet(net_dict, fetch=("output", "last"))
    result = layer.run(data, lengths)
    params = {name.removeprefix("output/rec/"): value for name, value in result.params.items()}
    assert set(params) == ({"W", "b"} if unit == "nativelstmlowmem" else {"W", "W_re", "b"})

    def raw():
        index = tf.transpose(tf.sequence_mask(lengths, 5))
        op = cell(n_hidden=4, step=step, **({"n_input_dim": 3} if cell.does_input_projection else {}))
        x = data if cell.does_input_projection else data @ params["W"] + params["b"]
        output, state = op(tf.constant(x.transpose(1, 0, 2)), index)
        assert op.state_size == LSTMStateTuple(4, 4)
        return tf.transpose(output, [1, 0, 2]), tf.concat(state, axis=-1)

    output, last = run_graph(raw, params)
    assert_close(valid(output, lengths), valid(result.output, lengths))
    assert not output[2, lengths[2] :].any()
    assert_close(last, result.out["last"])


def test_native_cell_with_the_cell_as_its_state():
    data, lengths = sequences(n_batch=2, max_len=5)
    layer = RecurrentNet(one("nativelstm", {"forget_bias": 1.0}, initial_state=0.5))
    result = layer.run(data, lengths)
    params = {name.removeprefix("output/rec/"): value for name, value in result.params.items()}

    def raw():
        x = tf.constant((data @ params["W"] + params["b"]).transpose(1, 0, 2))
        op = NativeLstmCell(n_hidden=4, forget_bias=1.0)
        output, cell = op(x, tf.transpose(tf.sequence_mask(lengths, 5)), initial_state=tf.fill([2, 4], 0.5))
        assert cell.shape[-1] == op.state_size == 4
        return tf.transpose(output, [1, 0, 2])

    assert_close(valid(run_graph(raw, params), lengths), valid(result.output, lengths))


def test_what_native_cells_cannot_do_is_said():
    with pytest.raises(ConfigError, match=r"NativeLstmCell: option 'step': got -1.\n  Possible: 1."):
        NativeLstmCell(n_hidden=4, step=-1)
    with pytest.raises(ConfigError, match="NativeLstm2: option 'input_is_sparse': it has no matrix"):
        NativeLstm2(n_hidden=4, input_is_sparse=True)
    with pytest.raises(NotImplementedError, match="RecSeqCellOp has no kernel"):
        RecSeqCellOp(n_hidden=4)(None, None)
