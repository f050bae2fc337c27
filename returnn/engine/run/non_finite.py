"""Losses, gradients and parameters that are not finite."""

from __future__ import annotations

from returnn.util.errors import UserError

WHAT_HELPS = (  # against a loss of a model in Python
    "  Lower 'learning_rate', set 'gradient_clip_global_norm', or look at the data: rf.ctc_loss is infinite where "
    "targets need more frames; '++task check' names these, and says how to go on."
)


class NonFiniteError(UserError):
    """The training cannot go on."""


def text_about_parameter(name: str) -> str:
    """
    :param name: of a parameter that is not finite before a step whose loss is not
    :return: lines of the error about that: neither the data nor the loss is the cause then
    """
    return (
        f"  The parameter {name!r} is not finite itself, though loss and gradients of each update were.\n"
        "  Look at 'optimizer' and its options, such as those called epsilon, at 'learning_rate', or at where the"
        " parameters come from."
    )
