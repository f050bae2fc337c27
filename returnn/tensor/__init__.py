"""
Tensors with named axes: `Dim`, `Tensor`, `TensorDict`. Independent of any backend.

`returnn.compat` adds the names and the forms of arguments that old configs use.
"""

from returnn.tensor.control_flow_ctx import ControlFlowContext
from returnn.tensor.dim import Dim, VerifyOutShapeException, batch_dim, single_step_dim
from returnn.tensor.tensor import Tensor
from returnn.tensor.tensor_dict import TensorDict
from returnn.util.python.completion import announce_complete

__all__ = [
    "ControlFlowContext",
    "Dim",
    "Tensor",
    "TensorDict",
    "VerifyOutShapeException",
    "batch_dim",
    "single_step_dim",
]

announce_complete(__name__)
