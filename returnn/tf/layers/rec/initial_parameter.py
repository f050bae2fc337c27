"""The state before the first frame as a trained parameter: `initial_state="var"`."""

from __future__ import annotations

from dataclasses import dataclass

from returnn.tensor import Tensor
from returnn.tf.layers.rec.recurrent_layer import RecurrentLayer


@dataclass(frozen=True)
class InitialParameter:
    """Makes the parameter when it is called."""

    layer: RecurrentLayer
    name: str
    in_unit: bool  # whether it is among the parameters of the unit; else beside them

    def __call__(self) -> Tensor:
        """:return: [F]: the parameter"""
        with self.layer.naming_parameters(in_unit=self.in_unit):
            return self.layer.parameter(f"initial_{self.name}", [self.layer.output_feature_dim()], initial=0.0)
