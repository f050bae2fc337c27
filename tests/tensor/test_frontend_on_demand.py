"""Scripts import `Tensor` or `Data` alone: the first operation imports what it needs."""

import subprocess
import sys

import pytest

CODES = {
    "returnn.tensor": """
import numpy
from returnn.tensor import Dim, Tensor
dim = Dim(None, name="time")
dim.dyn_size = numpy.array([2, 1], "int32")
x = Tensor("x", [Dim(2, name="batch"), Dim(3, name="feature")], "float32", raw_tensor=numpy.ones((2, 3), "float32"))
print((x + x).raw_tensor.sum(), dim.get_dim_value())
""",
    "returnn.tf.util.data": """
import tensorflow
from returnn.tf.util.data import Data
with tensorflow.Graph().as_default():
    data = Data("data", shape=(None, 4), auto_create_placeholders=True)
    print(data.get_sequence_mask().dtype.name)
""",
}
SHOWN = {"returnn.tensor": "12.0 2", "returnn.tf.util.data": "bool"}


@pytest.mark.parametrize("module", CODES)
def test_operations_of_a_module_that_was_imported_alone(module):
    command = [sys.executable, "-c", CODES[module]]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == SHOWN[module]
