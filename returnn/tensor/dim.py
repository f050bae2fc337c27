"""
`Dim`: a named axis.

Tensors do not have a first or second axis here but dims: `Dim(512, name="feature")`, or `Dim(None, name="time")` for
sequences of different lengths. Operations find axes by their dim, so their order in memory does not matter, and two
axes of the same size are never mixed up.

Dims are equal if they are the same object, if one was declared to be the same as the other, or if they are the same
expression over others (`time // 2`). Two static dims of one size are different dims, except where both were made
automatically, from a number.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, TypedDict

from returnn.tensor import dim_math
from returnn.tensor._frontend import frontend
from returnn.tensor.dim_arithmetic import DimArithmetic
from returnn.tensor.dim_comparison import DimComparison
from returnn.tensor.dim_lengths import DimLengths
from returnn.tensor.dim_old_names import DimOldNames
from returnn.tensor.dim_types import DimKind, DimTypes
from returnn.util.errors import DimError, check_known

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from returnn.tensor.dim_rules import LengthRule
    from returnn.tensor.tensor import Tensor


class VerifyOutShapeException(DimError):
    """A tensor does not have the dims that were promised."""


class DimOptions(TypedDict, total=False):
    """What can be given to `Dim` beside its size and name; most dims leave it at the default."""

    kind: DimKind | None
    vocab: Any
    dyn_size: Any
    match_priority: int
    auto_generated: bool
    special: bool
    undefined: bool
    derived_from_tag: Dim | None
    _expression: dim_math.Sum | None


class Dim(DimArithmetic, DimLengths, DimComparison, DimOldNames):
    """A named axis. See the head of this module."""

    Types = DimTypes

    kind: DimKind | None = None
    vocab: Any = None
    match_priority: int = 0
    auto_generated: bool = False
    special: bool = False
    undefined: bool = False
    derived_from_tag: Dim | None = None
    length_rule: LengthRule | None = None
    is_permanent: bool = False  # others become the same as it, never the reverse
    _expression: dim_math.Sum | None = None
    _same_as: Dim | None = None

    def __init__(
        self,
        dimension: int | Tensor | None,
        *,
        name: str | None = None,
        capacity: int | None = None,
        dyn_size_ext: Tensor | None = None,
        description: str | None = None,
        bounded_by: Dim | None = None,
        **options: Unpack[DimOptions],
    ) -> None:
        """
        :param dimension: the size; None if sequences have different lengths; or a tensor with those lengths
        :param name: for people, and for axis descriptions such as `"stag:time"`
        :param capacity: size of the axis in memory, where it is larger than the longest sequence
        :param dyn_size_ext: lengths in frames, usually [B], int32
        :param description: old word for `name`
        :param bounded_by: a dim that is at least as long; its size in memory is also the one of this dim
        :param options: `kind`: batch, spatial or feature, where it is known;
            `vocab`: the labels, if this is the dim of sparse data;
            `dyn_size`: lengths as raw tensor of shape (B,);
            `match_priority`: if a tensor has this dim twice, operations take the one with the highest priority;
            `auto_generated`: made from a number, not by a person: equal to others of the same size and kind;
            `special`: a marker, which is equal to itself alone;
            `undefined`: nothing is known about it; it stands for a dim that another part of the code knows;
            `derived_from_tag`: the dim which it came from, in a way that the dim arithmetic does not express
        :raises DimError: if a size is negative, or lengths were given for a static dim
        :raises ConfigError: for an option that does not exist
        """
        for option in options:
            check_known("option", option, DimOptions.__annotations__, where=f"dim {name or description!r}")
        dyn_size = options.pop("dyn_size", None)
        lengths = dyn_size_ext
        if dimension is not None and not isinstance(dimension, int) and hasattr(dimension, "dims"):
            dimension, lengths = None, dimension
        size = None if dimension is None else int(dimension)  # type: ignore[arg-type] # a numpy number too
        if size is not None and size < 0:
            raise DimError(f"dim {name or description!r}: the size {size} is negative.")
        if size is not None and (lengths is not None or dyn_size is not None):
            raise DimError(f"dim {name or description!r} has the size {size}, so it cannot have lengths too.")
        if capacity is None and bounded_by is not None:
            capacity = bounded_by.capacity if bounded_by.capacity is not None else bounded_by.size
        self.name = name if name is not None else description
        self.size = size
        self.capacity = capacity
        self.bounded_by = bounded_by
        self._same_dims: list[weakref.ref[Dim]] = []  # those which were declared to be the same as this one
        self._computed_dims: list[Dim] = []  # see `declare_same_as`
        self._token = object()
        self._key_cache: tuple[int, Any] = (-1, None)
        self._store: dict[Any, Any] = {}
        self.__dict__.update(options)
        if dyn_size is not None:
            lengths = frontend().convert_to_tensor(dyn_size, dims=(batch_dim,), name=f"{self.name}:lengths")
        if lengths is not None:
            self.dyn_size_ext = lengths

    @property
    def dimension(self) -> int | None:
        """The size, None if dynamic."""
        return self.size

    @property
    def description(self) -> str | None:
        """Old word for `name`."""
        return self.name

    @property
    def same_as(self) -> Dim | None:
        """The dim that this one was declared to be the same as, if any."""
        return self._same_as

    def get_same_base(self) -> Dim:
        """:return: the one dim which stands for all that were declared to be the same as it"""
        dim = self
        while dim._same_as is not None:
            dim = dim._same_as
        return dim

    def is_batch_dim(self) -> bool:
        """:return: whether its kind is batch"""
        return self.kind is DimKind.Batch

    def is_feature_dim(self) -> bool:
        """:return: whether its kind is feature"""
        return self.kind is DimKind.Feature

    def is_spatial_dim(self) -> bool:
        """:return: whether its kind is spatial, such as time, width, height"""
        return self.kind is DimKind.Spatial

    def is_beam_dim(self) -> bool:
        """:return: whether the hypotheses of a search live on it"""
        return self.kind is DimKind.Beam

    def is_constant_static_dim(self) -> bool:
        """:return: whether it was made from a number alone"""
        return self.size is not None and self.auto_generated and self._expression is None

    def can_be_used_as_dim(self) -> bool:
        """:return: whether a tensor can have it as an axis; markers cannot"""
        return not self.special

    def copy(
        self,
        same_as_self: bool = True,
        description: str | None = None,
        kind: DimKind | None = None,
        match_priority: int | None = None,
    ) -> Dim:
        """
        :param same_as_self: whether the copy is equal to this dim
        :param description: name of the copy
        :param kind: kind of the copy
        :param match_priority: so that a tensor can have the dim twice
        """
        if same_as_self and description is None and kind in (None, self.kind) and match_priority is None:
            return self
        new = Dim(
            self.size,
            name=self.name if description is None else description,
            capacity=self.capacity,
            kind=self.kind if kind is None else kind,
            vocab=self.vocab,
            match_priority=self.match_priority if match_priority is None else match_priority,
            auto_generated=self.auto_generated,
            special=self.special,
            undefined=self.undefined,
            derived_from_tag=self.derived_from_tag,
        )
        if same_as_self:
            new._same_as = self
        elif self.size is None and self.dyn_size_ext is not None:
            new.dyn_size_ext = self.dyn_size_ext
        return new

    def short_repr(self) -> str:
        """:return: such as `time[B]` or `feature(512)`"""
        name = self.name
        if name is None:
            base = self.get_same_base()
            name = dim_math.format_sum(base._expression, Dim._inner_name) if base._expression else "unnamed"
        for long, short in _SHORT_NAMES.items():
            name = name.replace(long, short)
        if self.size is not None:
            text = name if name == str(self.size) else f"{name}({self.size})"
        elif self.is_batch_dim():
            text = name
        else:
            lengths = self.get_same_base()._lookup("lengths")
            inner = (
                "?" if lengths is None else ",".join("B" if d == batch_dim else d.short_repr() for d in lengths.dims)
            )
            text = f"{name}[{inner}]" if lengths is not None or not self.is_derived() else name
        return f"{text}!{self.match_priority}" if self.match_priority else text

    def __repr__(self) -> str:
        return f"Dim{{{self.short_repr()}}}"

    def __str__(self) -> str:
        return self.short_repr()

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any = None) -> Dim:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        for name, dim in _MARKERS.items():
            if self is dim:
                return name
        return super().__reduce_ex__(protocol)

    def __sis_state__(self) -> dict[str, Any]:
        """:return: what the hash of a job in the workflow manager Sisyphus depends on"""
        return {"dimension": self.size, "name": self.name, "kind": self.kind and self.kind.value}

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_store"] = {}
        state["_same_dims"] = []
        state["_key_cache"] = (-1, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _inner_name(self) -> str:
        return self.name if self.name is not None else self.short_repr()


batch_dim = Dim(None, name="batch", kind=DimTypes.Batch)
batch_dim.is_permanent = True
single_step_dim = Dim(None, name="single-step", kind=DimTypes.Spatial, special=True)
_SHORT_NAMES = {"var:extern_data:": "", "extern_data:": ""}  # as the data is what a config talks about anyway
_MARKERS = {"batch_dim": batch_dim, "single_step_dim": single_step_dim}
