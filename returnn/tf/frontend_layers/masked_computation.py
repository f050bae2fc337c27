"""
`MaskedComputation`: layers which only see the frames of a loop where a mask is true.

    with loop:
        mask = ...  # [B], bool
        with MaskedComputation(mask) as masked:
            y = slow_rnn(loop.unstack(x))
        y = masked.result(y)  # where the mask is false, what it was in the last frame where it was true
"""

from __future__ import annotations

from typing import Any

from returnn.frontend.module import Module
from returnn.tensor import ControlFlowContext, Tensor
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.make_layer import make_layer, make_sub_layer
from returnn.tf.frontend_layers.recording import as_recorded
from returnn.util.errors import DtypeError, UserError


class MaskedComputation:
    """See the head of this module."""

    def __init__(self, mask: Tensor[Any], *, name: str = "masked_computation") -> None:
        """
        :param mask: bool: in a loop [B]
        :param name: of the layer
        """
        if mask.dtype != "bool":
            raise DtypeError(f"MaskedComputation: the mask {mask} should be bool.")
        if Layer.inner_loop() is None:
            raise UserError("MaskedComputation: is only possible inside of a loop.\n  Outside, use rf.masked_select.")
        self.mask = mask
        self.name = name
        self.layer_module = MaskedComputationModule(self)
        outer = Layer.inner_control_flow()
        ctx = ControlFlowContext(kind=ControlFlowContext.Types.Cond, identifier=name, outer_ctx=outer)
        self.name_ctx = Layer(suggested_name=name)
        self._inside = Layer(
            parent=self.name_ctx, name="inside", virtual=True, can_access_children=False, new_control_flow_ctx=ctx
        )
        self._results: dict[int, Tensor[Any]] = {}

    def __enter__(self) -> MaskedComputation:
        self._inside.__enter__()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        self._inside.__exit__(exc_type, exc_val, exc_tb)

    def result(self, value: Tensor[Any]) -> Tensor[Any]:
        """
        :param value: computed inside
        :return: the same for those outside
        """
        layer: Layer = value.raw_tensor
        if self._inside not in layer.ancestors():
            raise UserError(f"MaskedComputation: {value} was not computed inside of {self.name!r}.")
        if id(layer) in self._results:
            return self._results[id(layer)]
        if self.name_ctx.layer_dict is None:
            self._inside.make_default_output(value)
            self.layer_module()
            masked = value.copy_template()
            self.name_ctx.set_tensor(masked)
        else:
            place = self._inside.get_new_child("result")
            kept = make_layer({"class": "copy", "from": value}, name=place, predefined_out_data=value)
            self._inside.marked_outputs.append(kept)
            masked = make_sub_layer(self.name_ctx, place.name or "", value.copy_template())
        # If the layer is moved out of the loop, it has the frames alone where the mask is true.
        options = {"class": "unmask", "from": masked, "mask": as_recorded(self.mask)}
        out = make_layer(options, name="unmask", predefined_out_data=value.copy_template())
        self._results[id(layer)] = out
        return out


class MaskedComputationModule(Module):
    """Makes the layer."""

    def __init__(self, masked_computation: MaskedComputation) -> None:
        """:param masked_computation: to which it belongs"""
        super().__init__()
        self.masked_computation = masked_computation

    def __call__(self) -> Layer:
        """:return: the layer"""
        masked = self.masked_computation
        unit = {"class": "subnetwork", "from": [], "subnetwork": masked._inside.make_net()}
        mask = as_recorded(masked.mask)
        masked.name_ctx.layer_dict = {"class": "masked_computation", "from": mask, "mask": mask, "unit": unit}
        return masked.name_ctx
