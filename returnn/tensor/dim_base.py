"""
What a dim is: a size or lengths, a name, a kind. And which dims are one: the ground floor of `Dim`.

Dims are equal if they are the same object, if one was declared to be the same as the other, or if they are the same
expression over others (`time // 2`). Two static dims of one size are different dims, except where both were made
automatically, from a number.

Which dims are equal can change, by `Dim.declare_same_as`. So the hash of a dim must not depend on it, or else a dict
would lose its keys. It is one number for all dims: the dicts and sets of dims are small.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypedDict

from returnn.tensor import dim_math, scope
from returnn.tensor.dim_types import DimKind, DimTypes
from returnn.util.errors import DimError, check_known

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class Lengths(Protocol):
    """What a dim asks of its lengths: a tensor, usually [B], int32, in frames. Without a value, it is a template."""

    name: str

    @property
    def dims(self) -> Sequence[DimBase]:
        """The dims that the lengths depend on."""

    @property
    def raw_tensor(self) -> Any:
        """The value, None in a template."""

    def copy_template(self) -> Lengths:
        """:return: the same without its value"""

    def graph_of_value(self) -> AbstractContextManager[Any]:
        """:return: in there, operations are made in the graph of the value"""


class DimOptions(TypedDict, total=False):
    """What can be given to `Dim` beside its size and name; most dims leave it at the default."""

    kind: DimKind | None
    vocab: Any
    match_priority: int
    auto_generated: bool
    special: bool
    undefined: bool
    derived_from_tag: DimBase | None
    _expression: dim_math.Sum | None


class DimBase:
    """The data of a dim, and what makes two dims equal."""

    Types = DimTypes

    name: str | None
    size: int | None
    capacity: int | None  # size of the axis in memory, where it is larger than the longest sequence
    bounded_by: DimBase | None
    kind: DimKind | None = None
    vocab: Any = None
    match_priority: int = 0
    auto_generated: bool = False
    special: bool = False
    undefined: bool = False
    derived_from_tag: Self | None = None
    makers: tuple[str, ...] = ()  # the layers which computed it, one after the other: more words to find it by
    is_permanent: bool = False  # others become the same as it, never the reverse
    _expression: dim_math.Sum | None = None
    _same_as: Self | None = None
    _num_declared: ClassVar[int] = 0  # calls of `_become`, as each of them can change the key of any dim
    _when_declared: ClassVar[list[Callable[[], None]]] = []  # called then

    def __init__(
        self,
        dimension: int | Lengths | None,
        *,
        name: str | None = None,
        capacity: int | None = None,
        dyn_size_ext: Lengths | None = None,
        description: str | None = None,
        bounded_by: DimBase | None = None,
        **options: Unpack[DimOptions],
    ) -> None:
        """
        :param dimension: the size; None if sequences have different lengths; or a tensor with those lengths
        :param name: for people, and for axis descriptions such as `"stag:time"`
        :param capacity: size of the axis in memory, where it is larger than the longest sequence
        :param dyn_size_ext: lengths in frames, usually [B], int32
        :param description: another word for `name`
        :param bounded_by: a dim that is at least as long; its size in memory is also the one of this dim
        :param options: `kind`: batch, spatial or feature, where it is known;
            `vocab`: the labels, if this is the dim of sparse data;
            `match_priority`: if a tensor has this dim twice, operations take the one with the highest priority;
            `auto_generated`: made from a number, not by a person: equal to others of the same size and kind;
            `special`: a marker, which is equal to itself alone;
            `undefined`: nothing is known about it; it stands for a dim that another part of the code knows;
            `derived_from_tag`: the dim which it came from, in a way that the dim arithmetic does not express
        :raises DimError: if a size is negative, or lengths were given for a static dim
        :raises ConfigError: for an option that does not exist
        """
        name = name if name is not None else description
        for option in options:
            check_known("option", option, DimOptions.__annotations__, where=f"dim {name!r}")
        lengths = dyn_size_ext
        if dimension is not None and not isinstance(dimension, int) and hasattr(dimension, "dims"):
            dimension, lengths = None, dimension
        size = None if dimension is None else int(dimension)  # type: ignore[arg-type] # a numpy number too
        if size is not None and size < 0:
            raise DimError(f"dim {name!r}: the size {size} is negative.")
        if size is not None and lengths is not None:
            raise DimError(f"dim {name!r} has the size {size}, so it cannot have lengths too.")
        if capacity is None and bounded_by is not None:
            capacity = bounded_by.capacity if bounded_by.capacity is not None else bounded_by.size
        self.name = name
        self.size = size
        self.capacity = capacity
        self.bounded_by = bounded_by
        self._same_dims: list[weakref.ref[Self]] = []  # those which were declared to be the same as this one
        self._computed_dims: list[DimBase] = []  # see `_become`
        self._token = object()
        self._key_cache: tuple[int, Any] = (-1, None)  # the number of declarations that the key is of; the key
        self._store: scope.Store = {}
        self.__dict__.update(options)
        if lengths is not None:
            self._keep("lengths", lengths, in_scope=lengths.raw_tensor is not None)

    @property
    def dimension(self) -> int | None:
        """The size, None if dynamic."""
        return self.size

    @property
    def same_as(self) -> Self | None:
        """The dim that this one was declared to be the same as, if any."""
        return self._same_as

    def get_same_base(self) -> Self:
        """:return: the one dim which stands for all that were declared to be the same as it"""
        dim = self
        while dim._same_as is not None:
            dim = dim._same_as
        return dim

    @property
    def expression(self) -> dim_math.Sum:
        """The dim as expression over dims which were not computed, in normal form."""
        return _get_expression(self.get_same_base())

    def is_derived(self) -> bool:
        """:return: whether the dim was computed from others"""
        return self.get_same_base()._expression is not None

    @property
    def key(self) -> Any:
        """Two dims are equal if and only if their keys are. It can change when dims are declared to be the same."""
        if self._key_cache[0] != DimBase._num_declared:
            self._key_cache = DimBase._num_declared, _make_key(self.get_same_base())
        return self._key_cache[1]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, DimBase):
            return False
        a, b = self._key_cache, other._key_cache
        if a[0] == b[0] == DimBase._num_declared:  # most often; a property costs as much as all the rest
            return bool(a[1] == b[1])
        return bool(self.key == other.key)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return _HASH_OF_ALL

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

    def is_dynamic(self) -> bool:
        """:return: whether the size is not a fixed number"""
        return self.size is None

    def is_static(self) -> bool:
        """:return: whether the size is a fixed number"""
        return self.size is not None

    def short_repr(self) -> str:
        """:return: such as `time[B]` or `feature(512)`"""
        name = self.name
        if name is None:
            base = self.get_same_base()
            name = dim_math.format_sum(base._expression, _inner_name) if base._expression else "unnamed"
        name = short_name(name)
        if self.size is not None:
            text = name if name == str(self.size) else f"{name}({self.size})"
        elif self.is_batch_dim():
            text = name
        else:
            lengths = self.get_same_base()._lookup("lengths")
            text = name if lengths is None and self.is_derived() else f"{name}[{_format_dims_of_lengths(lengths)}]"
        return f"{text}!{self.match_priority}" if self.match_priority else text

    def __repr__(self) -> str:
        return f"Dim{{{self.short_repr()}}}"

    def __str__(self) -> str:
        return self.short_repr()

    def _become(self, other: Self) -> None:
        """From now on, this dim is the same as `other`. Both are bases, see `get_same_base`."""
        self._same_as = other
        DimBase._num_declared += 1
        for notify in DimBase._when_declared:
            notify()
        refs = [*other._same_dims, weakref.ref(self), *self._same_dims]
        other._same_dims = [ref for ref in refs if ref() is not None]
        if self._expression is not None:
            # It stays for as long as it can be computed again, so that what was declared about it stays known.
            first_atom = next(self._expression.atoms(), None)
            if first_atom is not None:
                first_atom._computed_dims.append(self)

    def _list_same_dims(self) -> list[Self]:
        """:return: this dim, which is a base, and all that were declared to be the same"""
        return [self, *(dim for ref in self._same_dims if (dim := ref()) is not None)]

    def _stores(self) -> Iterator[scope.Store]:
        yield from scope.current_scopes()
        yield self._store

    def _lookup(self, what: Any) -> Any:
        """:return: what `_keep` was told, as far as it is valid here"""
        key = (what, self.key)
        for store in self._stores():
            if key in store:
                return store[key]
        return None

    def _keep(self, what: Any, value: Any, *, in_scope: bool) -> None:
        """Keeps a value that belongs to the dim, under its key, so that equal dims share it."""
        store = next(self._stores()) if in_scope else self._store
        store[(what, self.key)] = value


_HASH_OF_ALL = 1


def short_name(name: str) -> str:
    """:return: name of a dim, as people see it"""
    for long, short in _SHORT_NAMES.items():
        name = name.replace(long, short)
    return name


_SHORT_NAMES = {"var:extern_data:": "", "extern_data:": ""}  # as the data is what a config talks about anyway


def _get_expression(base: DimBase) -> dim_math.Sum:
    if base._expression is None:
        if base.size is not None and base.auto_generated:
            return dim_math.constant(base.size)
        return dim_math.atom(base)

    def replace(dim: DimBase) -> dim_math.Sum | None:
        other = dim.get_same_base()
        return _get_expression(other) if other is not dim or other._expression is not None else None

    return dim_math.substitute(base._expression, replace)


def _make_key(base: DimBase) -> Any:
    """:return: for a dim which was not computed an object of its own, as this is what is compared fastest"""
    if base.size is not None and base.auto_generated:
        return "number", base.size, base.kind
    if base._expression is None:
        return base._token
    single = base.expression.as_atom()
    return base.expression if single is None else single.key


def _inner_name(dim: DimBase) -> str:
    return dim.name if dim.name is not None else dim.short_repr()


def _format_dims_of_lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return "?"
    return ",".join("B" if dim.get_same_base().is_permanent else dim.short_repr() for dim in lengths.dims)
