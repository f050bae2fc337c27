"""Losses, gradients and parameters that are not finite."""

from __future__ import annotations

from returnn.util.errors import UserError

WHAT_HELPS = (  # against a loss of a model in Python
    "  Lower 'learning_rate', set 'gradient_clip_global_norm', or look at the data: rf.ctc_loss is infinite where "
    "targets need more frames; '++task check' names these, and says how to go on."
)


class NonFiniteError(UserError):
    """The training cannot go on."""
