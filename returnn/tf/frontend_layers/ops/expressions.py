"""Operations that no layer class does as the frontend does them. Each is an expression in a layer of class "eval"."""

from __future__ import annotations

from typing import Any

from returnn.tf.frontend_layers.recording import record_expression

_OPERATIONS = (
    "reshape", "flip_no_mask", "masked_scatter", "scatter", "sort",
    "make_complex", "complex_as_real", "real_as_complex",
    "stft", "lstm", "ctc_best_path", "random_choice_with_replacement",
)  # fmt: skip


def _expression(operation: str) -> Any:
    def compute(cls: type, *args: Any, **kwargs: Any) -> Any:
        return record_expression(operation, *args, **kwargs)

    compute.__name__ = operation
    compute.__doc__ = f"""See `Backend.{operation}`."""
    return classmethod(compute)


class ExpressionLayers:
    """For their meaning see `returnn.frontend._backend.Backend`."""


for _operation in _OPERATIONS:
    setattr(ExpressionLayers, _operation, _expression(_operation))
