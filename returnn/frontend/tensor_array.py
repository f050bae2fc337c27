"""
Arrays of tensors, which grow: what a loop reads frame by frame, and what it gathers.

    array = rf.TensorArray(template)
    array = array.push_back(frame)
    frames = array.stack(axis=time_dim)
"""

from __future__ import annotations

from typing import Any

from returnn.frontend._backend import Backend, get_backend_of, get_global_backend
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError, DtypeError


class TensorArray:
    """An array of tensors. It is a value: an operation returns a new array, and leaves the old one as it is."""

    def __init__(
        self,
        tensor_template: Tensor,
        *,
        _backend_tensor_array: Any = None,
        _backend: type[Backend[Any]] | None = None,
        _enable_delayed_check: bool = False,
    ) -> None:
        """
        :param tensor_template: what an element looks like
        :param _backend_tensor_array: as the backend has it; default: without elements
        :param _backend: it belongs to; default: the selected one
        :param _enable_delayed_check: the first element says what an element looks like
        """
        self.tensor_template = tensor_template.copy_template()
        self._backend = get_global_backend() if _backend is None else _backend
        self._array = self._backend.tensor_array_create() if _backend_tensor_array is None else _backend_tensor_array
        self._enable_delayed_check = _enable_delayed_check

    def __repr__(self) -> str:
        return f"TensorArray({self.tensor_template})"

    @property
    def backend(self) -> type[Backend[Any]]:
        """The backend of the elements."""
        return self._backend

    @classmethod
    def unstack(cls, tensor: Tensor, *, axis: Dim) -> TensorArray:
        """
        :param tensor: {..., axis}
        :param axis: dim of the tensor
        :return: its frames along the axis
        """
        template = tensor.copy_template_excluding_axis(tensor.get_axis_from_description(axis))
        backend = get_backend_of(tensor)
        array = backend.tensor_array_unstack(tensor, axis=axis)
        return cls(template, _backend_tensor_array=array, _backend=backend)

    def stack(self, *, axis: Dim) -> Tensor:
        """
        :param axis: new dim over the elements. If its size is not known yet, it gets their number.
        :return: [axis, ...]
        """
        lengths = axis.dyn_size_ext
        if axis.size is None and (lengths is None or (lengths.raw_tensor is None and not lengths.dims)):
            length = self._backend.tensor_array_length(self._array)
            if not isinstance(length, Tensor):
                length = self._backend.convert_to_tensor(length, dims=(), dtype="int32")
            axis.dyn_size_ext = length
        return self._backend.tensor_array_stack(self._array, axis=axis, tensor_template=self.tensor_template)

    def push_back(self, tensor: Tensor) -> TensorArray:
        """
        :param tensor: the new element: dims and dtype as in the template
        :return: array with one more element
        :raises DimError: if it has other dims
        """
        template = self.tensor_template
        if self._enable_delayed_check:
            template = tensor.copy_template(template.name)
        else:
            self._check(tensor)
        backend = get_backend_of(tensor)
        if self._backend.name == "template":
            backend = self._backend
        array = self._array if backend is self._backend else backend.tensor_array_create()
        return TensorArray(
            template, _backend_tensor_array=backend.tensor_array_push_back(array, tensor), _backend=backend
        )

    def __getitem__(self, index: int | Tensor) -> Tensor:
        """:return: the element with this number; a scalar tensor in a graph"""
        is_template = isinstance(index, Tensor) and get_backend_of(index).name == "template"
        if is_template or self._backend.name == "template":
            return self.tensor_template.copy_template()
        return self._backend.tensor_array_get_item(self._array, index)

    def get_backend_array(self, array_type: type) -> Any:
        """
        For backends.

        :param array_type: of the arrays of the backend
        :return: the array; an empty one of this type, if it has no elements and belongs to another backend
        """
        if isinstance(self._array, array_type):
            return self._array
        if self._array:
            raise TypeError(
                f"{self} has elements of the backend {self._backend.name!r}, expected {array_type.__name__}."
            )
        return array_type()

    def _check(self, tensor: Tensor) -> None:
        template = self.tensor_template
        if any(dim not in template.dims for dim in tensor.dims):
            raise DimError(
                f"TensorArray: the elements look like {template}, the new one is {tensor}.\n"
                "  All have the same dims: pad them to the same length, or use rf.replace_dim."
            )
        if tensor.dtype != template.dtype:
            raise DtypeError(
                f"TensorArray: the elements have the dtype {template.dtype}, the new one is {tensor}.\n"
                "  Use rf.cast on it."
            )


__all__ = ["TensorArray"]
