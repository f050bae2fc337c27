"""Which options of audio features the description of a data set has, for one of its data keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_AUDIO = "audio"
_PARTS = "datasets"
_INNER = "dataset"  # option of wrappers, which may be a function as well


def audio_options(description: Any, key: str) -> Mapping[str, Any] | None:
    """
    :param description: of a data set, also with others in it, or a function that gives it
    :param key: of the data
    :return: the option `audio` of the data set where the key is from, or of the first one that has it
    """
    if callable(description) and not isinstance(description, type):
        description = description()
    if isinstance(description, Mapping):
        return _of_data_set(description, key) if _is_data_set(description) else _first(description.values(), key)
    return _first(description, key) if isinstance(description, (list, tuple)) else None


def _is_data_set(value: Any) -> bool:
    """Names of data sets, as those in `MetaDataset`, can be those of any option, and of any data key."""
    return isinstance(value, Mapping) and "class" in value


def _of_data_set(options: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    own = options.get(_AUDIO)
    if isinstance(own, Mapping) and not _is_data_set(own):
        return own
    parts = options.get(_PARTS)
    if isinstance(parts, Mapping):
        for name, key_there in _origins(options.get("data_map"), key):
            found = audio_options(parts.get(name), key_there)
            if found is not None:
                return found
    return _first([value for option, value in options.items() if option == _INNER or not callable(value)], key)


def _origins(data_map: Any, key: str) -> Iterator[tuple[str, str]]:
    """:return: data sets and their keys that become this key: by `MetaDataset`, or by `CombinedDataset`"""
    if not isinstance(data_map, Mapping):
        return
    for one, other in data_map.items():
        if one == key and isinstance(other, (tuple, list)):
            yield other[0], other[1]
        elif other == key and isinstance(one, tuple):
            yield one[0], one[1]


def _first(values: Iterable[Any], key: str) -> Mapping[str, Any] | None:
    found = (audio_options(value, key) for value in values)
    return next((options for options in found if options is not None), None)
