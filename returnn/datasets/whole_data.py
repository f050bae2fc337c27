"""
Descriptions of data sets whose epochs have all of the data.

A training takes a part of it in each epoch, by the options `partition_epoch`, `epoch_wise_filter` and `multi_epoch`.
What is no training, such as decoding or the mean over the data, is about all of it. Whether its audio is changed by
chance, or sequences are, as those of a training, can be asked.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from returnn.datasets.core.dataset_files import FilesOfDataset, given_options, parts_of_dataset

# With these, the first epoch has everything, once. `repeat_epoch` is not among them: it gives data more weight.
_WHOLE = {"partition_epoch": 1, "partitionEpoch": 1, "epoch_wise_filter": None, "multi_epoch": 1}
_PARTS = ("partition_epoch", "partitionEpoch")
_AUGMENTATIONS = ("random_permute", "random_permute_audio")
_RANDOM_STATES = {  # functions of the config, and the argument by which they get a random state
    **dict.fromkeys(("pre_process", "post_process", "features"), "random_state"),
    **dict.fromkeys(("map_seq", "map_seq_stream"), "rng"),
}
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


def parts_of(data: Any) -> int:
    """
    :param data: a data set, or its description
    :return: how many epochs it takes to see all of it, 1 also if that is not known
    """
    options = _options_of(data)
    num_parts = max([1, *(options.get(key) or 1 for key in _PARTS), *map(parts_of, _inside(data))])
    return math.ceil(num_parts / (options.get("multi_epoch") or 1))


def is_filtered_by_epoch(data: Any) -> bool:
    """:return: whether some epochs leave out sequences of a data set, or of its description"""
    return bool(_options_of(data).get("epoch_wise_filter")) or any(map(is_filtered_by_epoch, _inside(data)))


def augmentation_of(data: Any) -> str | None:
    """:return: what changes the data of a data set, or of its description, by chance, in words; None: nothing"""
    options = _options_of(data)
    own = (f"{key!r} changes the audio by chance" for key in _AUGMENTATIONS if options.get(key) not in (None, False))
    functions = (
        f"the function {key!r} gets a random state, and may change the data by it"
        for key, state in _RANDOM_STATES.items()
        if _takes(options.get(key), state)
    )
    return next((text for text in (*own, *functions, *map(augmentation_of, _inside(data))) if text is not None), None)


def _takes(function: Any, name: str) -> bool:
    """:return: whether it is a function with an argument of this name, which is given to who wants it"""
    if not callable(function) or isinstance(function, type):
        return False
    try:
        return name in inspect.signature(function).parameters
    except (ValueError, TypeError):  # of C
        return False


def _in_option(value: Any) -> Any:
    """:return: value of an option, which may have data sets in it, as those of `MetaDataset`"""
    if isinstance(value, Mapping):
        return whole_data(value) if "class" in value else {key: _in_option(inner) for key, inner in value.items()}
    return [_in_option(inner) for inner in value] if type(value) is list else value


def _options_of(data: Any) -> Mapping[str, Any]:
    """:return: of a data set or its description; none of what is something else"""
    options = given_options(data) if isinstance(data, FilesOfDataset) else data
    return options if isinstance(options, Mapping) else {}


def _inside(data: Any) -> list[Any]:
    """:return: values of options, and data sets that it reads from"""
    if type(data) is list:  # which may be one of all labels
        return [value for value in data if isinstance(value, (dict, FilesOfDataset))]
    parts = parts_of_dataset(data) if isinstance(data, FilesOfDataset) else []
    return [*_options_of(data).values(), *parts]
