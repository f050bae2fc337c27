"""
Completes `Dim` and `Tensor` by what old configs and layer classes know: names, arguments.

The classes of the core have none of it, so a type checker finds where the core would use it.
"""

from __future__ import annotations

from returnn.compat.tensor.axes import TensorOldAxes
from returnn.compat.tensor.dim_names import DimOldNames, accept_old_options, set_dyn_size
from returnn.compat.tensor.from_shape import accept_old_forms
from returnn.compat.tensor.layout import TensorOldLayout
from returnn.compat.tensor.lengths import TensorOldLengths
from returnn.compat.tensor.members import give_members
from returnn.compat.tensor.names import TensorOldNames
from returnn.compat.tensor.templates import TensorOldTemplates
from returnn.tensor.dim import Dim
from returnn.tensor.tensor import Tensor

OLD_MEMBERS: dict[type, tuple[type, ...]] = {
    Dim: (DimOldNames,),
    Tensor: (TensorOldAxes, TensorOldLengths, TensorOldLayout, TensorOldTemplates, TensorOldNames),
}


def complete_tensor_classes() -> None:
    """Gives the classes their old names, and has them understand the old forms of arguments."""
    for owner, groups in OLD_MEMBERS.items():
        for members in groups:
            give_members(owner, members)
    Dim.dyn_size = Dim.dyn_size.setter(set_dyn_size)  # type: ignore[method-assign,attr-defined]
    Dim.__init__ = accept_old_options(Dim.__init__)  # type: ignore[method-assign]
    Tensor.__init__ = accept_old_forms(Tensor.__init__)  # type: ignore[method-assign]
