"""
What a tensor is: dims, a dtype, a value, and the roles of its dims. The ground floor of `Tensor`.

Beside its dims, a tensor can say which of them is the feature dim (what a matrix multiplies), which is the time dim,
and, if its values are indices (labels, positions), into which dim they point: the sparse dim.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from returnn.tensor._frontend import backend_of_raw
from returnn.tensor.batch_info import BatchInfo, SearchBeam
from returnn.tensor.control_flow_ctx import ControlFlowContext
from returnn.tensor.dim import Dim
from returnn.tensor.dim_types import DimKind
from returnn.util.errors import DimError
from returnn.util.not_specified import NotSpecified
from returnn.util.python import missing_values

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorBase:
    """The data of a tensor."""

    size_dtype = "int32"
    available_for_inference = True
    _tensor_class: ClassVar[type[Any]]  # what a copy is, also one of an object of a derived class

    def __init__(
        self,
        name: str,
        dims: Sequence[Dim],
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        feature_dim_axis: int | type[NotSpecified] | None = NotSpecified,
        time_dim_axis: int | type[NotSpecified] | None = NotSpecified,
        raw_tensor: Any = None,
        version: int = 2,
        available_for_inference: bool = True,
        batch: BatchInfo | None = None,
        beam: SearchBeam | None = None,
        control_flow_ctx: ControlFlowContext | None = None,
        vocab: Any = None,
    ) -> None:
        """
        :param name: for people
        :param dims: the axes, in the order of the raw tensor
        :param dtype: such as "float32"; default is "int32" for sparse data and "float32" otherwise
        :param sparse_dim: what the values are indices into
        :param feature_dim: the dim which linear transformations work on
        :param feature_dim_axis: the same by number, counted with the batch axis
        :param time_dim_axis: the axis with the time frames, counted with the batch axis
        :param raw_tensor: the value
        :param version: 1: feature and time dim are guessed if not given; 2: only what was given counts
        :param available_for_inference: whether it is there when there are no targets
        :param batch: what the batch axis consists of, if that is not just the batch
        :param beam: the beam which is part of the batch axis, if any
        :param control_flow_ctx: the loop that it lives in
        :param vocab: the labels of the sparse dim: a vocabulary, or its options, or its file
        """
        self.name = name
        self._dims = _check_dims(name, dims)
        self.dtype = dtype or ("int32" if sparse_dim is not None else "float32")
        self.sparse_dim = sparse_dim
        self.version = version
        self.available_for_inference = available_for_inference
        self._feature_dim_axis = self._check_axis_if_int(feature_dim_axis)
        self._time_dim_axis = self._check_axis_if_int(time_dim_axis)
        self._batch = batch
        self._beam = beam
        self._control_flow_ctx = control_flow_ctx
        self._raw_tensor: Any = None
        if feature_dim is not None:
            self.feature_dim = feature_dim
        if vocab is not None:
            self.vocab = vocab
        if raw_tensor is not None:
            self.raw_tensor = raw_tensor

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The axes, in the order of the raw tensor."""
        return self._dims

    @property
    def dims_set(self) -> set[Dim]:
        """The dims without order."""
        return set(self._dims)

    @property
    def raw_tensor(self) -> Any:
        """The value, as tensor of some backend. None: this is a template."""
        value = self._raw_tensor
        if value is None and missing_values.counts:
            missing_values.note_read()
        return value

    @raw_tensor.setter
    def raw_tensor(self, value: Any) -> None:
        if value is not None:
            self._check_raw(value)
        self._raw_tensor = value

    @property
    def _raw_backend(self) -> Any:
        """The `Backend` of the raw tensor; None for a template."""
        return None if self._raw_tensor is None else backend_of_raw(self._raw_tensor)

    @property
    def feature_dim_axis(self) -> int | None:
        """The axis of the feature dim, counted with the batch axis."""
        if self._feature_dim_axis is not NotSpecified:
            return self._feature_dim_axis  # type: ignore[return-value]
        return self._guess_feature_dim_axis() if self.version == 1 else None

    @feature_dim_axis.setter
    def feature_dim_axis(self, axis: int | type[NotSpecified] | None) -> None:
        self._feature_dim_axis = self._check_axis_if_int(axis)

    @property
    def feature_dim_axis_or_unspecified(self) -> int | type[NotSpecified] | None:
        """The axis as it was given, NotSpecified if it was not."""
        return self._feature_dim_axis

    @property
    def feature_dim(self) -> Dim | None:
        """The dim which linear transformations work on."""
        axis = self.feature_dim_axis
        return None if axis is None else self._dims[axis]

    @feature_dim.setter
    def feature_dim(self, dim: Dim | None) -> None:
        if dim is None:
            self._feature_dim_axis = None
            return
        if dim not in self._dims:
            raise DimError(f"{self}: {dim} cannot be the feature dim, it is none of the dims.")
        self._feature_dim_axis = max(
            (i for i, d in enumerate(self._dims) if d == dim), key=lambda i: self._dims[i].match_priority
        )

    @property
    def feature_dim_or_sparse_dim(self) -> Dim | None:
        """What the values are indices into, or else the feature dim."""
        return self.feature_dim if self.sparse_dim is None else self.sparse_dim

    @property
    def time_dim_axis(self) -> int | None:
        """The axis of the time frames, counted with the batch axis."""
        if self._time_dim_axis is not NotSpecified:
            return self._time_dim_axis  # type: ignore[return-value]
        return self._guess_time_dim_axis()

    @time_dim_axis.setter
    def time_dim_axis(self, axis: int | type[NotSpecified] | None) -> None:
        self._time_dim_axis = self._check_axis_if_int(axis)

    @property
    def time_dim_axis_or_unspecified(self) -> int | type[NotSpecified] | None:
        """The axis as it was given, NotSpecified if it was not."""
        return self._time_dim_axis

    @property
    def batch_dim_axis(self) -> int | None:
        """The axis of the batch."""
        return next((i for i, dim in enumerate(self._dims) if dim.is_batch_dim()), None)

    @property
    def sparse(self) -> bool:
        """Whether the values are indices into some dim."""
        return self.sparse_dim is not None

    @property
    def dim(self) -> int | None:
        """Number of labels if sparse, otherwise size of the feature dim."""
        dim = self.feature_dim_or_sparse_dim
        return None if dim is None else dim.size

    @property
    def vocab(self) -> Any:
        """The labels that the values or features stand for, if known."""
        dim = self.feature_dim_or_sparse_dim
        return None if dim is None else dim.vocab

    @vocab.setter
    def vocab(self, vocab: Any) -> None:
        dim = self.feature_dim_or_sparse_dim
        if dim is not None:
            dim.vocab = _made_vocab(vocab) if isinstance(vocab, str | Mapping) else vocab

    @property
    def control_flow_ctx(self) -> ControlFlowContext | None:
        """The loop or branch that the tensor lives in."""
        return self._control_flow_ctx

    @control_flow_ctx.setter
    def control_flow_ctx(self, ctx: ControlFlowContext | None) -> None:
        self._control_flow_ctx = ctx

    @property
    def device(self) -> str | None:
        """Where the value is, such as "cpu"."""
        return None if self._raw_tensor is None else backend_of_raw(self._raw_tensor).get_device(self)

    def reset(self) -> None:
        """Makes it a template again. Lengths of its dims are forgotten, too."""
        self._raw_tensor = None
        for dim in self._dims:
            dim.reset_raw()

    @property
    def batch_shape(self) -> tuple[int | None, ...]:
        """Sizes with the batch axis."""
        return tuple(dim.size for dim in self.dims)

    def get_batch_axes_short_description(self, special_axes: bool = True) -> list[str]:
        """
        :param special_axes: mark which one is the time and which one the feature axis
        :return: for each axis, the dim as text
        """
        texts = []
        for axis, dim in enumerate(self.dims):
            text = "B" if dim.is_batch_dim() and not dim.is_derived() else dim.short_repr()
            if special_axes and self.version == 1 and axis == self.time_dim_axis:
                text = f"T|{text}"
            if special_axes and axis == self.feature_dim_axis:
                text = f"F|{text}"
            texts.append(text)
        return texts

    def get_description(
        self, with_name: bool = True, with_placeholder: bool = False, catch_exceptions: bool = False
    ) -> str:
        """
        :param with_name: begin with the name
        :param with_placeholder: also show the raw tensor
        :param catch_exceptions: for use in `repr`, where an error would hide another one
        :return: such as `'encoder' [B, T|time[B], F|feature(512)]`
        """
        try:
            axes = self.get_batch_axes_short_description()
        except (AttributeError, ValueError, RuntimeError) as exc:
            if not catch_exceptions:
                raise
            axes = [f"<{type(exc).__name__}: {exc}>"]
        parts = [repr(self.name)] if with_name else []
        parts.append(f"[{', '.join(axes)}]")
        if self.dtype != "float32":
            parts.append(self.dtype)
        if self.sparse_dim is not None:
            parts.append(f"-> {self.sparse_dim.short_repr()}")
        if with_placeholder:
            parts.append(repr(self.raw_tensor))
        return " ".join(parts)

    def __repr__(self) -> str:
        return self.get_description(catch_exceptions=True)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._raw_tensor is not None and not backend_of_raw(self._raw_tensor).should_pickle_tensor(self._raw_tensor):
            state["_raw_tensor"] = None
        state["_batch"] = None
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)

    def _insert_dim(self, dim: Dim, axis: int, name: str | None = None) -> Self:
        dims = [*self.dims[:axis], dim, *self.dims[axis:]]
        return self._with_axes(dims, [*range(axis), None, *range(axis, len(self.dims))], name=name)

    def _with_axes(
        self,
        dims: Iterable[Dim],
        old_axes: Iterable[int | None],
        *,
        name: str | None = None,
        dtype: str | None = None,
    ) -> Self:
        """
        :param dims: of the new tensor
        :param old_axes: for each of them, the axis here that it stands for, or None if it is new
        :return: template with these dims. Time and feature dim go with their axes.
        """
        new = self._with_same_axes(name=name, dtype=dtype)
        new._dims = tuple(dims)
        positions = list(old_axes)
        for attribute in ("_feature_dim_axis", "_time_dim_axis"):
            axis = getattr(self, attribute)
            if axis is not None and axis is not NotSpecified:
                setattr(new, attribute, positions.index(axis) if axis in positions else NotSpecified)
        return new

    def _with_same_axes(self, *, name: str | None = None, dtype: str | None = None) -> Self:
        """:return: template with the same dims. This is what most operations start with, so it does not call much."""
        new: Self = object.__new__(type(self)._tensor_class)
        new.__dict__.update(self.__dict__)
        new._raw_tensor = None
        if name is not None:
            new.name = name
        if dtype is not None:
            new.dtype = dtype
            if not dtype.startswith(("int", "uint")):
                new.sparse_dim = None
        return new

    def _check_raw(self, value: Any) -> None:
        """:raises DimError: if the value has another shape or dtype"""
        backend = backend_of_raw(value)
        shape = backend.get_known_shape_raw(value)
        if len(shape) != len(self._dims) or not all(
            size is None or dim.size is None or size == (dim.capacity or dim.size) or dim.special
            for size, dim in zip(shape, self._dims, strict=True)
        ):
            raise DimError(f"{self.get_description()}: the value has the shape {tuple(shape)}, which does not fit.")
        dtype = backend.get_dtype_name_raw(value)
        if dtype != self.dtype:
            raise DimError(f"{self.get_description()}: the value has the dtype {dtype}, expected {self.dtype}.")

    def _check_axis(self, axis: int) -> int:
        """:return: the axis, counted from the front"""
        if not -len(self._dims) <= axis < len(self._dims):
            raise DimError(f"{self.name!r} with {len(self._dims)} axes: there is no axis {axis}.")
        return axis % len(self._dims)

    def _check_axis_if_int(self, axis: int | type[NotSpecified] | None) -> int | type[NotSpecified] | None:
        return self._check_axis(axis) if isinstance(axis, int) else axis

    def _guess_feature_dim_axis(self) -> int | None:
        """The last dim of kind feature; otherwise the last static one, otherwise the last one but batch and time."""
        if self.sparse_dim is not None:
            return None
        features = [i for i, dim in enumerate(self._dims) if dim.kind is DimKind.Feature]
        if features:
            return features[-1]
        time_axis = self.time_dim_axis
        others = [i for i, d in enumerate(self._dims) if i != time_axis and d.kind not in (DimKind.Batch, DimKind.Beam)]
        static = [i for i in others if self._dims[i].size is not None]
        return (static or others)[-1] if others else None

    def _guess_time_dim_axis(self) -> int | None:
        """
        The first spatial axis with sequences of different lengths, or the first one with lengths whose kind nobody has
        said, as in `Dim(None, name="time")`; otherwise the first spatial one.
        """
        spatial = [i for i, dim in enumerate(self._dims) if dim.kind is DimKind.Spatial]
        dynamic = [i for i in spatial if self._dims[i].is_dynamic_seq_length()]
        of_no_kind = [i for i, dim in enumerate(self._dims) if dim.kind is None and dim.is_dynamic_seq_length()]
        return next(iter(dynamic or of_no_kind or spatial), None)


TensorT = TypeVar("TensorT", bound=TensorBase)


def tensor_like(tensor: TensorT, attributes: Mapping[str, Any], raw_tensor: Any) -> TensorT:
    """
    For who found out before that it is right: nothing is checked.

    :param tensor: the result is like it ...
    :param attributes: ... but for these. They fit each other, and the value
    :param raw_tensor: of the result
    :return: tensor
    """
    new: TensorT = object.__new__(tensor._tensor_class)
    new.__dict__ = {**tensor.__dict__, **attributes, "_raw_tensor": raw_tensor}
    return new


def _made_vocab(options: str | Mapping[str, Any]) -> Any:
    """:return: as data sets make it; they are above tensors, so they are imported when they are needed"""
    options = {"vocab_file": options} if isinstance(options, str) else options
    return importlib.import_module("returnn.datasets.util.vocabulary").Vocabulary.create_vocab(**options)


def _check_dims(name: str, dims: Sequence[Dim]) -> tuple[Dim, ...]:
    for dim in dims:
        if not isinstance(dim, Dim):
            raise DimError(f"tensor {name!r}: expected dims, got {dim!r} of type {type(dim).__name__}.")
    return tuple(dims)
