"""
`Dim`: a named axis.

Tensors do not have a first or second axis here but dims: `Dim(512, name="feature")`, or `Dim(None, name="time")` for
sequences of different lengths. Operations find axes by their dim, so their order in memory does not matter, and two
axes of the same size are never mixed up.

The class is a tower. Each floor is a module that knows only those below:

| module | what the floor adds |
| --- | --- |
| `dim_base` | size, name, kind; which dims are equal |
| `dim_lengths` | lengths of sequences, masks |
| `dim_arithmetic` | `time // 2 + 1` |
| `dim_comparison` | `declare_same_as`; looser rules of equality |
| `dim` | copies |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from returnn.tensor.dim_comparison import DimComparison
from returnn.tensor.dim_types import DimKind, DimTypes
from returnn.util.errors import DimError

if TYPE_CHECKING:
    pass


class VerifyOutShapeException(DimError):
    """A tensor does not have the dims that were promised."""


class Dim(DimComparison):
    """A named axis. See the head of this module."""

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
            new.take_lengths_of(self)
        return new

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


batch_dim = Dim(None, name="batch", kind=DimTypes.Batch)
batch_dim.is_permanent = True
single_step_dim = Dim(None, name="single-step", kind=DimTypes.Spatial, special=True)
_MARKERS = {"batch_dim": batch_dim, "single_step_dim": single_step_dim}
