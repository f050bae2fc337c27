"""
A way to find errors where they are made: each layer is checked by its class as soon as it is recorded, rather than when
the net dict is built. The template layer is `Layer.debug_layer`.
"""

from __future__ import annotations

_is_enabled = [False]


def enable_debug_eager_mode() -> None:
    """From now on, each layer is checked when it is recorded."""
    _is_enabled[0] = True


def disable_debug_eager_mode() -> None:
    """Layers are not checked when they are recorded."""
    _is_enabled[0] = False


def is_debug_eager_mode_enabled() -> bool:
    """:return: whether each layer is checked when it is recorded"""
    return _is_enabled[0]
