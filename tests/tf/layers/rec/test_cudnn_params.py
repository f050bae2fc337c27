"""Parameters of cuDNN's LSTM, by its equations, against an LSTM block that has them."""

import numpy
import pytest

from returnn.tf.layers.rec import RecLayer
from returnn.util.errors import UserError
from tests.tf.by_hand.scripts import make_network, make_scope, run_network

N_IN, N = 3, 4


class Values(dict):
    """Stands for a reader of a checkpoint."""

    def get_variable_to_shape_map(self):
        return {name: list(value.shape) for name, value in self.items()}

    def get_tensor(self, name):
        return self[name]


@pytest.fixture
def values():
    """As `CudnnRNNParamsToCanonical` has them, in the order of cuDNN: input, forget, cell, output."""
    random = numpy.random.RandomState(1)
    shapes = [(N, N_IN)] * 4 + [(N, N)] * 4 + [(N,)] * 8
    return [random.uniform(-1, 1, size=shape).astype("float32") for shape in shapes]


def lstm_of_cudnn(values, frames):
    def sigmoid(x):
        return 1 / (1 + numpy.exp(-x))

    h = c = numpy.zeros(N)
    for x in frames:
        i, f, new, o = (values[g] @ x + values[4 + g] @ h + values[8 + g] + values[12 + g] for g in range(4))
        c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(new)
        h = sigmoid(o) * numpy.tanh(c)
        yield h


@pytest.mark.parametrize("flat", [False, True])
def test_block_with_parameters_of_cudnn(values, flat):
    reader = Values({
        f"lstm/rec/cudnn/CudnnRNNParamsToCanonical:{i}": x.reshape(-1) if flat else x for i, x in enumerate(values)
    })  # fmt: skip
    found = RecLayer.convert_cudnn_canonical_to_lstm_block(reader=reader, prefix="lstm/rec/", target="block/")
    assert sorted(found) == ["lstm/rec/block/bias", "lstm/rec/block/kernel"]
    with make_scope() as session:
        cell = {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": N, "from": "data:source"}
        net_dict = {"output": {"class": "rec", "unit": {"output": cell}, "from": "data"}}
        network = make_network(net_dict, {"data": {"dim": N_IN}})
        layer = network.layers["output"]
        network.initialize_params(session)
        by_kind = {name.rsplit("/", 1)[1]: value for name, value in found.items()}
        own = {name: by_kind[name.rsplit("/", 1)[-1]] for name in layer.params}
        network.initialize_params = lambda session: layer.set_param_values_by_dict(own, session)
        output, data = run_network(session, network, layer.output.get_placeholder_as_batch_major(), n_batch=1)
    expected = list(lstm_of_cudnn(values, data["data"][0]))
    numpy.testing.assert_allclose(output[0], expected, rtol=1e-4, atol=1e-5)


def test_parameters_of_a_compatible_cell(values):
    kernel, bias = numpy.ones((N_IN + N, 4 * N)), numpy.zeros((4 * N,))
    scope = "lstm/rec/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/"
    found = RecLayer.convert_cudnn_canonical_to_lstm_block(
        Values({f"{scope}kernel": kernel, f"{scope}bias": bias}), "lstm/rec/"
    )
    assert found["lstm/rec/lstm_block_wrapper/kernel"].tolist() == kernel.tolist()
    assert found["lstm/rec/lstm_block_wrapper/bias"].reshape(4, N)[:, 0].tolist() == [0, 0, -1, 0]


def test_no_parameters_of_cudnn():
    with pytest.raises(UserError, match=r"no parameters of one layer of cuDNN.s LSTM below .lstm.rec"):
        RecLayer.convert_cudnn_canonical_to_lstm_block(Values({"lstm/rec/W": numpy.ones((2, 2))}), "lstm/rec/")
