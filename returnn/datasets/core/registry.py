"""From the description of a data set in a config to the data set."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from returnn.config import Config, get_global_config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.whole_data import whole_data
from returnn.util.errors import ConfigError, UserError, check_known, nearest_hint
from returnn.util.file_cache import get_instance
from returnn.util.files.literal import literal_eval

DatasetDict: TypeAlias = dict[str, Any]
DatasetLike: TypeAlias = "DatasetDict | str | Dataset | Callable[[], DatasetDict]"

_MODULE_OF_CLASS = {
    "Dataset": "basic",
    "CachedDataset": "cached",
    "CachedDataset2": "cached2",
    "SingleStreamPipeDataset": "cached2",
    "DistributeFilesDataset": "distrib_files",
    "OggZipDataset": "audio",
    "HuggingFaceDataset": "huggingface",
    "MapDatasetWrapper": "map",
    "MultiProcDataset": "multi_proc",
    "NumpyDumpDataset": "numpy_dump",
    "PostprocessingDataset": "postprocessing",
    "RawWavDataset": "raw_wav",
    "TextDictDataset": "text_dict",
    **dict.fromkeys(["HDFDataset", "NextGenHDFDataset", "SiameseHDFDataset"], "hdf"),
    **dict.fromkeys(["ExternSprintDataset", "SprintCacheDataset", "SprintDatasetBase"], "sprint"),
    **dict.fromkeys(["DatasetWithTimeContext", "StereoDataset", "StereoHdfDataset"], "stereo"),
    **dict.fromkeys(
        ["ConfusionNetworkDataset", "LmDataset", "TranslationDataset", "TranslationFactorsDataset"],
        "lm",
    ),
    **dict.fromkeys(
        [
            "BlissDataset",
            "CopyTaskDataset",
            "DummyDataset",
            "DummyDatasetMultipleDataKeys",
            "DummyDatasetMultipleSequenceLength",
            "DummyGenericDataset",
            "Enwik8Corpus",
            "GeneratingDataset",
            "LibriSpeechCorpus",
            "NltkTimitDataset",
            "StaticDataset",
            "Task12AXDataset",
            "TaskEpisodicCopyDataset",
            "TaskNumberBaseConvertDataset",
            "TaskVariableAssignmentDataset",
            "TaskXmlModelingDataset",
            "TimitDataset",
        ],
        "generating",
    ),
    **dict.fromkeys(
        [
            "AnythingDataset",
            "ChunkShuffleDataset",
            "ClusteringDataset",
            "CombinedDataset",
            "ConcatDataset",
            "ConcatSeqsDataset",
            "MetaDataset",
            "MultiEpochDataset",
            "VariableDataset",
        ],
        "meta",
    ),
}


def known_dataset_classes() -> list[str]:
    """:return: all names that `class` can have"""
    return sorted(_MODULE_OF_CLASS)


def get_dataset_class(name: str | type[Dataset]) -> type[Dataset] | None:
    """
    :param name: e.g. "HDFDataset", "my_module.MyDataset", or a class
    :return: the class, None if there is none
    """
    if isinstance(name, type):
        return name
    module_name, _, class_name = name.rpartition(".")
    if name in _MODULE_OF_CLASS:
        module_name, class_name = f"returnn.datasets.{_MODULE_OF_CLASS[name]}", name
    if not module_name:
        return None
    cls = getattr(importlib.import_module(module_name), class_name, None)
    return cls if isinstance(cls, type) and issubclass(cls, Dataset) else None


def init_dataset(
    kwargs: DatasetLike | None,
    extra_kwargs: Mapping[str, Any] | None = None,
    default_kwargs: Mapping[str, Any] | None = None,
    *,
    parent_dataset: Dataset | None = None,
) -> Dataset | None:
    """
    :param kwargs: a dict with "class" and the options of that class; or a function that returns one; or text, of such a
        dict of literals or as in `init_dataset_via_str`; or a data set, which is returned as it is
    :param extra_kwargs: further options
    :param default_kwargs: options where there are no other ones
    :param parent_dataset: what the new data set becomes a part of
    :return: None only if `kwargs` is None or empty
    :raises ConfigError: if the class or an option does not exist, or a needed option is missing
    """
    if isinstance(kwargs, Dataset):
        return kwargs
    if callable(kwargs):
        return init_dataset(kwargs(), extra_kwargs, default_kwargs, parent_dataset=parent_dataset)
    if not kwargs:
        return None
    if isinstance(kwargs, str):
        if kwargs.lstrip().startswith("{"):
            return init_dataset(_as_dict(kwargs), extra_kwargs, default_kwargs, parent_dataset=parent_dataset)
        options = {**(default_kwargs or {}), **(extra_kwargs or {})}
        return init_dataset_via_str(kwargs, **options)
    if not isinstance(kwargs, Mapping):
        raise ConfigError(f"data set: expected a dict with 'class', got a {type(kwargs).__name__}: {kwargs!r}.")
    options = {**(default_kwargs or {}), **kwargs, **(extra_kwargs or {})}
    options = extend_dataset_dict_from_parent_dataset(options, parent_dataset)
    options, _ = get_instance(get_global_config(return_empty_if_none=True)).handle_cached_files_in_config(options)
    cls = _take_class(options)
    return _construct(cls, options, given=[name for name in kwargs if name != "class"])


def init_sub_dataset(options: DatasetLike, parent: Dataset, *, key: str | None = None) -> Dataset:
    """
    :param options: of a data set which is a part of another one
    :param parent: the other one
    :param key: its name in there
    """
    name = {"name": f"{parent.name}/{key}"} if isinstance(options, Mapping) and key is not None else {}
    dataset = init_dataset(options, default_kwargs=name, parent_dataset=parent)
    if dataset is None:
        raise ConfigError(f"{parent.description}: the data set {key or ''!r} in it is empty.")
    parent.add_part(dataset)
    return dataset


def _as_dict(text: str) -> Any:
    try:
        return literal_eval(text)
    except ValueError as exc:
        raise ConfigError(f"data set {text[:80]!r}: is no dict of literals: {exc}.") from exc


def _take_class(options: DatasetDict) -> type[Dataset]:
    if "class" not in options:
        raise ConfigError(f"data set: 'class' is missing, got only {sorted(options)}.")
    name = options.pop("class")
    cls = get_dataset_class(name)
    if cls is None:
        raise ConfigError(f"data set: there is no class {name!r}.\n  {nearest_hint(str(name), _MODULE_OF_CLASS)}")
    return cls


def _construct(cls: type[Dataset], options: DatasetDict, *, given: Sequence[str]) -> Dataset:
    where = f"class {cls.__name__!r}"
    if options.get("name"):
        where = f"data set {options['name']!r} ({where})"
    params = _options_of(cls)
    public = {name for name in params if not name.startswith("_")}
    for option in options:
        if option not in params:
            check_known("option", option, public, where=where)
    missing = [name for name, is_required in params.items() if is_required and name not in options]
    if missing:
        named = ", ".join(map(repr, missing))
        what = f"option {named} is missing" if len(missing) == 1 else f"options {named} are missing"
        raise ConfigError(f"{where}: {what}.\n  Given: {', '.join(sorted(given)) or 'none'}.")
    try:
        dataset = cls(**options)
        dataset.initialize()
    except UserError as exc:
        if type(exc) is not UserError:  # those of configs and data name the data set, or another one in it
            raise
        raise ConfigError(f"{where}: {exc}") from exc
    return dataset


def _options_of(cls: type[Dataset]) -> dict[str, bool]:
    """
    :return: option -> whether it is required, with those of the base classes while `**kwargs` are passed on, without
        those that a derived class sets itself
    """
    fixed: set[str] = set()
    options: dict[str, bool] = {}
    classes = [base for base in cls.__mro__[:-1] if "__init__" in base.__dict__]
    for base in classes:
        params = list(inspect.signature(base.__dict__["__init__"]).parameters.values())[1:]
        is_first = base is classes[0]  # a derived class may give by itself what its base class requires
        for param in params:
            if param.kind not in (param.VAR_KEYWORD, param.VAR_POSITIONAL) and param.name not in fixed:
                options.setdefault(param.name, is_first and param.default is param.empty)
        fixed.update(base.__dict__.get("fixed_options", ()))
        if not any(param.kind == param.VAR_KEYWORD for param in params):
            break
    return options


def extend_dataset_dict_from_parent_dataset(dataset_dict: DatasetDict, parent_dataset: Dataset | None) -> DatasetDict:
    """
    :param dataset_dict: options of a data set
    :param parent_dataset: what it becomes a part of
    :return: the options with a name and the random seed of the parent, where there are no other ones
    """
    if parent_dataset is None:
        return dict(dataset_dict)
    class_name = dataset_dict.get("class", "")
    inherited: DatasetDict = {"name": f"{parent_dataset.name}/{getattr(class_name, '__name__', class_name)}"}
    if parent_dataset.random_seed_offset:
        inherited["random_seed_offset"] = parent_dataset.random_seed_offset
    return {**inherited, **dataset_dict}


def init_dataset_via_str(
    config_str: str,
    config: Config | None = None,
    cache_byte_size: int | None = None,
    *,
    whole: bool = False,
    **kwargs: Any,
) -> Dataset:
    """
    :param config_str: "ClassName:option=value,...", "config:EXPRESSION" which gives the dict of a data set,
        "sprint:ARGUMENTS", or HDF files, separated by commas
    :param config: its options for the training data are used, and the names of an expression are looked up there;
        without it, in the global config
    :param cache_byte_size: for HDF files, see `CachedDataset`
    :param whole: whether each epoch has all of the data, see `whole_data`
    :param kwargs: further options; those of the dict of an expression come first
    :raises ConfigError: if it is none of these
    """
    kind, colon, rest = config_str.partition(":")
    change: Callable[[Any], Any] = whole_data if whole else lambda description: description
    if colon and kind == "config":
        dataset = init_dataset(change(eval_config_expression(rest, config)), default_kwargs=kwargs)
        if dataset is None:
            raise ConfigError(f"data set {config_str!r}: the expression gives no data set.")
        return dataset
    if config is not None:
        Dataset.kwargs_update_from_config(config, kwargs)
    options: dict[str, Any]
    if colon and kind == "sprint":
        executable = config.options.sprint_trainer_exec_path if config is not None else None
        options = {"class": "ExternSprintDataset", "sprintTrainerExecPath": executable, "sprintConfigStr": rest}
    elif colon and kind in _MODULE_OF_CLASS:
        options = {"class": kind, **_parse_options(rest, config_str)}
    else:
        options = {"class": "HDFDataset", "files": config_str.split(",")}
        if cache_byte_size is not None:
            options["cache_byte_size"] = cache_byte_size
    dataset = init_dataset({**kwargs, **change(options)})
    assert dataset is not None
    return dataset


def eval_config_expression(expression: str, config: Config | None) -> Any:
    """
    :param expression: what "config:EXPRESSION" has
    :param config: where its names are; None: the global one
    :return: description of a data set
    :raises ConfigError: if there are no such names, or it is no expression
    """
    # Data sets in data sets, and scripts, have no config at hand: they mean the one that is set for the process.
    config = config or get_global_config(raise_exception=False)
    names = {} if config is None else config.typed_dict
    try:
        return eval(expression, dict(names))
    except (NameError, SyntaxError, AttributeError, KeyError) as exc:
        raise ConfigError(f"data set 'config:{expression}': {type(exc).__name__}: {exc}.") from exc


def _parse_options(text: str, config_str: str) -> DatasetDict:
    try:
        options = eval(f"dict({text})", {})
    except (NameError, SyntaxError) as exc:
        raise ConfigError(
            f"data set {config_str!r}: {exc}.\n  Expected 'ClassName:option=value,option=value', strings in quotes."
        ) from exc
    assert isinstance(options, dict)
    return options
