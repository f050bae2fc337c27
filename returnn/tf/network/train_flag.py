"""The train flag of a network, as the frontend's operations (dropout, batch normalization) see it."""

from __future__ import annotations

import contextlib
from typing import Any


def train_flag_ctx(train_flag: Any) -> Any:
    """:return: context in which `rf` knows whether this is training"""
    return contextlib.nullcontext()
