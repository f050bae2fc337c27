"""
What a config says of the data of one key in `extern_data`, and the template that comes of it.

It is a dict of options for `Tensor`; a number (the number of labels, or the feature dim); or a pair of a number and the
number of axes, as old configs have it in `num_outputs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from returnn.datasets.util.vocabulary import Vocabulary
from returnn.frontend import get_default_float_dtype
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.options.option_types import DTYPES, check_type
from returnn.util.errors import ConfigError, UserError, check_known

_SIZES = Sequence[int | None]
_DIMS = Sequence[Dim]
_OPTIONS: dict[str, Any] = {
    "name": str,
    "dim": int | None,
    "shape": _SIZES,
    "dims": _DIMS,
    "dim_tags": _DIMS,
    "dtype": str,
    "sparse": bool,
    "sparse_dim": Dim,
    "feature_dim": Dim,
    "batch_dim_axis": int | None,
    "time_dim_axis": int | None,
    "feature_dim_axis": int | None,
    "same_dim_tags_as": Mapping[str, Any],
    "available_for_inference": bool,
    "vocab": Mapping[str, Any],
    "version": int,
    "batch": Any,
    "beam": Any,
    "placeholder": Any,
    "raw_tensor": Any,
    "control_flow_ctx": Any,
    "size_placeholder": Any,
    "auto_create_placeholders": bool,
}


def template_of_description(key: str, description: Any, *, is_input: bool) -> Tensor:
    """
    :param key: of the data
    :param description: see the head of this module
    :param is_input: whether it is what the network works on, rather than a target
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
    if tensor.dtype == "float32" and options.get("dtype") is None:
        tensor.dtype = get_default_float_dtype()
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
        tensor: Tensor = Tensor(**options)
    except UserError as exc:
        raise ConfigError(f"{where}: {exc}") from exc
    dim = options.get("dim")
    if isinstance(dim, int) and tensor.dim != dim:
        raise ConfigError(
            f"{where}: option 'dim' is {dim}, but {tensor} has no feature dim of this size.\n"
            "  For labels: 'sparse': True. Otherwise 'shape' has the feature dim, too, such as (None, 40)."
        )
    return tensor


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
        raise ConfigError(f"{where}: the dim is {size}, but the vocabulary has {vocab.num_labels} labels.")
    options.setdefault("sparse", True)
    if sparse_dim is None:
        options["dim"] = vocab.num_labels
