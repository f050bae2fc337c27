"""Batch and layer normalization. The methods here are made of others; a backend may know a faster way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from returnn.frontend._ops.reduce import ReduceOps
from returnn.tensor import Dim, Tensor
from returnn.tensor._frontend import frontend


class NormalizationOps(ReduceOps):
    """Batch normalization (Ioffe and Szegedy 2015) and layer normalization (Ba et al. 2016)."""

    @classmethod
    def layer_norm(
        cls,
        source: Tensor,
        *,
        in_dims: Sequence[Dim],
        scale: Tensor,
        bias: Tensor | None,
        epsilon: float,
    ) -> Tensor:
        """
        :param source: {..., in_dims}
        :param in_dims: over these, the mean becomes 0 and the variance 1
        :param scale: [in_dims], factor
        :param bias: [in_dims], added
        :param epsilon: added to the variance
        :return: the dims of source
        """
        out: Tensor = frontend().normalize(source, axis=in_dims, epsilon=epsilon) * scale
        if bias is not None:
            out = out + bias
        has_feature_dim = source.feature_dim is not None and source.feature_dim in out.dims
        return out.copy_with_roles(feature_dim=source.feature_dim) if has_feature_dim else out

    @classmethod
    def batch_norm(
        cls,
        source: Tensor,
        *,
        in_dim: Dim | Sequence[Dim],
        running_mean: Any,
        running_variance: Any,
        gamma: Tensor | None,
        beta: Tensor | None,
        epsilon: float,
        momentum: float,
        affine: bool,
        use_mask: bool,
        distributed: bool = False,
        func: Callable[..., Any] | None = None,
    ) -> Tensor:
        """
        In training, with the mean and variance of the batch, which the running values move towards. The running
        variance is the unbiased one, as in PyTorch. Otherwise, with the running values.

        :param source: {..., in_dim}
        :param in_dim: one dim or several: what has its own mean and variance
        :param running_mean: `Parameter` [in_dim]; None: always use those of the batch
        :param running_variance: `Parameter` [in_dim], or None
        :param gamma: [in_dim], factor, if `affine`
        :param beta: [in_dim], added, if `affine`
        :param epsilon: added to the variance
        :param momentum: how much of the batch goes into the running values
        :param affine: whether gamma and beta are used
        :param use_mask: leave out frames beyond the end of their sequence
        :param distributed: over all processes of a distributed training
        :param func: whose train flag counts, see `RunCtx.train_flag_ctx`
        :return: the dims of source
        """
        rf = frontend()
        in_dims = [in_dim] if isinstance(in_dim, Dim) else list(in_dim)
        axes = [dim for dim in source.dims if dim not in in_dims]
        train_flag = rf.get_run_ctx().is_train_flag_enabled(func=func)
        mean, variance = running_mean, running_variance
        if mean is None or variance is None:
            mean, variance = rf.moments(source, axes, use_mask=use_mask, distributed=distributed)
        elif train_flag is not False:
            mean, variance = _batch_norm_in_training(
                cls, source, axes, mean, variance, momentum, train_flag, use_mask=use_mask, distributed=distributed
            )
        factor = rf.rsqrt(variance + epsilon)
        if affine and gamma is not None:
            factor = factor * gamma
        out = (source - mean) * factor
        if affine and beta is not None:
            out = out + beta
        result: Tensor = out.copy_compatible_to_dims(source.dims)
        result.feature_dim = source.feature_dim
        return result


def last_dims(source: Tensor, in_dims: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """:return: `in_dims` in their order in the source, if they are its last ones and of known size; otherwise None"""
    dims = source.dims[-len(in_dims) :]
    return dims if set(dims) == set(in_dims) and all(dim.size and dim.capacity is None for dim in dims) else None


def _batch_norm_in_training(
    backend: type[NormalizationOps],
    source: Tensor,
    axes: Sequence[Dim],
    running_mean: Any,
    running_variance: Any,
    momentum: float,
    train_flag: bool | Tensor,
    *,
    use_mask: bool,
    distributed: bool,
) -> tuple[Tensor, Tensor]:
    """:return: mean and variance to use. The running ones are changed."""
    rf = frontend()
    mean, variance = rf.moments(source, axes, use_mask=use_mask, distributed=distributed)
    count = rf.num_elements_of_shape(axes, use_mask=use_mask)
    count = rf.cast(rf.convert_to_tensor(count, dims=(), dtype="int32"), source.dtype)
    if distributed:
        count = backend.reduce_distributed(count, mode="sum")
    unbiased = variance * (count / rf.maximum(count - 1.0, 1.0))
    used = []
    for running, value, new in ((running_mean, mean, mean), (running_variance, variance, unbiased)):
        change = (rf.stop_gradient(new) - running) * momentum
        if isinstance(train_flag, bool):
            used.append(value)
        else:
            used.append(rf.where(train_flag, value, running))
            change = rf.where(train_flag, change, 0.0)
        running.assign_add(change)
    return used[0], used[1]
