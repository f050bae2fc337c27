"""
What a config says of the data of one key in `extern_data`, and the template that comes of it.

It is a dict of options for `Tensor`; a number (the number of labels, or the feature dim); or a pair of a number and the
number of axes, as old configs have it in `num_outputs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from returnn.config.option_types import DTYPES, check_type
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tensor.tensor_batch import declare_to_be_the_batch
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.texts.counted import counted

_SIZES = Sequence[int | None]
_DIMS = Sequence[Dim]


@dataclass
class DataOptions:
    """
    What can be said of the data of one key, most often: `{"dim": 40}` for features, `{"dim": 10, "sparse": True}` or
    `{"vocab": ...}` for labels.

    :param dim: number of features; or of labels, if `sparse`
    :param sparse: it is labels, not features
    :param vocab: options of a `Vocabulary`: then it is labels, and `dim` is known
    :param available_for_inference: whether it is there where a model is used, without targets; by default, the input
        alone is. It is for code that asks for it, such as `forward_step`; a network has all data that it needs, also
        as inputs of an exported one
    :param dtype: such as "float32", "int32"
    :param shape: sizes of all axes but the batch, None for those that vary: `(None, 40)`, the default with `dim=40`;
        `()` for one label per sequence, but `(1,)` from HDF files, where all data has an axis
    :param dims: all of them as `Dim`, with `batch_dim`
    :param dim_tags: the same
    :param sparse_dim: the labels as `Dim`
    :param feature_dim: which of the dims has the features
    :param batch_dim_axis: the batch is the axis of this index; None: there is none
    :param time_dim_axis: time is the axis of this index; None: there is none
    :param feature_dim_axis: features are the axis of this index; None: there are none
    :param same_dim_tags_as: a dict from axis, such as "t", to a `Dim` that it is
    :param name: for people
    """

    dim: int | None = None
    sparse: bool = False
    vocab: Mapping[str, Any] | None = None
    available_for_inference: bool | None = None
    dtype: str | None = None
    shape: _SIZES | None = None
    dims: _DIMS | None = None
    dim_tags: _DIMS | None = None
    sparse_dim: Dim | None = None
    feature_dim: Dim | None = None
    batch_dim_axis: int | None = 0
    time_dim_axis: int | None = 1
    feature_dim_axis: int | None = None
    same_dim_tags_as: Mapping[str, Any] | None = None
    name: str = ""


_OPTIONS: dict[str, Any] = {
    **get_type_hints(DataOptions),
    **dict.fromkeys(("batch", "beam", "placeholder", "raw_tensor", "control_flow_ctx", "size_placeholder"), Any),
    "version": int,
    "auto_create_placeholders": bool,
}


def described_data(config: Any) -> Mapping[str, Any]:
    """
    :param config: its option `extern_data`; or, in old configs, `num_inputs`, which is the dim of a frame without its
        `window`, `sparse_input`, `num_outputs`
    :return: descriptions by data key
    :raises ConfigError: if there is none
    """
    if config.options.extern_data is not None:
        return config.options.extern_data  # type: ignore[no-any-return]
    outputs = config.options.num_outputs
    if outputs is None:
        raise ConfigError("option 'extern_data' is required: a dict with a description of the data for each key.")
    if not isinstance(outputs, Mapping):
        outputs = {config.options.target: outputs}
    description = {}
    for key, value in outputs.items():
        description[key] = [value, 1] if isinstance(value, int) and key != "data" else value
    num_inputs = config.options.num_inputs
    if "data" not in description and num_inputs:
        is_sparse = config.options.sparse_input
        description["data"] = [
            num_inputs if is_sparse else num_inputs * max(config.options.window, 1),
            1 if is_sparse else 2,
        ]
    return description


def description_of_data(dataset: Any, key: str) -> dict[str, Any]:
    """
    :param dataset: a `Dataset`, it knows keys, dims and dtypes
    :param key: of its data
    :return: what `extern_data` would say of that
    """
    return {
        "shape": [None, *dataset.get_data_shape(key)],
        "dim": dataset.get_data_dim(key),
        "sparse": dataset.is_data_sparse(key),
        "dtype": dataset.get_data_dtype(key),
    }


def is_described(config: Any) -> bool:
    """:return: whether the config itself says all of its data, so that no data set has to be asked"""
    given = config.options.extern_data
    if given is not None:
        return not any(map(_is_open, given.values()))
    return bool(config.options.num_outputs) and any(key != config.options.target for key in described_data(config))


def described_with(config: Any, dataset: Any) -> dict[str, Any]:
    """
    :param config: it may describe some data only, or not what kind of data it is, see `is_described`
    :param dataset: a `Dataset`
    :return: descriptions by data key; what the config says comes first
    :raises ConfigError: if that has other dims than the data set
    """
    keys = dataset.get_data_keys()
    options = config.options
    if options.extern_data is None and options.num_outputs is None:
        return {key: description_of_data(dataset, key) for key in keys}
    found = dict(described_data(config))
    for key, description in found.items():
        if _is_open(description) and key in keys and dataset.get_data_dim(key) == description["dim"]:
            found[key] = {**description_of_data(dataset, key), **description}
            found[key]["shape"] = description_of_data(dataset, key)["shape"]
    if options.extern_data is None:  # `num_outputs`, which are perhaps those of the targets alone
        found = {**{key: description_of_data(dataset, key) for key in keys if key not in found}, **found}
    return found


def _is_open(description: Any) -> bool:
    """:return: whether frames of a number of features or labels are described, and not which of both they are"""
    if not isinstance(description, Mapping) or not set(description) <= {"dim", "shape", "available_for_inference"}:
        return False
    shape = description.get("shape")
    return isinstance(description.get("dim"), int) and shape is not None and list(shape) == [None]


def found_input(descriptions: Mapping[str, Any], *, default_input: str, target: str) -> str:
    """
    :param descriptions: by data key
    :param default_input: key of the input, by default "data"
    :param target: key of the target
    :return: `default_input`; or the first key which is not the target, if there is no such data
    """
    if default_input in descriptions or "data" in descriptions:
        return default_input
    return next((key for key in descriptions if key != target), default_input)


def template_of_description(key: str, description: Any, *, is_input: bool, float_dtype: str) -> Tensor:
    """
    :param key: of the data
    :param description: see the head of this module
    :param is_input: whether it is what the network works on, rather than a target
    :param float_dtype: of floats, where the description says nothing
    :return: template; its lengths are known as such
    :raises ConfigError: if something in the description is wrong
    """
    if isinstance(description, Tensor):
        return description.copy(name=key)
    where = f"extern_data: {key!r}"
    description = _as_options(where, description, is_input=is_input)
    _check_options(where, description)
    options = {"name": f"extern_data:{key}", "version": 1, **description}
    if "available_for_inference" not in options:
        options["available_for_inference"] = is_input
    if isinstance(options.get("vocab"), Mapping):
        _make_vocab(where, options)
    if options.get("dim_tags") is None and "shape" not in options and "dims" not in options and "dim" not in options:
        if options.get("sparse_dim") is None:
            raise ConfigError(f"{where}: one of 'dim', 'shape', 'dims' is needed, got {description!r}.")
        options["sparse"] = True
    tensor = _make_tensor(where, options)
    tensor.name = key
    declare_to_be_the_batch(tensor.dims)
    if tensor.dtype == "float32" and options.get("dtype") is None:
        tensor.dtype = float_dtype
    for dim in tensor.dims:
        if dim.is_dynamic_seq_length() and dim.dyn_size_ext is None and not dim.is_derived():
            lengths_dims = [batch_dim] if tensor.have_batch_axis() else []
            dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", dims=lengths_dims, dtype="int32")
    return tensor


def _as_options(where: str, description: Any, *, is_input: bool) -> Mapping[str, Any]:
    if isinstance(description, int):
        description = (description, 1 if not is_input else 2)
    if isinstance(description, (list, tuple)):
        if len(description) != 2 or not all(isinstance(number, int) for number in description):
            raise ConfigError(f"{where}: expected two numbers, dim and number of axes, or a dict, got {description!r}.")
        dim, ndim = description
        sparse = ndim <= 1
        shape: tuple[int | None, ...] = (None,) * max(ndim - (0 if sparse else 1), 1 if sparse else 0)
        description = {"dim": dim, "sparse": sparse, "shape": shape if sparse else (*shape, dim)}
    if not isinstance(description, Mapping):
        raise ConfigError(f"{where}: expected a dict of options, got {description!r}.")
    return description


def _check_options(where: str, options: Mapping[str, Any]) -> None:
    for option, value in options.items():
        check_known("option", option, _OPTIONS, where=where)
        check_type(option, value, _OPTIONS[option], where=where)
    if options.get("dtype") is not None:
        check_known("dtype", options["dtype"], DTYPES, where=f"{where}: option 'dtype'")


def _make_tensor(where: str, options: dict[str, Any]) -> Tensor:
    try:
        return Tensor(**options)
    except UserError as exc:
        raise ConfigError(f"{where}: {exc}") from exc


def _make_vocab(where: str, options: dict[str, Any]) -> None:
    """Makes the vocabulary of its description, in place. Then the data is sparse, and its dim is known."""
    try:
        vocab = Vocabulary.create_vocab(**options["vocab"])
    except UserError as exc:
        raise ConfigError(f"{where}: {exc}") from exc
    options["vocab"] = vocab
    sparse_dim = options.get("sparse_dim")
    size = options.get("dim") if sparse_dim is None else sparse_dim.dimension
    if size not in (None, vocab.num_labels):
        raise ConfigError(f"{where}: the dim is {size}, but the vocabulary has {counted(vocab.num_labels, 'label')}.")
    options.setdefault("sparse", True)
    if sparse_dim is None:
        options["dim"] = vocab.num_labels
