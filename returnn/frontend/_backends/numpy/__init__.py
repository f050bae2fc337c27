"""The numpy backend: eager, on the CPU, without gradients."""

import numpy

from returnn.frontend._backend import Backend, register_backend, register_backend_by_tensor_type
from returnn.frontend._backends.numpy.entries import EntryNumpyOps
from returnn.frontend._backends.numpy.nn import NeuralNumpyOps
from returnn.frontend._backends.numpy.parameter import ParameterNumpyOps
from returnn.frontend._backends.numpy.random import RandomNumpyOps
from returnn.frontend._backends.numpy.raw import RawNumpyOps


class NumpyBackend(
    RawNumpyOps, EntryNumpyOps, NeuralNumpyOps, RandomNumpyOps, ParameterNumpyOps, Backend[numpy.ndarray]
):
    """See the head of this module."""

    name = "numpy"
    RawTensorType = numpy.ndarray
    matmul_folds_axes = True


register_backend(NumpyBackend)
register_backend_by_tensor_type(numpy.ndarray, NumpyBackend)
register_backend_by_tensor_type(numpy.generic, NumpyBackend)  # type: ignore[misc]  # a scalar is computed with alike
