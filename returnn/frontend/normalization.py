"""Normalization."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.config.current import current_config
from returnn.frontend._backend import get_backend_of
from returnn.frontend._num_elements import num_elements_of_shape
from returnn.frontend._ops.operands import as_dims, expand_for_mask, fail, require_dims
from returnn.frontend._reduce import reduce_mean, reduce_sum
from returnn.frontend._use_mask import masks_frames
from returnn.frontend.array_ import cast, merge_dims, split_dims
from returnn.frontend.math_ import combine_bc, maximum, rsqrt, square, squared_difference
from returnn.frontend.module import Module
from returnn.frontend.parameter import Parameter
from returnn.tensor import Dim, Tensor


def moments(
    x: Tensor,
    axis: Dim | Sequence[Dim],
    *,
    use_mask: bool = True,
    correction: int | float | Tensor = 0,
    distributed: bool = False,
) -> tuple[Tensor, Tensor]:
    """
    :param x: {..., axis}
    :param axis: one dim or several
    :param use_mask: leave out frames beyond the end of their sequence
    :param correction: the sum of squared differences is divided by the number of frames minus this; 1 for the unbiased
        variance
    :param distributed: over all processes of a distributed training
    :return: {...}: mean; variance
    """
    dims = as_dims(axis)
    require_dims("moments", x, dims)
    if not distributed and isinstance(correction, (int, float)) and correction == 0:
        mean = reduce_mean(x, axis=dims, use_mask=use_mask)
        return mean, reduce_mean(_squared_difference(x, mean), axis=dims, use_mask=use_mask)
    count = _count(x, dims, use_mask, distributed)
    mean = _divided(reduce_sum(x, axis=dims, use_mask=use_mask, distributed=distributed), count)
    squares = reduce_sum(_squared_difference(x, mean), axis=dims, use_mask=use_mask, distributed=distributed)
    return mean, _divided(squares, maximum(combine_bc(count, "-", correction), 1.0))


def normalize(a: Tensor, *, axis: Dim | Sequence[Dim], epsilon: float = 1e-6) -> Tensor:
    """
    :param a: {..., axis}
    :param axis: one dim or several
    :param epsilon: added to the variance
    :return: the dims of a; over `axis`, the mean is 0 and the variance 1
    """
    mean, variance = moments(a, axis)
    out = combine_bc(combine_bc(a, "-", mean), "*", rsqrt(variance + epsilon))
    return out.copy_compatible_to_dims(a.dims) if out.dims != a.dims and len(out.dims) == len(a.dims) else out


def _squared_difference(x: Tensor, mean: Tensor) -> Tensor:
    if any(dim not in x.dims for dim in mean.dims):  # lengths differ over a dim which x does not have
        x = expand_for_mask(get_backend_of(x).expand_dim, x, [d for d in x.dims if d not in mean.dims])
    return squared_difference(x, mean)


def _count(x: Tensor, dims: Sequence[Dim], use_mask: bool, distributed: bool) -> Tensor:
    """:return: number of frames, at least 1, as dtype of x"""
    backend = get_backend_of(x)
    number = num_elements_of_shape(dims, use_mask=use_mask)
    if not isinstance(number, Tensor):
        number = backend.convert_to_tensor(number, dims=(), dtype="int32")
    count = maximum(cast(number, x.dtype), 1.0)
    return backend.reduce_distributed(count, mode="sum") if distributed else count


def _divided(total: Tensor, count: Tensor) -> Tensor:
    return combine_bc(total, "/", count)


class _Affine(Module):
    """Parameters `scale`, at first 1, and `bias`, at first 0: [in_dim]."""

    def __init__(self, in_dim: Dim | Sequence[Dim], *, eps: float, with_bias: bool = True) -> None:
        super().__init__()
        self.in_dim = in_dim
        self.eps = eps
        dims = as_dims(in_dim)
        self.scale = Parameter(dims, initial=1.0)
        self.bias = Parameter(dims, initial=0.0) if with_bias else None

    def _affine(self, normalized: Tensor, like: Tensor) -> Tensor:
        """:return: normalized * scale + bias, with the feature dim of `like`"""
        out = normalized * self.scale
        if self.bias is not None:
            out = out + self.bias
        if like.feature_dim is not None and like.feature_dim in out.dims:
            out.feature_dim = like.feature_dim
        return out


class LayerNorm(_Affine):
    """Mean 0 and variance 1 over the features of each frame (Ba et al. 2016). Parameters: `scale`, `bias` [in_dim]."""

    def __init__(self, in_dim: Dim | Sequence[Dim], *, eps: float = 1e-6, with_bias: bool = True) -> None:
        """
        :param in_dim: the features, one dim or several
        :param eps: added to the variance
        :param with_bias: whether there is one
        """
        super().__init__(in_dim, eps=eps, with_bias=with_bias)

    def __call__(self, x: Tensor) -> Tensor:
        """
        :param x: {..., in_dim}
        :return: the dims of x
        """
        return get_backend_of(x).layer_norm(
            x, in_dims=as_dims(self.in_dim), scale=self.scale, bias=self.bias, epsilon=self.eps
        )


class RMSNorm(_Affine):
    """Mean square 1 over the features of each frame (Zhang and Sennrich 2019). Parameters: `scale`, `bias` [in_dim]."""

    def __init__(self, in_dim: Dim | Sequence[Dim], *, eps: float = 1e-6, with_bias: bool = False) -> None:
        """
        :param in_dim: the features, one dim or several
        :param eps: added to the mean square
        :param with_bias: whether there is one
        """
        super().__init__(in_dim, eps=eps, with_bias=with_bias)

    def __call__(self, x: Tensor) -> Tensor:
        """
        :param x: {..., in_dim}
        :return: the dims of x
        """
        require_dims("RMSNorm", x, as_dims(self.in_dim))
        return self._affine(x * rsqrt(reduce_mean(square(x), axis=self.in_dim) + self.eps), x)


class _Groups(_Affine):
    """Normalization of groups of features. Parameters: `scale`, `bias` [in_dim]."""

    in_dim: Dim

    def __init__(self, in_dim: Dim, *, num_groups: int | Dim, eps: float = 1e-6) -> None:
        """
        :param in_dim: the features
        :param num_groups: they are divided into so many groups, which are normalized on their own
        :param eps: added to the variance
        """
        super().__init__(in_dim, eps=eps)
        self.num_groups = Dim(num_groups, name="num_groups") if isinstance(num_groups, int) else num_groups
        if in_dim.size is None or self.num_groups.size is None or in_dim.size % self.num_groups.size:
            raise fail(
                f"{type(self).__name__}: the features {in_dim} cannot be divided into {self.num_groups.size} groups."
            )
        self.in_group_dim = in_dim.div_left(self.num_groups)

    def _normalized(self, x: Tensor, further_dims: Sequence[Dim]) -> Tensor:
        require_dims(type(self).__name__, x, [self.in_dim, *further_dims])
        groups = split_dims(x, axis=self.in_dim, dims=(self.num_groups, self.in_group_dim))
        groups = normalize(groups, axis=[*further_dims, self.in_group_dim], epsilon=self.eps)
        out, _ = merge_dims(groups, dims=(self.num_groups, self.in_group_dim), out_dim=self.in_dim)
        return self._affine(out, x)


class GroupNorm(_Groups):
    """Mean 0 and variance 1 over each group of features of each frame. Parameters: `scale`, `bias` [in_dim]."""

    def __call__(self, x: Tensor) -> Tensor:
        """
        :param x: {..., in_dim}
        :return: the dims of x
        """
        return self._normalized(x, [])


class GroupNormSpatial(_Groups):
    """
    Mean 0 and variance 1 over each group of features and all frames of a sequence (Wu and He 2018). Parameters:
    `scale`, `bias` [in_dim].
    """

    def __call__(self, x: Tensor, *, spatial_dim: Dim | Sequence[Dim]) -> Tensor:
        """
        :param x: {..., spatial_dim, in_dim}
        :param spatial_dim: of the frames, one dim or several
        :return: the dims of x
        """
        return self._normalized(x, as_dims(spatial_dim))


class Normalize(Module):
    """`normalize`, with parameters `scale` and `bias` [param_dims]."""

    def __init__(
        self, *, param_dims: Dim | Sequence[Dim], epsilon: float = 1e-6, scale: bool = True, bias: bool = True
    ) -> None:
        """
        :param param_dims: of the parameters
        :param epsilon: added to the variance
        :param scale: whether there is a factor, at first 1
        :param bias: whether there is one, at first 0
        """
        super().__init__()
        self.epsilon = epsilon
        dims = as_dims(param_dims)
        self.scale = Parameter(dims, initial=1.0) if scale else None
        self.bias = Parameter(dims, initial=0.0) if bias else None

    def __call__(self, a: Tensor, *, axis: Dim | Sequence[Dim]) -> Tensor:
        """
        :param a: {..., axis, param_dims}
        :param axis: over which the mean becomes 0 and the variance 1, before the parameters
        :return: the dims of a
        """
        out = normalize(a, axis=axis, epsilon=self.epsilon)
        if self.scale is not None:
            out = combine_bc(out, "*", self.scale)
        return out if self.bias is None else combine_bc(out, "+", self.bias)


class BatchNorm(Module):
    """
    Mean 0 and variance 1 of each feature (Ioffe and Szegedy 2015): in training those of the batch, otherwise the
    running ones. Parameters: `running_mean`, `running_variance`, `gamma`, `beta` [in_dim].
    """

    def __init__(
        self,
        in_dim: Dim | Sequence[Dim],
        *,
        affine: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-3,
        track_running_stats: bool = True,
        use_mask: bool | None = None,
        distributed: bool | None = None,
    ) -> None:
        """
        :param in_dim: the features, one dim or several
        :param affine: whether there are a factor `gamma`, at first 1, and `beta`, which is added, at first 0
        :param momentum: how much of a batch goes into the running values
        :param eps: added to the variance
        :param track_running_stats: whether there are running values; otherwise, those of the batch are always used
        :param use_mask: leave out frames beyond the end of their sequence. Default: see `use_mask_default`
        :param distributed: over all processes of a distributed training. Default: `batch_norm_distributed_default`
        """
        super().__init__()
        self.in_dim = in_dim
        dims = as_dims(in_dim)
        self.running_mean = Parameter(dims, auxiliary=True, initial=0.0) if track_running_stats else None
        self.running_variance = Parameter(dims, auxiliary=True, initial=1.0) if track_running_stats else None
        self.affine = affine
        self.gamma = Parameter(dims, initial=1.0) if affine else None
        self.beta = Parameter(dims, initial=0.0) if affine else None
        self.momentum = momentum
        self.eps = eps
        self.use_mask = masks_frames("BatchNorm") if use_mask is None else use_mask
        self.distributed = batch_norm_distributed_default() if distributed is None else distributed

    def __call__(self, source: Tensor) -> Tensor:
        """
        :param source: {..., in_dim}
        :return: the dims of source
        """
        require_dims("BatchNorm", source, as_dims(self.in_dim))
        return get_backend_of(source).batch_norm(
            source,
            in_dim=self.in_dim,
            running_mean=self.running_mean,
            running_variance=self.running_variance,
            gamma=self.gamma,
            beta=self.beta,
            epsilon=self.eps,
            momentum=self.momentum,
            affine=self.affine,
            use_mask=bool(self.use_mask),
            distributed=self.distributed,
            func=BatchNorm,
        )


def batch_norm_distributed_default() -> bool:
    """:return: whether batch norm is over all processes, if nothing else is said: `rf_batch_norm_distributed`"""
    config = current_config()
    return False if config is None else config.options.rf_batch_norm_distributed


__all__ = [
    "BatchNorm",
    "GroupNorm",
    "GroupNormSpatial",
    "LayerNorm",
    "Normalize",
    "RMSNorm",
    "batch_norm_distributed_default",
    "moments",
    "normalize",
]
