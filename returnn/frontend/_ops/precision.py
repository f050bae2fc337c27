"""
Mixed precision: products are computed in a shorter float than their operands have.

Only matrix products, convolutions and fused attention are: what comes out has the dtype of the operands again, so that
sums, normalizations, softmax, losses and what is fed back in a loop stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from returnn.frontend._ops.operands import OperandOps
from returnn.frontend.dtype import is_float_dtype
from returnn.util.errors import DtypeError


@dataclass(frozen=True)
class AmpPolicy:
    """What is computed in which dtype."""

    compute_dtype: str  # of products, such as "bfloat16"

    def __post_init__(self) -> None:
        if not is_float_dtype(self.compute_dtype):
            raise DtypeError(
                f"AmpPolicy: compute_dtype should be a float such as 'bfloat16', got {self.compute_dtype!r}."
            )


policies: list[AmpPolicy | None] = [None]  # the last one counts


class PrecisionOps(OperandOps):
    """Products, in the dtype of the policy."""

    @classmethod
    def product_raw(cls, compute: Callable[..., Any], *operands: Any, dtype: str) -> Any:
        """
        :param compute: function of the raw operands
        :param operands: raw tensors
        :param dtype: of the operands, and of the result
        :return: raw tensor
        """
        policy = policies[-1]
        if policy is None or policy.compute_dtype == dtype or not is_float_dtype(dtype):
            return compute(*operands)
        return cls.cast_raw(compute(*(cls.cast_raw(operand, policy.compute_dtype) for operand in operands)), dtype)
