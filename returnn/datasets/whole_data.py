"""
Descriptions of data sets whose epochs have all of the data.

A training takes a part of it in each epoch, by the options `partition_epoch`, `epoch_wise_filter` and `multi_epoch`.
What is no training, such as decoding or the mean over the data, is about all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# With these, the first epoch has everything, once. `repeat_epoch` is not among them: it gives data more weight.
_WHOLE = {"partition_epoch": 1, "partitionEpoch": 1, "epoch_wise_filter": None, "multi_epoch": 1}
_INNER = "dataset"  # option of wrappers, which may be a function as well


def whole_data(description: Any) -> Any:
    """
    :param description: of a data set, or a function that gives it, also with others in it; anything else stays as it is
    :return: the same with all of the data in each epoch
    """
    if isinstance(description, Mapping):
        options = {key: whole_data(value) if key == _INNER else _in_option(value) for key, value in description.items()}
        return {**options, **{key: value for key, value in _WHOLE.items() if key in options}}
    if callable(description) and not isinstance(description, type):
        return whole_data(description())
    return description


def parts_of(description: Any) -> int:
    """:return: how many epochs it takes to see all of the data of a description, 1 also if that is not known"""
    return max((options.get("partition_epoch") or 1 for options in _data_sets(description)), default=1)


def _in_option(value: Any) -> Any:
    """:return: value of an option, which may have data sets in it, as those of `MetaDataset`"""
    if isinstance(value, Mapping):
        return whole_data(value) if "class" in value else {key: _in_option(inner) for key, inner in value.items()}
    return [_in_option(inner) for inner in value] if type(value) is list else value


def _data_sets(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if "class" in value:
            yield value
        for inner in value.values():
            yield from _data_sets(inner)
    elif type(value) is list:
        for inner in value:
            yield from _data_sets(inner)
