"""
`Tensor`: values with named axes.

A tensor has dims, a dtype, and a raw tensor of some backend (numpy, TensorFlow, PyTorch). Without a raw tensor it is a
template: it says what a value looks like. Operations are in `returnn.frontend`; they run on templates too.

Beside its dims, a tensor can say which of them is the feature dim (what a matrix multiplies), which is the time dim,
and, if its values are indices (labels, positions), into which dim they point: the sparse dim.

The same class serves the net dict, where it is known as `Data` and is described by `shape` and `batch_dim_axis`, see
`returnn.tensor.tensor_from_shape`. There, feature and time dim are guessed where they are not given (`version=1`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from returnn.tensor._frontend import backend_of_raw
from returnn.tensor.dim import Dim, VerifyOutShapeException
from returnn.tensor.dim_types import DimKind
from returnn.tensor.tensor_axes import TensorAxes
from returnn.tensor.tensor_batch import TensorBatch
from returnn.tensor.tensor_from_shape import dims_from_shape, is_shape_form
from returnn.tensor.tensor_layout import TensorLayout
from returnn.tensor.tensor_lengths import TensorLengths
from returnn.tensor.tensor_old_names import TensorOldNames
from returnn.tensor.tensor_operators import TensorOperators
from returnn.tensor.tensor_outputs import TensorOutputs
from returnn.tensor.tensor_templates import TensorTemplates
from returnn.util.errors import DimError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from returnn.tensor.batch_info import BatchInfo, SearchBeam
    from returnn.tensor.control_flow_ctx import ControlFlowContext

    T = TypeVar("T", default=Any)  # so that `Tensor` alone stands for one of any backend
else:
    from typing import TypeVar

    T = TypeVar("T")


class Tensor(
    TensorOperators,
    TensorAxes,
    TensorLengths,
    TensorTemplates,
    TensorLayout,
    TensorBatch,
    TensorOutputs,
    TensorOldNames,
    Generic[T],
):
    """Values with named axes. See the head of this module."""

    SpecialAxesNames = ("time_dim_axis", "feature_dim_axis")
    size_dtype = "int32"
    available_for_inference = True
    _tensor_class: type[Tensor]  # what a copy is, also one of a subclass

    def __init__(
        self,
        name: str,
        dims: Sequence[Dim] | None = None,
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        feature_dim_axis: int | type[NotSpecified] | None = NotSpecified,
        time_dim_axis: int | type[NotSpecified] | None = NotSpecified,
        raw_tensor: T | None = None,
        placeholder: T | None = None,
        version: int | None = None,
        available_for_inference: bool = True,
        batch: BatchInfo | None = None,
        beam: SearchBeam | None = None,
        control_flow_ctx: ControlFlowContext | None = None,
        vocab: Any = None,
        **shape_options: Any,
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
        :param placeholder: old word for `raw_tensor`
        :param version: 1: feature and time dim are guessed if not given; 2: only what was given counts.
            Default: 2 with `dims`, 1 with the old ways of describing the axes
        :param available_for_inference: whether it is there when there are no targets
        :param batch: what the batch axis consists of, if that is not just the batch
        :param beam: the beam which is part of the batch axis, if any
        :param control_flow_ctx: the loop that it lives in
        :param vocab: the labels of the sparse dim
        :param shape_options: the old ways to describe the axes: `dim_tags`, or `shape`, `dim`, `sparse`,
            `batch_dim_axis`, `same_dim_tags_as`, `size_placeholder`, `auto_create_placeholders`
        """
        is_old_form = bool(shape_options) and is_shape_form(shape_options)
        if dims is None or is_old_form:
            described = dims_from_shape(
                name, dims=dims, sparse_dim=sparse_dim, dtype=dtype, time_dim_axis=time_dim_axis,
                feature_dim_axis=feature_dim_axis, vocab=vocab, **shape_options,
            )  # fmt: skip
            dims, sparse_dim = described.dims, described.sparse_dim
            feature_dim_axis, time_dim_axis = described.feature_dim_axis, described.time_dim_axis
            version = 1 if version is None else version
        self.name = name
        self._dims = _checked_dims(name, dims)
        self.dtype = dtype or ("int32" if sparse_dim is not None else "float32")
        self.sparse_dim = sparse_dim
        self.version = 2 if version is None else version
        self.available_for_inference = available_for_inference
        self._feature_dim_axis = self._checked_axis_if_int(feature_dim_axis)
        self._time_dim_axis = self._checked_axis_if_int(time_dim_axis)
        self._batch = batch
        self._beam = beam
        self._control_flow_ctx = control_flow_ctx
        self._raw_tensor: T | None = None
        if feature_dim is not None:
            self.feature_dim = feature_dim
        if vocab is not None:
            self.vocab = vocab
        if raw_tensor is not None or placeholder is not None:
            self.raw_tensor = placeholder if raw_tensor is None else raw_tensor
        if shape_options:
            self._set_sizes(**shape_options)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The axes, in the order of the raw tensor."""
        return self._dims

    @property
    def dims_set(self) -> set[Dim]:
        """The dims without order."""
        return set(self._dims)

    @property
    def raw_tensor(self) -> Any:  # T | None, but who computes with a value knows that there is one
        """The value, as tensor of some backend. None: this is a template."""
        return self._raw_tensor

    @raw_tensor.setter
    def raw_tensor(self, value: T | None) -> None:
        if value is not None:
            self._check_raw(value)
        self._raw_tensor = value

    @property
    def placeholder(self) -> Any:
        """Old word for `raw_tensor`."""
        return self.raw_tensor

    @placeholder.setter
    def placeholder(self, value: T | None) -> None:
        self.raw_tensor = value

    @property
    def _raw_backend(self) -> Any:
        """The backend of the raw tensor; None for a template."""
        return None if self._raw_tensor is None else backend_of_raw(self._raw_tensor)

    @property
    def feature_dim_axis(self) -> int | None:
        """The axis of the feature dim, counted with the batch axis."""
        if self._feature_dim_axis is not NotSpecified:
            return self._feature_dim_axis  # type: ignore[return-value]
        return self._guess_feature_dim_axis() if self.version == 1 else None

    @feature_dim_axis.setter
    def feature_dim_axis(self, axis: int | type[NotSpecified] | None) -> None:
        self._feature_dim_axis = self._checked_axis_if_int(axis)

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
        self._time_dim_axis = self._checked_axis_if_int(axis)

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
            dim.vocab = vocab

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
        return None if self._raw_tensor is None else self._raw_backend.get_device(self)

    def reset(self) -> None:
        """Makes it a template again. Lengths of its dims are forgotten, too."""
        self._raw_tensor = None
        for dim in self._dims:
            dim.reset_raw()

    def __repr__(self) -> str:
        return self.get_description(catch_exceptions=True)

    def __hash__(self) -> int:
        return id(self)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._raw_tensor is not None and not self._raw_backend.should_pickle_tensor(self._raw_tensor):
            state["_raw_tensor"] = None
        state["_batch"] = None
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)

    def _set_sizes(
        self, size_placeholder: Mapping[int, Any] | None = None, auto_create_placeholders: bool = False, **_: Any
    ) -> None:
        if size_placeholder:
            self.size_placeholder = size_placeholder
        if auto_create_placeholders:
            self.create_placeholders()

    def _check_raw(self, value: Any) -> None:
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

    def _checked_axis(self, axis: int) -> int:
        if not -len(self._dims) <= axis < len(self._dims):
            raise DimError(f"{self.name!r} with {len(self._dims)} axes: there is no axis {axis}.")
        return axis % len(self._dims)

    def _checked_axis_if_int(self, axis: int | type[NotSpecified] | None) -> int | type[NotSpecified] | None:
        return self._checked_axis(axis) if isinstance(axis, int) else axis

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
        """The first axis with sequences of different lengths; otherwise the first spatial one."""
        spatial = [i for i, dim in enumerate(self._dims) if dim.kind is DimKind.Spatial]
        dynamic = [i for i in spatial if self._dims[i].is_dynamic_seq_length()]
        return next(iter(dynamic or spatial), None)


def _checked_dims(name: str, dims: Sequence[Dim]) -> tuple[Dim, ...]:
    for dim in dims:
        if not isinstance(dim, Dim):
            raise DimError(f"tensor {name!r}: expected dims, got {dim!r} of type {type(dim).__name__}.")
    return tuple(dims)


Tensor._tensor_class = Tensor

__all__ = ["Dim", "Tensor", "VerifyOutShapeException"]
