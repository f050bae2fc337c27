"""A result that can say why it is so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class ResultWithReason(Generic[T]):
    """E.g. False, because the file is too old."""

    result: T
    reason: str | None = None
