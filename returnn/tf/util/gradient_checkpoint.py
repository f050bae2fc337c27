"""Documented path: hands on how values are computed again for the gradient, to save memory."""

from returnn.compat.tf_util.gradient_checkpoint import (
    gradient_checkpoint_exclude_scope,
    gradient_checkpoint_scope,
    prepare_gradient_checkpointing,
)

__all__ = ["gradient_checkpoint_exclude_scope", "gradient_checkpoint_scope", "prepare_gradient_checkpointing"]
