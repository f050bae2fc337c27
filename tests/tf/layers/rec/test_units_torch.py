import numpy
import pytest

from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, valid, weights_for

torch = pytest.importorskip("torch")

RTOL, ATOL = 1e-4, 1e-5


def one(unit, **options):
    return {"output": {"class": "rec", "unit": unit, "n_out": 4, "from": "data", **options}}


def in_torch_order(matrix, order="jifo"):
    """PyTorch has the gates in the order i, f, j, o, and transposed matrices."""
    parts = dict(zip(order, numpy.split(matrix, 4, axis=-1), strict=True))
    return torch.tensor(numpy.concatenate([parts[gate] for gate in "ifjo"], axis=-1).T.copy())


@pytest.mark.parametrize("direction", [1, -1])
def test_lstm_and_its_gradients_are_those_of_pytorch(direction):
    data, lengths = sequences()
    weights = weights_for(lengths, data.shape[1])
    result = RecurrentNet(one("nativelstm2", direction=direction), with_grads=True).run(data, lengths, weights=weights)
    lstm = torch.nn.LSTM(3, 4, batch_first=True)
    of_torch = {"W": lstm.weight_ih_l0, "W_re": lstm.weight_hh_l0, "b": lstm.bias_ih_l0}
    with torch.no_grad():
        for name, param in of_torch.items():
            param.copy_(in_torch_order(result.params[f"output/rec/{name}"]))
        lstm.bias_hh_l0.zero_()
    for b, n in enumerate(lengths):
        x = torch.tensor(data[b, :n][::direction].copy())[None]
        y = lstm(x)[0][0]
        numpy.testing.assert_allclose(result.output[b, :n][::direction], y.detach(), RTOL, ATOL)
        (y * torch.tensor(weights[b, :n][::direction].copy())).sum().backward()
    for name, param in of_torch.items():
        actual = in_torch_order(result.grads[f"output/rec/{name}"])
        numpy.testing.assert_allclose(actual, param.grad, RTOL, ATOL, err_msg=name)


def test_lstm_cell_is_the_one_of_pytorch():
    data, lengths = sequences()
    opts = {"forget_bias": 0.0}
    result = RecurrentNet(one("standardlstm", unit_opts=opts)).run(data, lengths)
    lstm = torch.nn.LSTM(3, 4, batch_first=True)
    kernel = in_torch_order(result.params["output/rec/lstm_cell/kernel"], "ijfo")
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(kernel[:, :3])
        lstm.weight_hh_l0.copy_(kernel[:, 3:])
        lstm.bias_ih_l0.copy_(in_torch_order(result.params["output/rec/lstm_cell/bias"], "ijfo"))
        lstm.bias_hh_l0.zero_()
        expected, _ = lstm(torch.tensor(data))
    numpy.testing.assert_allclose(valid(result.output, lengths), valid(expected.numpy(), lengths), RTOL, ATOL)


def test_simple_recurrent_network_is_the_one_of_pytorch():
    data, lengths = sequences()
    result = RecurrentNet(one("basicrnn")).run(data, lengths)
    rnn = torch.nn.RNN(3, 4, batch_first=True)
    kernel = torch.tensor(result.params["output/rec/basic_rnn_cell/kernel"])
    with torch.no_grad():
        rnn.weight_ih_l0.copy_(kernel[:3].T)
        rnn.weight_hh_l0.copy_(kernel[3:].T)
        rnn.bias_ih_l0.copy_(torch.tensor(result.params["output/rec/basic_rnn_cell/bias"]))
        rnn.bias_hh_l0.zero_()
        expected, _ = rnn(torch.tensor(data))
    numpy.testing.assert_allclose(valid(result.output, lengths), valid(expected.numpy(), lengths), RTOL, ATOL)
