"""Losses, gradients and parameters that are not finite."""

from __future__ import annotations

from returnn.util.errors import UserError


class NonFiniteError(UserError):
    """The training cannot go on."""
