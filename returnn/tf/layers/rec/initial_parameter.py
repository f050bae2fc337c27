"""The state before the first frame as a trained parameter: `initial_state="var"`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from returnn.tensor import Tensor


@dataclass(frozen=True)
class InitialParameter:
    """Makes the parameter when it is called."""

    layer: Any  # UnitLayer
    name: str

    def __call__(self) -> Tensor:
        """:return: [F]: the parameter"""
        layer = self.layer
        layer._has_rec_scope = layer.has_initial_state_in_unit()
        try:
            return layer.parameter(f"initial_{self.name}", [layer.output_feature_dim()], initial=0.0)
        finally:
            layer._has_rec_scope = True
