"""
Documented path: reductions, and means over batches.

How they are computed, and that frames beyond the end of a sequence do not count, is in `_ops/reduce.py`.
"""

from returnn.frontend._reduce import (
    reduce,
    reduce_all,
    reduce_any,
    reduce_argmax,
    reduce_argmin,
    reduce_logmeanexp,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_out,
    reduce_sum,
    top_k,
)
from returnn.frontend.running_mean import RunningMean

__all__ = [
    "RunningMean",
    "reduce",
    "reduce_all",
    "reduce_any",
    "reduce_argmax",
    "reduce_argmin",
    "reduce_logmeanexp",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_out",
    "reduce_sum",
    "top_k",
]
