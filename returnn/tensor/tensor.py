"""
`Tensor`: values with named axes.

A tensor has dims, a dtype, and a raw tensor of some backend (numpy, TensorFlow, PyTorch). Without a raw tensor it is a
template: it says what a value looks like. Operations are in `returnn.frontend`; they run on templates too.

The class is a tower. Each floor is a module that knows only those below, and `Dim`:

| module | what the floor adds |
| --- | --- |
| `tensor_base` | dims, dtype, value; which dim is the feature dim, which the time dim |
| `tensor_axes` | axes by their description: `"T"`, `"spatial:0"` |
| `tensor_templates` | templates that are like a tensor, but for some dims |
| `tensor_layout` | other orders of the axes, other roles of the dims |
| `tensor_lengths` | lengths of sequences, masks |
| `tensor_batch` | what the batch axis consists of |
| `tensor_operators` | `+`, `<`, ... |
| `tensor_graph` | the value in a graph |
| `tensor_outputs` | outputs and losses; promises about the dims |

The same class serves the net dict, where it is known as `Data`. There, feature and time dim are guessed where they are
not given (`version=1`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from returnn.tensor.dim import Dim, VerifyOutShapeException
from returnn.tensor.tensor_outputs import TensorOutputs

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)  # so that `Tensor` alone stands for one of any backend
else:
    from typing import TypeVar

    T = TypeVar("T")


class Tensor(TensorOutputs, Generic[T]):
    """Values with named axes; `T` is the class of the raw tensor. See the head of this module."""


Tensor._tensor_class = Tensor

__all__ = ["Dim", "Tensor", "VerifyOutShapeException"]
