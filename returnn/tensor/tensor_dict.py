"""A dict of tensors: what goes into a model, or comes out of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from returnn.tensor._frontend import backend_of_raw
from returnn.tensor.dim import Dim
from returnn.tensor.tensor import Tensor
from returnn.util.errors import ConfigError, DimError, nearest_hint

if TYPE_CHECKING:
    _Description: TypeAlias = "TensorDict | Mapping[str, Any] | Sequence[Any]"


class MissingTensorError(ConfigError, KeyError):
    """There is no tensor of that name. It is a KeyError, too, as a dict has it."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        """
        :param name: of the tensor
        :param known: names that there are
        """
        super().__init__(f"there is no data {name!r}.\n  {nearest_hint(name, known)}")
        self.tensor_name = name

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would add quotes


class TensorDict:
    """
    Tensors by name.

    As raw tensors, it is a flat dict: `name` for the value, `name:size0` for the lengths of the dim of axis 0.
    """

    def __init__(self, data: _Description | None = None) -> None:
        """
        :param data: tensors by name; or descriptions of templates, see `update`
        """
        self.data: dict[str, Tensor] = {}
        if data is not None:
            self.update(data, auto_convert=True)

    def __repr__(self) -> str:
        return f"TensorDict({self.data})"

    def update(self, data: _Description, *, auto_convert: bool = False) -> None:
        """
        :param data: tensors by name, or a sequence of tensors with names
        :param auto_convert: a dict of arguments stands for a template
        """
        if isinstance(data, TensorDict):
            data = data.data
        pairs = data.items() if isinstance(data, Mapping) else [(tensor.name, tensor) for tensor in data]
        for name, value in pairs:
            if isinstance(value, Tensor):
                self.data[name] = value
            elif auto_convert and isinstance(value, Mapping):
                self.data[name] = Tensor(**{"name": name, **value})
            else:
                raise TypeError(f"TensorDict: {name!r} should be a tensor, got {value!r}")

    def __getitem__(self, name: str) -> Tensor:
        """:raises MissingTensorError: if there is no tensor of this name"""
        try:
            return self.data[name]
        except KeyError:
            raise MissingTensorError(name, self.data) from None

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def reset_content(self) -> None:
        """Forgets all values and lengths; what is left are templates."""
        for tensor in self.data.values():
            tensor.reset()

    def copy_template(self) -> TensorDict:
        """:return: templates of all tensors"""
        return TensorDict({name: tensor.copy_template() for name, tensor in self.data.items()})

    def all_dims(self) -> list[Dim]:
        """:return: all dims of all tensors, and those of their lengths, each once"""
        dims: list[Dim] = []
        todo = [dim for tensor in self.data.values() for dim in tensor.dims]
        while todo:
            dim = todo.pop(0)
            if dim in dims:
                continue
            dims.append(dim)
            lengths = None if dim.size is not None else dim.dyn_size_ext
            todo += list(lengths.dims) if lengths is not None else []
        return dims

    def as_raw_tensor_dict(
        self,
        *,
        include_const_sizes: bool = False,
        include_scalar_dyn_sizes: bool = True,
        exclude_duplicate_dims: bool = False,
        expected_value_type: type | Sequence[type] = object,
    ) -> dict[str, Any]:
        """
        :param include_const_sizes: also `name:size0` for static dims, as numbers
        :param include_scalar_dyn_sizes: also lengths which are one number, such as the size of the batch
        :param exclude_duplicate_dims: the lengths of a dim occur only once
        :param expected_value_type: of the values; anything else is an error
        """
        types = tuple(expected_value_type) if isinstance(expected_value_type, Sequence) else expected_value_type
        raw: dict[str, Any] = {}
        seen: set[Dim] = set()
        for name, tensor in self.data.items():
            raw[name] = tensor.raw_tensor
            for axis, dim in enumerate(tensor.dims):
                if exclude_duplicate_dims and dim in seen:
                    continue
                size = _raw_size(dim, include_const_sizes, include_scalar_dyn_sizes)
                if size is not None:
                    raw[f"{name}:size{axis}"] = size
                    seen.add(dim)
        for key, value in raw.items():
            if not isinstance(value, types):
                raise TypeError(f"TensorDict: {key!r} has the type {type(value).__name__}, expected {types}")
        return raw

    def assign_from_raw_tensor_dict_(
        self,
        raw_tensor_dict: Mapping[str, Any],
        *,
        with_scalar_dyn_sizes: bool = True,
        duplicate_dims_are_excluded: bool = False,
    ) -> None:
        """
        Sets values and lengths from what `as_raw_tensor_dict` returned.

        :param raw_tensor_dict: by name
        :param with_scalar_dyn_sizes: whether it has lengths which are one number
        :param duplicate_dims_are_excluded: whether the lengths of a dim occur only once
        :raises DimError: if something is missing
        """
        seen: set[Dim] = set()
        for name, tensor in self.data.items():
            tensor.raw_tensor = None
            for axis, dim in enumerate(tensor.dims):
                key = f"{name}:size{axis}"
                if dim.size is not None or (duplicate_dims_are_excluded and dim in seen and key not in raw_tensor_dict):
                    continue
                if key in raw_tensor_dict:
                    _assign_lengths(dim, tensor, raw_tensor_dict[key])
                    seen.add(dim)
                elif dim.is_dynamic_seq_length() or (with_scalar_dyn_sizes and not dim.is_batch_dim()):
                    raise DimError(f"TensorDict: {key!r} is missing, the lengths of {dim}.")
            if name not in raw_tensor_dict:
                raise DimError(f"TensorDict: {name!r} is missing. There are: {', '.join(sorted(raw_tensor_dict))}.")
            tensor.raw_tensor = raw_tensor_dict[name]


def _raw_size(dim: Dim, include_const: bool, include_scalar: bool) -> Any:
    if dim.size is not None:
        return dim.size if include_const else None
    lengths = dim.dyn_size_ext
    if lengths is None or lengths.raw_tensor is None or (not lengths.dims and not include_scalar):
        return None
    return lengths.raw_tensor


def _assign_lengths(dim: Dim, tensor: Tensor, raw: Any) -> None:
    backend = backend_of_raw(raw)
    template = dim.dyn_size_ext
    if template is not None:
        dims = template.dims
    else:
        dims = (tensor.get_batch_dim_tag(),) if backend.get_ndim_raw(raw) == 1 else ()
    dtype = backend.get_dtype_name_raw(raw)
    dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", dims=dims, dtype=dtype, raw_tensor=raw)
