"""Whether an operation leaves out padded frames, where a config can decide about it."""

from __future__ import annotations

from returnn.config.current import current_config
from returnn.util.behavior_version import BehaviorVersion


def use_mask_default(
    *,
    default: bool | None = None,
    default_false_for_behavior_version_up_to: int | None = None,
    func_name: str | None = None,
) -> bool | None:
    """
    :param default: if neither the config nor the behavior version says anything
    :param default_false_for_behavior_version_up_to: False for configs with this behavior version or a lower one
    :param func_name: the option `rf_use_mask_<func_name>` of the config counts before `rf_use_mask`
    :return: whether to leave out frames beyond the end of their sequence
    """
    config = current_config()
    if config is not None:
        for name in ([f"rf_use_mask_{func_name}"] if func_name else []) + ["rf_use_mask"]:
            value: bool | None = getattr(config.options, name)
            if value is not None:
                return value
    limit = default_false_for_behavior_version_up_to
    if limit is not None and BehaviorVersion.get() <= limit:
        return False
    return default


def masks_frames(func_name: str) -> bool:
    """:return: whether this operation leaves out frames beyond the end of their sequence, if a call does not say it"""
    return bool(use_mask_default(default=True, default_false_for_behavior_version_up_to=22, func_name=func_name))
