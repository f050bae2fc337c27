"""Values that follow from the number of the training step."""

from __future__ import annotations

from typing import Any

from returnn.frontend.piecewise_linear import PiecewiseLinear
from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Tensor

__all__ = ["PiecewiseLinearStepwiseScheduler"]


class PiecewiseLinearStepwiseScheduler(PiecewiseLinear):
    """`PiecewiseLinear` of the number of the step: `PiecewiseLinearStepwiseScheduler({0: 0.0, 10_000: 0.1})()`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """
        :param args: anything, so that it can stand for a function of something else; not used
        :param kwargs: likewise
        :return: scalar, the value for this step
        """
        return super().__call__(get_run_ctx().get_step_tensor())
