"""
The numpy backend: each operation in the simplest way, for one tensor in memory. It is the reference in tests.

It shares nothing with the other backends but the rules about dims. Where those reshape and transpose to do a product
as one matrix product, this one writes `einsum`; where those compute with masks, this one masks first.
"""

import numpy

from returnn.frontend._backend import Backend, register_backend, register_backend_by_tensor_type
from returnn.frontend._backends.numpy.conv import ConvNumpyOps
from returnn.frontend._backends.numpy.core import CoreNumpyOps
from returnn.frontend._backends.numpy.ctc import CtcNumpyOps
from returnn.frontend._backends.numpy.gradient import GradientNumpyOps
from returnn.frontend._backends.numpy.numeric import NumericNumpyOps
from returnn.frontend._backends.numpy.parameter import ParameterNumpyOps
from returnn.frontend._backends.numpy.random import RandomNumpyOps
from returnn.frontend._backends.numpy.raw import RawNumpyOps
from returnn.frontend._backends.numpy.rec import RecNumpyOps
from returnn.frontend._backends.numpy.select import SelectNumpyOps
from returnn.frontend._backends.numpy.shape import ShapeNumpyOps
from returnn.frontend._backends.numpy.softmax import SoftmaxNumpyOps


class NumpyBackend(
    CoreNumpyOps,
    SoftmaxNumpyOps,
    RecNumpyOps,
    CtcNumpyOps,
    ConvNumpyOps,
    ShapeNumpyOps,
    SelectNumpyOps,
    NumericNumpyOps,
    RandomNumpyOps,
    GradientNumpyOps,
    ParameterNumpyOps,
    RawNumpyOps,
    Backend[numpy.ndarray],
):
    """See the head of this module."""

    name = "numpy"
    RawTensorType = numpy.ndarray


register_backend(NumpyBackend)
register_backend_by_tensor_type(numpy.ndarray, NumpyBackend)
register_backend_by_tensor_type(numpy.generic, NumpyBackend)  # type: ignore[misc]  # a scalar is computed with alike
