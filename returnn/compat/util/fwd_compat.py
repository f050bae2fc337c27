"""Keeps functions of the user open for arguments that later versions add."""

from __future__ import annotations

from typing import Any

import numpy

fwd_compatibility_rng = numpy.random.default_rng()


def get_fwd_compat_kwargs() -> dict[str, Any]:
    """:return: an argument with a random name: a function which takes it has `**kwargs`, and also takes later ones"""
    return {f"__fwd_compat_random_arg_{fwd_compatibility_rng.integers(0, 100)}": None}
