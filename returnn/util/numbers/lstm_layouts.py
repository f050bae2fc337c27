"""
Parameters of an LSTM, one layer and direction, as they are laid out here and elsewhere.

    z = x W + h' R + b;  c = sigmoid(z_f) c' + sigmoid(z_i) tanh(z_j);  h = sigmoid(z_o) tanh(c)

| layout | parameters | gates |
| native | `W` (in, 4n), `W_re` (n, 4n), `b` (4n,) | j, i, f, o |
| standardlstm, basiclstm | `lstm_cell/kernel` (in + n, 4n), `lstm_cell/bias`; f gets 1 more | i, j, f, o |
| lstmblockfused of TensorFlow 1 | `lstm_fused_cell/kernel`, `lstm_fused_cell/bias`, the same | i, j, f, o |
| cudnn_compatible | `cudnn_compatible_lstm_cell/kernel`, `.../bias`, the same, but f gets no more | i, j, f, o |
| cudnn | `CudnnRNNParamsToCanonical:0` to `:15`: 4 (n, in), 4 (n, n), 4 + 4 biases (n,) | i, f, j, o |
| torch | `weight_ih_l0` (4n, in), `weight_hh_l0` (4n, n), `bias_ih_l0`, `bias_hh_l0` (4n,) | i, f, j, o |
| frontend | `ff_weight` (4n, in), `rec_weight` (4n, n), `bias` (4n,) | i, f, j, o |

What is converted there and back is the same bit for bit, but for biases. Where there are two, their sum counts: it is
all that is left of them in a layout with one, from which the second one becomes 0. Adding or subtracting 1 rounds: with
`forget_bias=0`, the bias is left as it is, and the unit has to get `forget_bias` as an option. LSTMs of `torch` and
`frontend` without biases get zeros elsewhere.
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
    biases: Sequence[numpy.ndarray]  # none, one, or two to be added: (4n,)
    forget_bias: float = 0.0  # that the unit adds

    @property
    def bias(self) -> numpy.ndarray:
        """:return: (4n,), the sum of them"""
        if not self.biases:
            return numpy.zeros(self.forward.shape[1:], self.forward.dtype)
        first, *further = self.biases
        for bias in further:
            if bias.any():  # as adding 0 makes 0 of -0
                first = numpy.add(first, bias)
        return first


@dataclass(frozen=True)
class Layout:
    """One of the layouts, see the head of this module."""

    name: str
    gates: str
    suffixes: Sequence[str]  # of the names of the parameters
    adds_forget_bias: bool = False
    num_biases: int = 1
    needs_biases: bool = True
    of_further_part: str = ""  # suffix of a parameter that only LSTMs with more layers or directions have

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
        :return: in the order of the suffixes; without biases, if there are none and none are needed
        """
        raise NotImplementedError

    @property
    def needed(self) -> Sequence[str]:
        """:return: suffixes of what each LSTM has"""
        return self.suffixes if self.needs_biases else self.suffixes[: -self.num_biases]

    def _to_common(self, x: numpy.ndarray) -> numpy.ndarray:
        return _reordered(x, self.gates, _GATES)

    def _from_common(self, x: numpy.ndarray) -> numpy.ndarray:
        return _reordered(x, _GATES, self.gates)

    def _biases_of(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        """:return: as many as this layout has, in its order of gates; for a unit that adds so much"""
        difference = params.forget_bias - forget_bias
        biases = params.biases
        if difference or (len(biases) != self.num_biases and (biases or self.needs_biases)):
            zeros = numpy.zeros_like(params.bias)
            biases = [_with_forget_bias(params.bias, difference), *[zeros] * (self.num_biases - 1)]
        return [self._from_common(bias) for bias in biases]


class _Rows(Layout):
    """(in, 4n), (n, 4n), (4n,)"""

    def read(self, values: Sequence[numpy.ndarray], forget_bias: float) -> LstmParams:
        forward, recurrent, bias = map(self._to_common, values)
        return LstmParams(forward, recurrent, [bias])

    def write(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        return [
            self._from_common(params.forward),
            self._from_common(params.recurrent),
            *self._biases_of(params, forget_bias),
        ]


class _Joint(Layout):
    """(in + n, 4n), (4n,)"""

    def read(self, values: Sequence[numpy.ndarray], forget_bias: float) -> LstmParams:
        kernel, bias = map(self._to_common, values)
        num_in = len(kernel) - bias.size // 4
        return LstmParams(kernel[:num_in], kernel[num_in:], [bias], forget_bias)

    def write(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        kernel = numpy.concatenate([params.forward, params.recurrent])
        return [self._from_common(kernel), *self._biases_of(params, forget_bias)]


class _Columns(Layout):
    """(4n, in), (4n, n), maybe biases (4n,)"""

    def read(self, values: Sequence[numpy.ndarray], forget_bias: float) -> LstmParams:
        forward, recurrent, *biases = values
        return LstmParams(
            self._to_common(forward.T), self._to_common(recurrent.T), [self._to_common(bias) for bias in biases]
        )

    def write(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        matrices = [numpy.ascontiguousarray(self._from_common(x).T) for x in (params.forward, params.recurrent)]
        return [*matrices, *self._biases_of(params, forget_bias)]


class _OneByOne(Layout):
    """4 (n, in), 4 (n, n), 4 biases (n,), and 4 again"""

    def read(self, values: Sequence[numpy.ndarray], forget_bias: float) -> LstmParams:
        size = values[8].size
        matrices = [value.reshape(size, -1).T for value in values[:8]]
        forward, recurrent = (numpy.concatenate(part, axis=1) for part in (matrices[:4], matrices[4:]))
        biases = [numpy.concatenate([x.reshape(-1) for x in values[i : i + 4]]) for i in (8, 12)]
        return LstmParams(self._to_common(forward), self._to_common(recurrent), [self._to_common(b) for b in biases])

    def write(self, params: LstmParams, forget_bias: float) -> list[numpy.ndarray]:
        wholes = [self._from_common(params.forward), self._from_common(params.recurrent)]
        matrices = [numpy.ascontiguousarray(x.T) for whole in wholes for x in numpy.split(whole, 4, axis=1)]
        return [*matrices, *(part for bias in self._biases_of(params, forget_bias) for part in numpy.split(bias, 4))]


_TORCH = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        _Rows("native", "jifo", ("W", "W_re", "b")),
        _Joint("standardlstm", "ijfo", ("lstm_cell/kernel", "lstm_cell/bias"), True),
        _Joint("basiclstm", "ijfo", ("basic_lstm_cell/kernel", "basic_lstm_cell/bias"), True),
        _Joint("fusedlstm", "ijfo", ("lstm_fused_cell/kernel", "lstm_fused_cell/bias"), True),
        _Joint("cudnn_compatible", "ijfo", ("cudnn_compatible_lstm_cell/kernel", "cudnn_compatible_lstm_cell/bias")),
        _OneByOne(
            "cudnn",
            "ifjo",
            tuple(f"CudnnRNNParamsToCanonical:{i}" for i in range(16)),
            num_biases=2,
            of_further_part="CudnnRNNParamsToCanonical:16",
        ),
        _Columns("torch", "ifjo", _TORCH, num_biases=2, needs_biases=False),
        _Columns("frontend", "ifjo", ("ff_weight", "rec_weight", "bias"), needs_biases=False),
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
    return write_lstm(read_lstm(values, source, forget_bias=forget_bias), target, forget_bias=forget_bias)


def read_lstm(values: Sequence[numpy.ndarray], layout: Layout, *, forget_bias: float = 1.0) -> LstmParams:
    """
    :param values: parameters, in the order of the suffixes of `layout`
    :param layout: of them
    :param forget_bias: what units of those layouts add to the forget gate that do so
    :raises ValueError: if the shapes are of no LSTM
    """
    params = layout.read(values, forget_bias if layout.adds_forget_bias else 0.0)
    size = len(params.recurrent)
    wanted = [(4 * size,)] * len(params.biases)
    if params.recurrent.shape != (size, 4 * size) or params.forward.shape[1:] != (4 * size,):
        raise ValueError("shapes")
    if [bias.shape for bias in params.biases] != wanted:
        raise ValueError("shapes")
    return params


def write_lstm(params: LstmParams, layout: Layout, *, forget_bias: float = 1.0) -> list[numpy.ndarray]:
    """
    :param params: of a layer and direction
    :param layout: the wanted one
    :param forget_bias: what units of those layouts add to the forget gate that do so
    :return: in the order of the suffixes of `layout`
    """
    return layout.write(params, forget_bias if layout.adds_forget_bias else 0.0)


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
