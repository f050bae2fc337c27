"""
The data sets of a config: `train`, `dev`, `eval`, `eval_datasets`, and those of single tasks.

Options of the config such as `batching`, `chunking` and `window` hold for the training data. Data for evaluation has
whole sequences, sorted by length. What the description of a data set says itself comes first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from returnn.config import Config
from returnn.datasets.cached import CachedDataset
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.registry import (
    DatasetLike,
    get_dataset_class,
    init_dataset,
    init_dataset_via_str,
    known_dataset_classes,
)
from returnn.datasets.util.data_description import described_with, is_described
from returnn.datasets.whole_data import augmentation_of, parts_of, whole_data
from returnn.log import log
from returnn.tensor import Tensor
from returnn.util.errors import ConfigError
from returnn.util.system.waiting import said_if_long

TASK_DATA = ("search_data", "forward_data")  # options with the data of one task
_CACHES = ("train", "dev", "eval")
_BYTES_OF_UNIT = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def dataset_names(config: Config) -> list[str]:
    """:return: the options that hold data for evaluation after each epoch"""
    return [name for name in ("dev", "eval") if config.bool_or_other(name)] + list(_more_data(config))


def dataset_option(config: Config, name: str) -> Any:
    """:return: the description of the data set of that name"""
    more = _more_data(config)
    return more[name] if name in more else config.opt_typed_value(name, None)


def describe_data(config: Config, dataset: Dataset | None = None) -> None:
    """
    Completes `extern_data` by what a data set knows, as old configs leave it to that.

    :param config: is changed, if it does not say all of its data
    :param dataset: default: the first one of the config
    """
    if is_described(config):
        return
    names = ["train", *dataset_names(config), *TASK_DATA]
    if dataset is None:
        dataset = next((load_dataset(config, name) for name in names if _is_description(config, name)), None)
    if dataset is not None:
        config.set("extern_data", described_with(config, dataset))


def warn_of_parts(config: Config) -> None:
    """Warns of data for the evaluation after each epoch that is another part of the data in each of them."""
    for name in dataset_names(config):
        num = parts_of(dataset_option(config, name))
        if num > 1:
            log.print_warning(
                f"data {name!r}: with 'partition_epoch' {num}, each epoch is evaluated on another part, so its scores"
                " and those of others are not of the same data."
            )


def _is_description(config: Config, name: str) -> bool:
    description = dataset_option(config, name)
    return bool(description) and not (isinstance(description, str) and description.isidentifier())


def _more_data(config: Config) -> Mapping[str, Any]:
    """:return: `eval_datasets`"""
    return config.options.eval_datasets or {}


def load_dataset(
    config: Config, name: str, /, *, whole: bool = False, cache_byte_size: int | None = None, **options: Any
) -> Dataset | None:
    """
    :param config: its option of that name, and those that hold for all data of its kind
    :param name: "train", another option that holds data, or a key of `eval_datasets`
    :param whole: whether each epoch has all of the data, as for what is no training; see `whole_data`
    :param cache_byte_size: how much stays in memory, for data sets that can do that; default: by `cache_size`
    :param options: of the data set, where the description has no other ones
    :return: the data; None if there is none
    :raises ConfigError: if the description is wrong
    """
    description = dataset_option(config, name)
    if not description:
        return None
    if cache_byte_size is None:
        cache_byte_size = cache_byte_sizes(config).get(name, 0)
    if name != "train":
        options = {**Dataset.get_default_kwargs_eval(config), **options}
    options = {"name": name, **options}
    return make_dataset(config, description, whole=whole, cache_byte_size=cache_byte_size, **options)


def make_dataset(
    config: Config, description: DatasetLike, *, whole: bool = False, cache_byte_size: int = 0, **options: Any
) -> Dataset | None:
    """Like `load_dataset`, from any description."""
    what = f"to make the data set {options['name']!r}" if "name" in options else "to make a data set"
    with said_if_long(what, limit_s=config.options.data_wait_limit_s):
        dataset = _make_dataset(config, description, whole, cache_byte_size, options)
    if whole and (change := augmentation_of(dataset)) is not None:
        log.print_warning(
            f"data {dataset.name!r}: {change}, also here, where nothing is trained. "
            "What is computed, as alignments, averages and scores, is then about other data, some of it of another "
            "length. For the data as they are, take them without that."
        )
    return dataset


def _make_dataset(
    config: Config, description: DatasetLike, whole: bool, cache_byte_size: int, options: dict[str, Any]
) -> Dataset | None:
    if callable(description) and not isinstance(description, Dataset):
        description = description()
    if config.options.use_dummy_datasets:
        description = _dummy_description(config, is_train=options.get("name") == "train")
    if isinstance(description, str):
        return init_dataset_via_str(description, config, cache_byte_size, whole=whole, **options)
    if not isinstance(description, Mapping):
        return init_dataset(description)
    cls = get_dataset_class(description.get("class", ""))
    if cache_byte_size and cls is not None and issubclass(cls, CachedDataset):
        options.setdefault("cache_byte_size", cache_byte_size)
    Dataset.kwargs_update_from_config(config, options)
    return init_dataset(whole_data(description) if whole else description, default_kwargs=options)


def load_task_dataset(config: Config, option: str) -> Dataset:
    """
    :param config: its option is a description, a function, or the name of another option, by default `eval`
    :param option: such as "search_data"
    :return: the data of a task, all of it in each epoch
    :raises ConfigError: if there is none
    """
    value = config.opt_typed_value(option, None)
    name = "eval" if value is None else value if isinstance(value, str) and value.isidentifier() else option
    description = dataset_option(config, name)
    options = {**Dataset.get_default_kwargs_eval(config), "name": name}
    dataset = make_dataset(config, description, whole=True, **options) if description else None
    if dataset is None:
        known = known_datasets(config)
        example = f" {known[:-1]}; such as {option} = {known.split()[-1][:-1]}." if known else ""
        what = f"there is no data {name!r}" if value is not None else "it is not set, and there is no data 'eval'"
        raise ConfigError(
            f"option {option!r}: {what}.\n  It has to be the name of a data set, or the description of one.{example}"
        )
    return dataset


def datasets_of_all_tasks(config: Config) -> dict[str, Callable[[], Dataset | None]]:
    """:return: by the name of the option: functions that load the data, also that of `search` and `forward`"""
    found: dict[str, Callable[[], Dataset | None]] = {
        name: functools.partial(load_dataset, config, name)
        for name in ("train", *dataset_names(config))
        if dataset_option(config, name) is not None
    }
    for option in TASK_DATA:
        value = config.opt_typed_value(option, None)
        if value is not None and not (isinstance(value, str) and value in found):
            found[option] = functools.partial(load_task_dataset, config, option)
    return found


def known_datasets(config: Config) -> str:
    """:return: a sentence that names the data sets of a config, for messages; empty if there are none"""
    known = [key for key in ("train", *dataset_names(config)) if dataset_option(config, key)]
    classes = known_dataset_classes()
    described = {name for name, value in config.typed_dict.items() if isinstance(value, dict) and "class" in value}
    known += [name for name in sorted(described - {*known, *TASK_DATA}) if config.typed_dict[name]["class"] in classes]
    return f"There are: {', '.join(map(repr, known))}." if known else ""


def cache_byte_sizes(config: Config) -> dict[str, int]:
    """
    :return: option `cache_size`: how many bytes stay in memory, for "train", "dev" and "eval". These are sizes such as
        "512M"; a single one is shared by all
    :raises ConfigError: if it is something else
    """
    given = config.options.cache_size or ["0"]
    sizes = [_bytes(text) for text in given]
    if len(sizes) > len(_CACHES) or None in sizes:
        raise ConfigError(f"option 'cache_size': got {given!r}.\n  Expected up to three sizes such as '512M' or '2G'.")
    if len(sizes) == 1:
        names = [name for name in _CACHES if config.has(name)]
        return {name: sizes[0] // len(names) if name in names else 0 for name in _CACHES}  # type: ignore[operator]
    return dict(zip(_CACHES, [*sizes, 0], strict=False))  # type: ignore[arg-type]


def _bytes(text: str) -> int | None:
    """:return: None if it is no size"""
    number = text.strip().upper().removesuffix("B")
    unit = number[-1:] if number[-1:] in _BYTES_OF_UNIT else ""
    try:
        return int(float(number.removesuffix(unit)) * _BYTES_OF_UNIT[unit])
    except ValueError:
        return None


def _dummy_description(config: Config, *, is_train: bool) -> dict[str, Any]:
    """:return: random data as `extern_data` says, for trying out a config (`use_dummy_datasets`)"""
    extern_data = config.options.extern_data
    if not isinstance(extern_data, Mapping):
        raise ConfigError("option 'use_dummy_datasets': 'extern_data' is needed, a dict with the options of each key.")
    options = config.options
    num_seqs = options.train_dummy_dataset_num_seqs if is_train else options.dummy_dataset_num_seqs
    templates = {key: Tensor(**{"name": key, **description}) for key, description in extern_data.items()}
    return {"class": "DummyGenericDataset", "data_template": templates, "num_seqs": num_seqs}
