"""A dict that takes only some keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any


class CollectOutputsDict(dict[str, Any]):
    """For code that offers many outputs, of which somebody wants a few."""

    def __init__(self, *args: Any, allowed_key_patterns: Collection[str] | None = None, **kwargs: Any):
        """
        :param args: as of a dict
        :param allowed_key_patterns: as of file names, e.g. "layer_*"; None allows all keys
        :param kwargs: as of a dict
        """
        super().__init__()
        self.allowed_key_patterns = allowed_key_patterns
        self.update(*args, **kwargs)

    def is_key_allowed(self, key: str) -> bool:
        """:return: whether setting this key is more than wasted time"""
        patterns = self.allowed_key_patterns
        return patterns is None or any(fnmatchcase(key, pattern) for pattern in patterns)

    def __setitem__(self, key: str, value: Any) -> None:
        if self.is_key_allowed(key):
            super().__setitem__(key, value)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """:return: the value, or the default, which is kept if the key is allowed"""
        if key not in self:
            self[key] = default
        return self.get(key, default)

    def update(  # type: ignore[override]
        self, mapping: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), **kwargs: Any
    ) -> None:
        """Takes over those entries whose key is allowed."""
        for key, value in {**dict(mapping), **kwargs}.items():
            self[key] = value


def is_key_allowed_in_collect_outputs_dict(collect_outputs: dict[str, Any] | None, key: str) -> bool:
    """:return: whether somebody wants this output; `collect_outputs` is an ordinary dict, or None for nothing"""
    if collect_outputs is None:
        return False
    return collect_outputs.is_key_allowed(key) if isinstance(collect_outputs, CollectOutputsDict) else True
