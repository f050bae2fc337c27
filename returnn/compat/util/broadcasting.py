"""Whether it is fine that none of several tensors has all dims of the result."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from returnn.util.behavior_version import BehaviorVersion
from returnn.util.not_specified import NotSpecified


class _HasDims(Protocol):
    """A tensor."""

    dims: Any


def validate_broadcast_all_sources(
    allow_broadcast_all_sources: bool | type[NotSpecified], inputs: Sequence[_HasDims], common: Collection[Any]
) -> None:
    """
    :param allow_broadcast_all_sources: whether it is fine. Default: not since behavior version 4
    :param inputs: tensors
    :param common: dims of the result
    :raises RequirementNotSatisfied: if it is not fine
    """
    if allow_broadcast_all_sources is True or any(all(dim in x.dims for dim in common) for x in inputs):
        return
    message = f"no input has all dims {[str(dim) for dim in common]}: {[str(x) for x in inputs]}"
    version = 4 if allow_broadcast_all_sources is NotSpecified else 0
    BehaviorVersion.require(False, message, version)
