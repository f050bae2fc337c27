"""What a place in the hierarchy of layers is for those which `Layer` needs itself: see `layer`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from returnn.frontend.module import Module
from returnn.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

LayerDictRaw: TypeAlias = dict[str, Any]  # options of a layer, with tensors in place of names of layers
NetDictRaw: TypeAlias = dict[str, LayerDictRaw]


class Place(Protocol):
    """A `Layer`."""

    module: Module | None  # whose call it is
    is_subnet: bool
    virtual: bool
    layer_dict: LayerDictRaw | None
    tensor: Tensor[Any] | None  # template of the output
    can_access_children: bool
    require_global_access: bool
    custom_layer_name_scope: str | None
    tensor_remove_unused_cleanup_hooks: list[Callable[[Tensor[Any]], None]]
    extra_net_dict: NetDictRaw
    extern_data: dict[str, Tensor[Any]]
    marked_outputs: list[Tensor[Any]]
    marked_losses: list[Tensor[Any]]

    @property
    def root(self) -> Self:
        """The outermost network."""

    @property
    def parent(self) -> Self | None:
        """The place around."""

    @property
    def children(self) -> Mapping[str, Self]:
        """The places in here, by name."""

    def ancestors(self) -> Iterator[Self]:
        """:return: this place and those around it, innermost first"""

    def get_new_child(self, suggested_name: str) -> Self:
        """:return: a new place in here; if the name is taken, with a number behind it"""

    def extend_reserved_names(self, names: set[str]) -> None:
        """These names cannot be those of new layers in here."""

    def get_tensor_dependencies(self) -> Sequence[Self]:
        """:return: the layers that this one needs, by its options"""

    def is_call_of_module(self) -> bool:
        """:return: whether this is a subnetwork alone for the sake of names"""

    def get_abs_name_repr(self) -> str:
        """:return: for people"""
