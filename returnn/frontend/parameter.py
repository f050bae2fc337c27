"""
Parameters: tensors that training changes.

With an eager backend, the raw parameter is made at once. In a graph, a variable needs its name and its initial value
from the beginning, and both are only known when the model is complete. There, it is made when it is first used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy

from returnn.frontend import _owner
from returnn.frontend._backend import Backend, get_backend_by_raw_tensor_type, get_backend_of, get_global_backend
from returnn.frontend.array_ import convert_to_tensor
from returnn.frontend.device import get_default_device
from returnn.frontend.dtype import get_default_float_dtype, get_default_int_dtype, is_float_dtype
from returnn.frontend.init import ParamInit
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError, check_known

if TYPE_CHECKING:
    from typing_extensions import Self

    Scalar = int | float | complex | numpy.number[Any] | numpy.ndarray[Any, Any] | bool | str
    Key = Scalar | Tensor | slice

CopyBehavior = Literal["initial", "value"]
_COPY_BEHAVIORS = ("initial", "value")
_copy_behavior: list[CopyBehavior] = ["initial"]


class Parameter(Tensor[Any]):
    """A tensor that training changes: `torch.nn.Parameter`, `tf.Variable`."""

    def __init__(
        self,
        dims_or_tensor: Sequence[Dim] | Tensor | None = None,
        dtype: str | None = None,
        *,
        dims: Sequence[Dim] | None = None,
        sparse_dim: Dim | None = None,
        trainable: bool | None = None,
        auxiliary: bool = False,
        non_critical_for_restore: bool = False,
        weight_decay: float | None = 0.0,
        initial: Tensor | Scalar | ParamInit | None = None,
        raw_tensor: Any = None,
        device: str | None = None,
    ) -> None:
        """
        :param dims_or_tensor: dims, all of fixed size; or a tensor, to make a parameter with its value
        :param dtype: default: the default float dtype; of integers, if there is a sparse dim
        :param dims: the same as `dims_or_tensor`
        :param sparse_dim: what the values are indices into
        :param trainable: whether the optimizer updates it; default: floats which are not auxiliary
        :param auxiliary: not to be transformed, as by weight normalization: running statistics and the like. Usually
            it is not trained, but assigned to
        :param non_critical_for_restore: a model can be loaded without it
        :param weight_decay: factor of the L2 loss
        :param initial: number, tensor, or what draws values, see `returnn.frontend.init`. None: zeros
        :param raw_tensor: a raw parameter that exists already
        :param device: such as "cpu"
        :raises DimError: if a dim is dynamic
        """
        if isinstance(dims_or_tensor, Tensor):
            tensor, dims_or_tensor = dims_or_tensor, dims_or_tensor.dims
            dtype, sparse_dim = dtype or tensor.dtype, sparse_dim or tensor.sparse_dim
            initial = tensor if initial is None and tensor.raw_tensor is not None else initial
        dims = dims if dims_or_tensor is None else dims_or_tensor
        if dims is None:
            raise DimError("Parameter: the dims are missing.")
        if dtype is None:
            dtype = get_default_float_dtype() if sparse_dim is None else get_default_int_dtype()
        others = [dim for dim in dims if not isinstance(dim, Dim)]
        if others:
            size = others[0] if isinstance(others[0], int) else 512
            raise DimError(
                f"Parameter: expected dims, got {others[0]!r}.\n"
                f"  A size becomes a dim by returnn.tensor.Dim({size}, name='features')."
            )
        dynamic = [str(dim) for dim in dims if dim.size is None]
        if dynamic:
            raise DimError(f"Parameter: the dims {', '.join(dynamic)} are dynamic.\n  A parameter has fixed sizes.")
        self._raw: Any = None
        self._is_pending = False
        self._reader: Callable[[Any], Any] | None = None
        super().__init__("parameter", dims, dtype, sparse_dim=sparse_dim)
        self._trainable = is_float_dtype(dtype) and not auxiliary if trainable is None else trainable
        self._auxiliary = auxiliary
        self._non_critical_for_restore = non_critical_for_restore
        self._weight_decay = weight_decay
        self._initial = initial
        self._device = device or get_default_device()
        if raw_tensor is not None:
            self.raw_tensor = raw_tensor
            return
        backend = get_global_backend()
        if backend.executing_eagerly():
            self._raw = backend.create_parameter_raw(self, device=self._device)
        else:
            self._is_pending = True

    # What operations compute with. The base class keeps it as an attribute.
    @property
    def _raw_tensor(self) -> Any:
        raw = self.raw_tensor
        return raw if self._reader is None else self._reader(raw)

    @_raw_tensor.setter
    def _raw_tensor(self, value: Any) -> None:
        self._raw = value
        self._is_pending = False

    @property
    def raw_tensor(self) -> Any:
        """The raw parameter. In a graph, this is what makes it, if it was not used before."""
        if self._is_pending:
            self._raw = get_global_backend().create_parameter_raw(self, device=self._device)
            self._is_pending = False
        return self._raw

    @raw_tensor.setter
    def raw_tensor(self, value: Any) -> None:
        if value is not None:
            self._check_raw(value)
        self._raw_tensor = value

    def set_reader(self, reader: Callable[[Any], Any]) -> None:
        """
        For backends.

        :param reader: raw parameter -> raw tensor which operations compute with from now on: the value after all that
            was assigned, in a graph
        """
        self._reader = reader

    def replace_raw(self, raw: Any, dtype: str) -> None:
        """For backends: sets another raw parameter, of another dtype."""
        self.dtype = dtype
        self._raw_tensor = raw

    def get_full_name(self) -> str:
        """:return: attributes on the way from the outermost module, such as "encoder.layers.0.weight" """
        return _owner.get_full_name(self) or self.name

    @property
    def initial(self) -> Tensor | Scalar | ParamInit | None:
        """Initial value of the parameter."""
        return self._initial

    @initial.setter
    def initial(self, value: Tensor | Scalar | ParamInit | None) -> None:
        self._initial = value
        if not self._is_pending and self._raw is not None:
            _backend(self).set_parameter_initial_value(self, self.draw_initial_value())

    def draw_initial_value(self) -> Tensor | Scalar:
        """:return: the initial value, drawn anew if it is random"""
        initial = self._initial
        if initial is None:
            return False if self.dtype == "bool" else "" if self.dtype == "string" else 0
        if isinstance(initial, ParamInit):
            return initial(self.dims, self.dtype, sparse_dim=self.sparse_dim, device=self._device)
        if isinstance(initial, numpy.ndarray) and initial.ndim:
            return convert_to_tensor(initial, dims=self.dims, dtype=self.dtype, device=self._device)
        return initial

    @property
    def trainable(self) -> bool | None:
        """Whether the optimizer updates it."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool | None) -> None:
        self._trainable = is_float_dtype(self.dtype) and not self._auxiliary if value is None else value
        if not self._is_pending and self._raw is not None:
            _backend(self).set_parameter_trainable(self, self._trainable)

    @property
    def weight_decay(self) -> float | None:
        """Factor of the L2 loss, which the option `decouple_constraints` takes out of the gradient."""
        return self._weight_decay

    @weight_decay.setter
    def weight_decay(self, value: float | None) -> None:
        self._weight_decay = value

    @property
    def auxiliary(self) -> bool:
        """Whether it is not to be transformed, as by weight normalization."""
        return self._auxiliary

    @auxiliary.setter
    def auxiliary(self, value: bool) -> None:
        self._auxiliary = value

    @property
    def non_critical_for_restore(self) -> bool:
        """Whether a model can be loaded without it."""
        return self._non_critical_for_restore

    @non_critical_for_restore.setter
    def non_critical_for_restore(self, value: bool) -> None:
        self._non_critical_for_restore = value

    def assign(self, value: Tensor | Scalar) -> None:
        """
        Sets the value, in place. Code reads as if it ran at once, also in a graph: what uses the parameter later gets
        the new value, and nothing is returned that someone has to run.

        :param value: number, or tensor with dims of the parameter
        """
        get_backend_of(self, value).parameter_assign(self, _as_value(self, value), op="assign")

    def assign_add(self, value: Tensor | Scalar) -> None:
        """Adds to the value, in place, see `assign`."""
        get_backend_of(self, value).parameter_assign(self, _as_value(self, value), op="add")

    def assign_key(
        self,
        axis: Dim | Sequence[Dim],
        key: Key | Sequence[Key],
        key_dim: Dim | Sequence[Dim | None] | None,
        value: Tensor | Scalar,
    ) -> None:
        """
        `param[key] = value`, with the axis by its dim, see `assign`.

        :param axis: one dim or several
        :param key: for each of them: number, slice, or tensor of indices. Each entry should be named at most once
        :param key_dim: for each key that is a slice: the dim of what it cuts out
        :param value: the dims of the parameter without `axis`, and those of the keys
        """
        get_backend_of(self, value).parameter_assign_key(
            self, key, _as_value(self, value), op="assign", axis=axis, key_dim=key_dim
        )

    def to(self, *, device: str | None = None, dtype: str | None = None) -> None:
        """
        Moves it, in place. `raw_tensor` can be another one afterwards.

        :param device: such as "cpu"; None: leave it
        :param dtype: None: leave it
        """
        if self._is_pending or self._raw is None:
            self.dtype = self.dtype if dtype is None else dtype
            self._device = self._device if device is None else device
            return
        _backend(self).parameter_move_to(self, device=device, dtype=dtype)

    def __copy__(self) -> Parameter:
        return self.__deepcopy__()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Parameter:
        """:return: new parameter, see `set_parameter_copy_behavior_ctx`"""
        new = Parameter(
            self.dims,
            self.dtype,
            sparse_dim=self.sparse_dim,
            trainable=self._trainable,
            auxiliary=self._auxiliary,
            non_critical_for_restore=self._non_critical_for_restore,
            weight_decay=self._weight_decay,
            initial=self._initial,
            device=self._device,
        )
        new.name = self.name
        if _copy_behavior[-1] == "value" and not self._is_pending and self._raw is not None:
            new.initial = self.copy()
        if memo is not None:
            memo[id(self)] = new
        return new

    def _with_same_axes(self, *, name: str | None = None, dtype: str | None = None) -> Self:
        new = super()._with_same_axes(name=name, dtype=dtype)
        for attribute in _OWN_ATTRIBUTES:  # the result is no parameter
            del new.__dict__[attribute]
        return new


_OWN_ATTRIBUTES = (
    "_raw",
    "_is_pending",
    "_reader",
    "_trainable",
    "_auxiliary",
    "_non_critical_for_restore",
    "_weight_decay",
    "_initial",
    "_device",
)


@contextlib.contextmanager
def set_parameter_copy_behavior_ctx(mode: CopyBehavior) -> Iterator[None]:
    """
    Inside of the `with` block, says what a copy of a parameter (`copy.deepcopy` of a module) has as initial value.

    :param mode: "initial": like the original, and if that is random, drawn anew. This is how it is outside.
        "value": the current value of the original
    """
    check_known("mode", mode, _COPY_BEHAVIORS, where="set_parameter_copy_behavior_ctx")
    _copy_behavior.append(mode)
    try:
        yield
    finally:
        _copy_behavior.pop()


def _backend(param: Parameter) -> type[Backend[Any]]:
    return get_backend_by_raw_tensor_type(type(param.raw_tensor))


def _as_value(param: Parameter, value: Tensor | Scalar) -> Any:
    if isinstance(value, Tensor):
        return value
    dims = param.dims if isinstance(value, numpy.ndarray) and value.ndim else ()
    return convert_to_tensor(value, dims=dims, dtype=param.dtype, _backend=get_backend_of(param))


__all__ = ["Parameter", "set_parameter_copy_behavior_ctx"]
