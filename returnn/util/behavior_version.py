"""
The behavior version says which defaults a config expects.

When a default turns out to be a bad one, it changes only for configs that ask for a newer `behavior_version`. So a
config without one means today what it meant when it was written. Code asks `BehaviorVersion.get() >= 21`, or says
with `BehaviorVersion.require` what is not allowed any more.
"""

from __future__ import annotations

from collections.abc import Callable

from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import warn_deprecated


class RequirementNotSatisfied(ConfigError):
    """The config does what is not allowed with its behavior version."""


class BehaviorVersion:
    """The behavior version of this process. It is set once, when the config is known."""

    RequirementNotSatisfied = RequirementNotSatisfied

    # Called without arguments after the version, or the minimum, changed; and after a reset.
    handle_new_min_version_callbacks: list[Callable[[], None]] = []  # noqa: RUF012 (documented as class attribute)
    reset_callbacks: list[Callable[[], None]] = []  # noqa: RUF012

    _latest_behavior_version = 30
    _behavior_version: int | None = None
    _min_behavior_version = 0

    @classmethod
    def set(cls, version: int | None) -> None:
        """
        :param version: the option `behavior_version` of the config; None if it has none
        :raises ConfigError: if there is no such version, or if another one is set already
        """
        if version is None:
            return
        if not cls._min_behavior_version <= version <= cls._latest_behavior_version:
            raise ConfigError(
                f"option 'behavior_version': there is no version {version}.\n"
                f"  Possible: {cls._min_behavior_version} to {cls._latest_behavior_version}."
            )
        if cls._behavior_version is not None and cls._behavior_version != version:
            raise ConfigError(
                f"option 'behavior_version': is {cls._behavior_version} already, and cannot become {version}.\n"
                "  Everything that runs in one process shares one version."
            )
        cls._behavior_version = version
        cls._handle_new_version()

    @classmethod
    def set_min_behavior_version(cls, min_behavior_version: int) -> None:
        """
        :param min_behavior_version: what is used from now on needs at least this one
        :raises ConfigError: if the config set a lower one
        """
        if min_behavior_version <= cls._min_behavior_version:
            return
        if cls._behavior_version is not None and cls._behavior_version < min_behavior_version:
            raise ConfigError(
                f"option 'behavior_version': {cls._behavior_version} is too low, at least {min_behavior_version} is "
                "needed by what the config uses."
            )
        cls._min_behavior_version = min_behavior_version
        cls._handle_new_version()

    @classmethod
    def get(cls) -> int:
        """:return: what the config set, or else the minimum, which usually is 0"""
        return cls._min_behavior_version if cls._behavior_version is None else cls._behavior_version

    @classmethod
    def get_if_set(cls) -> int | None:
        """:return: what the config set"""
        return cls._behavior_version

    @classmethod
    def is_set(cls) -> bool:
        """:return: whether the config has set a version"""
        return cls._behavior_version is not None

    @classmethod
    def require(cls, condition: bool, message: str, version: int) -> None:
        """
        :param condition: which has to be true
        :param message: what to use instead
        :param version: from which on `condition` is needed; below, there is only a warning
        :raises BehaviorVersion.RequirementNotSatisfied:
        """
        if condition:
            return
        if cls.get() >= version:
            raise cls.RequirementNotSatisfied(f"{message} (since behavior_version {version}, here {cls.get()})")
        warn_deprecated(message, behavior_version=version)

    @classmethod
    def reset(cls) -> None:
        """Forgets the version and the minimum, e.g. before the next config of the same process."""
        cls._behavior_version = None
        cls._min_behavior_version = 0
        for callback in cls.reset_callbacks:
            callback()

    _reset = reset  # older tests of others know this name

    @classmethod
    def _handle_new_version(cls) -> None:
        for callback in cls.handle_new_min_version_callbacks:
            callback()
