"""Mean over batches."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import as_dims, fail, require_dims
from returnn.frontend._reduce import reduce_mean
from returnn.frontend.array_ import cast, where
from returnn.frontend.gradient import stop_gradient
from returnn.frontend.module import Module
from returnn.frontend.parameter import Parameter
from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Dim, Tensor


class RunningMean(Module):
    """
    Mean over all frames of all batches so far, where older ones count less: `mean = alpha * x + (1 - alpha) * mean`.
    Parameter: `mean` [in_dim].
    """

    def __init__(
        self,
        in_dim: Dim | Sequence[Dim],
        *,
        alpha: float,
        dtype: str | None = None,
        is_prob_distribution: bool | None = None,
        update_only_in_train: bool = True,
    ) -> None:
        """
        :param in_dim: of the mean, one dim or several
        :param alpha: how much of a batch goes into the mean, in (0, 1]
        :param dtype: of the mean; default: the default float dtype
        :param is_prob_distribution: whether there are probabilities over `in_dim`; then the mean is uniform at first.
            Otherwise, it is 0
        :param update_only_in_train: otherwise, it also changes outside of training
        """
        super().__init__()
        if not 0 < alpha <= 1:
            raise fail(f"RunningMean: alpha {alpha} should be above 0, and at most 1.")
        self.in_dim = in_dim
        self.shape = tuple(as_dims(in_dim))
        self.alpha = alpha
        self.is_prob_distribution = bool(is_prob_distribution)
        self.update_only_in_train = update_only_in_train
        initial = 1.0 / float(as_dims(in_dim)[-1].get_dim_value()) if is_prob_distribution else 0.0
        self.mean = Parameter(self.shape, dtype=dtype, auxiliary=True, initial=initial)

    def __call__(self, x: Tensor) -> Tensor:
        """
        :param x: {..., in_dim}
        :return: [in_dim], the mean with this batch
        """
        require_dims("RunningMean", x, self.shape)
        if get_backend_of(x).name == "template":
            return self.mean.copy_template()
        train_flag = get_run_ctx().is_train_flag_enabled(func=RunningMean) if self.update_only_in_train else True
        if train_flag is False:
            return self.mean
        axes = [dim for dim in x.dims if dim not in self.shape]
        batch_mean = cast(stop_gradient(reduce_mean(x, axis=axes) if axes else x), self.mean.dtype)
        change = (batch_mean - self.mean) * self.alpha
        self.mean.assign_add(where(train_flag, change, 0.0) if isinstance(train_flag, Tensor) else change)
        return self.mean
