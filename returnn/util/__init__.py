"""Small helpers, one theme per module."""

from returnn.util.behavior_version import BehaviorVersion

__all__ = ["BehaviorVersion"]
