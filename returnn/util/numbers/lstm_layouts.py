"""
Parameters of an LSTM, as they are laid out here and elsewhere.

    z = x W + h' R + b;  c = sigmoid(z_f) c' + sigmoid(z_i) tanh(z_j);  h = sigmoid(z_o) tanh(c)

| layout | parameters | gates |
| native | `W` (in, 4n), `W_re` (n, 4n), `b` (4n,) | j, i, f, o |
| standardlstm, basiclstm | `lstm_cell/kernel` (in + n, 4n), `lstm_cell/bias`; f gets 1 more | i, j, f, o |
| lstmblockfused of TensorFlow 1 | `lstm_fused_cell/kernel`, `lstm_fused_cell/bias`, the same | i, j, f, o |
| cudnn | `CudnnRNNParamsToCanonical:0` to `:15`: 4 (n, in), 4 (n, n), 4 + 4 biases (n,) | i, f, j, o |
| torch | `weight_ih_l0` (4n, in), `weight_hh_l0` (4n, n), `bias_ih_l0`, `bias_hh_l0` (4n,) | i, f, j, o |
| frontend | `ff_weight` (4n, in), `rec_weight` (4n, n), `bias` (4n,) | i, f, j, o |

Where there are two biases, their sum counts; written, the second one is 0. So they can change, and all else is the same
bit for bit. Adding or subtracting 1 rounds: with `forget_bias=0`, the bias is left as it is, and the unit has to get
`forget_bias` as an option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

_GATES = "ifjo"  # of `LstmParams`


@dataclass(frozen=True)
class LstmParams:
    """Parameters of one layer and direction, with the gates in the order i, f, j, o along the last axis."""

    forward: numpy.ndarray  # (in, 4n)
    recurrent: numpy.ndarray  # (n, 4n)
    bias: numpy.ndarray  # (4n,)


@dataclass(frozen=True)
class Layout:
    """One of the layouts, see the head of this module."""

    name: str
    gates: str
    suffixes: Sequence[str]  # of the names of the parameters
    adds_forget_bias: bool = False

    def read(self, values: Sequence[numpy.ndarray], forget_bias: float) -> LstmParams:
        """
        :param values: in the order of the suffixes
        :param forget_bias: what the unit adds
        """
        raise NotImplementedError

    def write(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        """
        :param params: of the layer
        :param forget_bias: what the unit adds
        :return: in the order of the suffixes
        """
        raise NotImplementedError

    def _to_common(self, x: numpy.ndarray) -> numpy.ndarray:
        return _reordered(x, self.gates, _GATES)

    def _from_common(self, x: numpy.ndarray) -> numpy.ndarray:
        return _reordered(x, _GATES, self.gates)


class _Rows(Layout):
    """(in, 4n), (n, 4n), (4n,)"""

    def read(self, values: Sequence[numpy.ndarray], forget_bias: float) -> LstmParams:
        return LstmParams(*map(self._to_common, values))

    def write(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        return [self._from_common(x) for x in (params.forward, params.recurrent, params.bias)]


class _Joint(Layout):
    """(in + n, 4n), (4n,)"""

    def read(self, values: Sequence[numpy.ndarray], forget_bias: float) -> LstmParams:
        kernel, bias = map(self._to_common, values)
        num_in = len(kernel) - bias.size // 4
        return LstmParams(kernel[:num_in], kernel[num_in:], _with_forget_bias(bias, forget_bias))

    def write(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        kernel = numpy.concatenate([params.forward, params.recurrent])
        bias = _with_forget_bias(params.bias, -forget_bias)
        return [self._from_common(kernel), self._from_common(bias)]


class _Columns(Layout):
    """(4n, in), (4n, n), (4n,), maybe a second bias (4n,)"""

    def read(self, values: Sequence[numpy.ndarray], forget_bias: float) -> LstmParams:
        forward, recurrent, *biases = values
        bias = biases[0] if len(biases) == 1 else biases[0] + biases[1]
        return LstmParams(self._to_common(forward.T), self._to_common(recurrent.T), self._to_common(bias))

    def write(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        written = [self._from_common(x).T for x in (params.forward, params.recurrent, params.bias)]
        zeros = [numpy.zeros_like(params.bias)] * (len(self.suffixes) - 3)
        return [numpy.ascontiguousarray(x) for x in (*written, *zeros)]


class _OneByOne(Layout):
    """4 (n, in), 4 (n, n), 4 biases (n,), and 4 again"""

    def read(self, values: Sequence[numpy.ndarray], forget_bias: float) -> LstmParams:
        size = values[8].size
        matrices = [value.reshape(size, -1).T for value in values[:8]]
        biases = [a.reshape(-1) + b.reshape(-1) for a, b in zip(values[8:12], values[12:], strict=True)]
        forward, recurrent = (numpy.concatenate(part, axis=1) for part in (matrices[:4], matrices[4:]))
        return LstmParams(*map(self._to_common, (forward, recurrent, numpy.concatenate(biases))))

    def write(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        forward, recurrent, bias = map(self._from_common, (params.forward, params.recurrent, params.bias))
        matrices = [
            numpy.ascontiguousarray(x.T) for whole in (forward, recurrent) for x in numpy.split(whole, 4, axis=1)
        ]
        biases = numpy.split(bias, 4)
        return [*matrices, *biases, *map(numpy.zeros_like, biases)]


_TORCH = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        _Rows("native", "jifo", ("W", "W_re", "b")),
        _Joint("standardlstm", "ijfo", ("lstm_cell/kernel", "lstm_cell/bias"), True),
        _Joint("basiclstm", "ijfo", ("basic_lstm_cell/kernel", "basic_lstm_cell/bias"), True),
        _Joint("fusedlstm", "ijfo", ("lstm_fused_cell/kernel", "lstm_fused_cell/bias"), True),
        _OneByOne("cudnn", "ifjo", tuple(f"CudnnRNNParamsToCanonical:{i}" for i in range(16))),
        _Columns("torch", "ifjo", _TORCH),
        _Columns("frontend", "ifjo", ("ff_weight", "rec_weight", "bias")),
    )
}


def convert_lstm(
    values: Sequence[numpy.ndarray], source: Layout, target: Layout, *, forget_bias: float = 1.0
) -> list[numpy.ndarray]:
    """
    :param values: parameters, in the order of the suffixes of `source`
    :param source: their layout
    :param target: the wanted one
    :param forget_bias: what units of those layouts add to the forget gate that do so
    :return: in the order of the suffixes of `target`
    :raises ValueError: if the shapes are of no LSTM
    """
    params = source.read(values, forget_bias if source.adds_forget_bias else 0.0)
    _check(params)
    return target.write(params, forget_bias if target.adds_forget_bias else 0.0)


def _check(params: LstmParams) -> None:
    size = len(params.recurrent)
    if params.recurrent.shape != (size, 4 * size) or params.forward.shape[1:] != (4 * size,):
        raise ValueError("shapes")
    if params.bias.shape != (4 * size,):
        raise ValueError("shapes")


def _reordered(x: numpy.ndarray, gates: str, wanted: str) -> numpy.ndarray:
    """:return: with the gates along the last axis in another order"""
    parts = dict(zip(gates, numpy.split(x, 4, axis=-1), strict=True))
    return numpy.concatenate([parts[gate] for gate in wanted], axis=-1)


def _with_forget_bias(bias: numpy.ndarray, forget_bias: float) -> numpy.ndarray:
    """:param bias: (4n,), gates as in `LstmParams`"""
    if not forget_bias:
        return bias
    parts = dict(zip(_GATES, numpy.split(bias, 4), strict=True))
    parts["f"] = parts["f"] + numpy.asarray(forget_bias, bias.dtype)
    return numpy.concatenate([parts[gate] for gate in _GATES])
