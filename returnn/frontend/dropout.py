"""Dropout (Srivastava et al. 2014)."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.config.current import current_config
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import as_dims, require_dims
from returnn.frontend._watched_weights import note_dropout
from returnn.frontend.array_ import cast, where
from returnn.frontend.cond import cond
from returnn.frontend.rand import random_uniform
from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Dim, Tensor
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import UserError


def dropout(
    source: Tensor,
    drop_prob: float | Tensor,
    *,
    axis: Dim | Sequence[Dim] | bool | None = None,
    on_forward: bool = False,
) -> Tensor:
    """
    In training, entries become 0 with a probability; what is left is scaled, so that the mean stays.

    :param source: [...]
    :param drop_prob: in [0, 1)
    :param axis: the dims along which entries are dropped on their own; along others they are dropped together.
        None: all; False: the same
    :param on_forward: also outside of training
    :return: the dims of source
    :raises DimError: if `axis` has a dim which is not there
    """
    if isinstance(drop_prob, (int, float)):
        if not 0 <= drop_prob < 1:
            raise UserError(f"dropout: drop_prob should be at least 0 and below 1, not {drop_prob}.")
        if drop_prob == 0:
            return source
    if axis is None or isinstance(axis, bool):
        dims = list(source.dims)
    else:
        wanted = as_dims(axis)
        require_dims("dropout", source, wanted)
        dims = [dim for dim in source.dims if dim in wanted]

    def dropped() -> Tensor:
        out = _by_one_operation(source, drop_prob) if dims == list(source.dims) else None
        if out is not None:
            return out
        noise_dtype = "float32" if source.dtype.startswith(("float16", "bfloat")) else source.dtype
        noise = random_uniform(dims, dtype=noise_dtype, device=source.device)
        keep = noise >= drop_prob
        scale = 1.0 / (1.0 - drop_prob)
        factor = cast(where(keep, scale, 0.0), source.dtype)
        out = source * factor
        if source.feature_dim is not None:
            out.feature_dim = source.feature_dim
        return out

    def apply() -> Tensor:
        out = dropped()
        note_dropout(out, source)
        return out

    if on_forward:
        return apply()
    train_flag = get_run_ctx().is_train_flag_enabled(func=dropout)
    if isinstance(train_flag, bool):
        return apply() if train_flag else source
    return cond(train_flag, apply, lambda: source)


def _by_one_operation(source: Tensor, drop_prob: float | Tensor) -> Tensor | None:
    """:return: each entry dropped on its own, if the backend has one operation for that"""
    backend = get_backend_of(source)
    if isinstance(drop_prob, Tensor) or source.dtype != "float32" or not backend.computes:
        return None
    raw = backend.dropout_raw(source.raw_tensor, drop_prob, 1.0 / (1.0 - drop_prob))
    if raw is None:
        return None
    return Tensor("dropout", source.dims, source.dtype, feature_dim=source.feature_dim, raw_tensor=raw)


def dropout_broadcast_default() -> bool:
    """
    :return: whether modules drop along all dims but the feature dim together, if nothing else is said: the option
        `rf_dropout_broadcast` of the config, or else True up to behavior version 18
    """
    config = current_config()
    value = None if config is None else config.options.rf_dropout_broadcast
    return BehaviorVersion.get() <= 18 if value is None else value


__all__ = ["dropout", "dropout_broadcast_default"]
