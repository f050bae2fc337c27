"""Parameters of cuDNN's LSTM in checkpoints of TensorFlow 1, as those of an LSTM block."""

from __future__ import annotations

import re
from typing import Any, Protocol

import numpy
import numpy.typing

from returnn.util.errors import UserError

FloatArray = numpy.typing.NDArray[numpy.floating[Any]]
_GATES_OF_CUDNN = ("input", "forget", "cell", "output")
_GATES_OF_BLOCK = ("input", "cell", "forget", "output")
_FORGET_BIAS = 1.0  # that an LSTM block adds, and cuDNN does not


class Reader(Protocol):
    """What is needed of `tf.train.CheckpointReader`."""

    def get_variable_to_shape_map(self) -> dict[str, Any]:
        """:return: shapes by name"""

    def get_tensor(self, name: str) -> FloatArray:
        """:return: value"""


def lstm_block_of_cudnn(reader: Reader, prefix: str, target: str) -> dict[str, FloatArray]:
    """
    One layer, one direction. The checkpoint has the matrices one by one (`CudnnRNNParamsToCanonical:0` to `:15`: those
    of the input, those of the state, then the biases, each in the order of cuDNN), or those of a compatible cell.

    :param reader: of the checkpoint
    :param prefix: of the names in there, e.g. "layer2/rec/"
    :param target: behind it, e.g. "lstm_block_wrapper/"
    :return: kernel (inputs + n, 4 * n) and bias (4 * n,), by name
    :raises UserError: if there are no such parameters
    """
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith(prefix)]
    cell = [name for name in names if name.endswith("cudnn_compatible_lstm_cell/kernel")]
    numbered = {int(found[1]): name for name in names if (found := re.search(r"ParamsToCanonical:(\d+)$", name))}
    if len(cell) == 1:
        kernel, bias = reader.get_tensor(cell[0]), reader.get_tensor(cell[0].removesuffix("kernel") + "bias")
    elif sorted(numbered) == list(range(16)):
        kernel, bias = _joined([reader.get_tensor(numbered[i]) for i in range(16)])
    else:
        raise UserError(
            f"checkpoint: there are no parameters of one layer of cuDNN's LSTM below {prefix!r}.\n"
            f"  It has: {', '.join(sorted(names)) or 'nothing'}."
        )
    bias = bias.reshape(4, -1).copy()
    bias[_GATES_OF_BLOCK.index("forget")] -= _FORGET_BIAS
    return {f"{prefix}{target}kernel": kernel, f"{prefix}{target}bias": bias.reshape(-1)}


def _joined(values: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """
    :param values: 4 matrices (n, inputs) of the gates, 4 (n, n), and 8 biases (n,)
    :return: kernel (inputs + n, 4 * n), bias (4 * n,), in the order of gates of a block
    """
    size = values[8].size
    of_gate = {}
    for i, gate in enumerate(_GATES_OF_CUDNN):
        weights = [matrix.reshape(size, -1).T for matrix in (values[i], values[4 + i])]
        of_gate[gate] = numpy.concatenate(weights, axis=0), (values[8 + i] + values[12 + i]).reshape(-1)
    kernels, biases = zip(*(of_gate[gate] for gate in _GATES_OF_BLOCK), strict=True)
    return numpy.concatenate(kernels, axis=1), numpy.concatenate(biases)
