"""Documented path: hands on what configs import from `returnn.util.basic`. Each theme has a module of its own."""

from __future__ import annotations

from returnn.util.behavior_version import BehaviorVersion
from returnn.util.not_specified import NotSpecified

__all__ = ["BehaviorVersion", "NotSpecified"]
