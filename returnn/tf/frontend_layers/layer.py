"""
`Layer`: the raw tensor of this backend. It is a place in the hierarchy of layers, such as "encoder/layers_0/add".

A place is one of these:

- a layer, with options (`layer_dict`) in which tensors stand for the layers that they come from;
- a network: the root, the call of a module (a subnetwork), a loop or a branch of a condition, whose children are layers
  of this network;
- something that another layer has beside its output, such as "split/0": virtual, without options;
- data of the outside, "data:key".

New layers go to the network of the innermost module whose method is running, see `call_stack`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from returnn.tensor import ControlFlowContext, Dim, Tensor
from returnn.tensor.batch_info import BatchInfo
from returnn.tensor.scope import Store
from returnn.tf.frontend_layers.call_stack import CallStack, auto_setup_name_ctx_ignore_func
from returnn.tf.frontend_layers.config_text import ReturnnConfigSerializer
from returnn.tf.frontend_layers.dim_tags_proxy import ReturnnDimTagsProxy
from returnn.tf.frontend_layers.net import LayerDictRaw, Net, NetDictRaw
from returnn.util.errors import UserError
from returnn.util.not_specified import NotSpecified
from returnn.util.python.missing_values import NoValueError

if TYPE_CHECKING:
    from typing_extensions import Self

    from returnn.frontend.module import Module

__all__ = ["Layer", "LayerDictRaw", "Net", "NetDictRaw", "ReturnnDimTagsProxy", "auto_setup_name_ctx_ignore_func"]


class Layer:
    """A place in the hierarchy of layers. See the head of this module."""

    stack: ClassVar[list[Layer]] = []  # the networks that were entered, the innermost last
    _default_root: ClassVar[Layer | None] = None

    def __init__(
        self,
        *,
        module: Module | None = None,
        suggested_name: str | None = None,
        name: str | None = None,
        virtual: bool = False,
        can_access_children: bool = True,
        new_control_flow_ctx: ControlFlowContext | None = None,
        parent: Layer | type[NotSpecified] | None = NotSpecified,
    ) -> None:
        """
        :param module: whose call it is
        :param suggested_name: if it is taken, a number comes behind it
        :param name: has to be free
        :param virtual: it is no layer of its own in the net dict
        :param can_access_children: whether layers inside can be named from outside
        :param new_control_flow_ctx: of a loop or branch, which layers inside belong to
        :param parent: network around; default: the current one; None: this is a root
        """
        self.module = module
        self.virtual = virtual
        self.can_access_children = can_access_children
        self.new_control_flow_ctx = new_control_flow_ctx
        self.name: str | None = None
        self.parent: Layer | None = None
        self.children: dict[str, Layer] = {}
        self.layer_dict: LayerDictRaw | None = None
        self.tensor: Tensor[Any] | None = None  # template of the output
        self.is_subnet = parent is None or new_control_flow_ctx is not None
        self.extern_data: dict[str, Tensor[Any]] = {}  # of a root
        self.global_batch: BatchInfo | None = None  # of a root: of the data that was registered first
        self.marked_outputs: list[Tensor[Any]] = []  # of a network: needed, whatever else is
        self.marked_losses: list[Tensor[Any]] = []
        self.layer_extra_dependencies: list[Layer] = []
        self.lengths_of_others: dict[tuple[Layer, Dim], Tensor[Any]] = {}  # of a root, see `recording`
        self.extra_net_dict: NetDictRaw = {}
        self.tensor_remove_unused_cleanup_hooks: list[Callable[[Tensor[Any]], None]] = []  # if a net dict leaves it out
        self.usages: list[Layer] = []  # layers that have this one among their options
        self.require_global_access = False  # it is an error if it cannot be named from the root
        self.custom_layer_name_scope: str | None = None  # option `name_scope` of the layer
        self.debug_layer: Any = None
        self._reserved_names: set[str] = {"output"} if self.is_subnet else set()
        self._calls: CallStack[Layer] = CallStack()
        self._store: Store = {}  # lengths of dims and the like, which are valid here
        if parent is NotSpecified:
            parent = Layer.current_ctx()
        if parent is not None:
            assert isinstance(parent, Layer)
            if name is not None and name in parent.children:
                raise UserError(f"{parent.get_abs_name_repr()}: there is a layer {name!r} already.")
            default = None if module is None else module.get_default_name()
            self.assign_parent(parent, name or suggested_name or default or "unnamed")

    def __repr__(self) -> str:
        return f"<Layer {self.get_abs_name_repr()}>"

    def __bool__(self) -> bool:
        raise NoValueError(
            f"{self}: cannot be used as True or False, as a net dict is made before there are values.\n"
            "  For conditions on tensors see rf.where, rf.cond and rf.while_loop; to test for None: `x is not None`."
        )

    def __copy__(self) -> Self:
        return self  # a place exists once

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    # The current place.

    def __enter__(self) -> Self:
        Layer.stack.append(self)
        self._calls.begin()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        assert Layer.stack[-1] is self, f"{self} is not the innermost one"
        Layer.stack.pop()
        self._calls.end()

    @classmethod
    def reset_default_root(cls) -> None:
        """Forgets the root that is there if none was entered."""
        cls._default_root = None

    @classmethod
    def top(cls) -> Layer:
        """:return: the network that was entered last; without any, the default root"""
        if cls.stack:
            return cls.stack[-1]
        if cls._default_root is None:
            cls._default_root = cls.new_root()
        return cls._default_root

    @classmethod
    def recent_subnet(cls) -> Layer:
        """:return: the innermost network that was entered"""
        return cls.top().network

    @classmethod
    def current_ctx(cls, *, ignore_top_stack_frames: int = 0) -> Layer:
        """
        :param ignore_top_stack_frames: so many calls, from the innermost on, do not count
        :return: where new layers go: inside of the network that was entered last, the place of the innermost module of
            which a method is running
        """
        top = cls.top()
        return top._calls.innermost(top, skip=ignore_top_stack_frames + 1)

    @classmethod
    def new_root(cls) -> Layer:
        """:return: a new, outermost network"""
        return cls(parent=None)

    @classmethod
    def inner_loop(cls) -> ControlFlowContext | None:
        """:return: the innermost loop"""
        ctx = cls.inner_control_flow()
        while ctx is not None and not ctx.is_loop():
            ctx = ctx.outer_ctx
        return ctx

    @classmethod
    def inner_control_flow(cls) -> ControlFlowContext | None:
        """:return: the innermost loop or branch"""
        return cls.top().control_flow_ctx()

    # The hierarchy.

    @property
    def root(self) -> Layer:
        """The outermost network."""
        return self.get_abs_name_ctx_list()[0]

    @property
    def is_root(self) -> bool:
        """Whether this is an outermost network."""
        return self.parent is None

    @property
    def network(self) -> Layer:
        """The network that this is, or is in."""
        place = self
        while not place.is_subnet:
            assert place.parent is not None
            place = place.parent
        return place

    @property
    def network_around(self) -> Layer | None:
        """The network that this is in; None for a root."""
        return None if self.parent is None else self.parent.network

    @property
    def can_access_children_from_root(self) -> bool:
        """Whether everything in here can be named from the root."""
        return all(place.can_access_children for place in self.get_abs_name_ctx_list())

    def control_flow_ctx(self) -> ControlFlowContext | None:
        """:return: the innermost loop or branch around what is in here"""
        for place in self.ancestors():
            if place.new_control_flow_ctx is not None:
                return place.new_control_flow_ctx
        return None

    def ancestors(self) -> Iterator[Layer]:
        """:return: this place and those around it, innermost first"""
        place: Layer | None = self
        while place is not None:
            yield place
            place = place.parent

    def stores(self) -> Sequence[Store]:
        """:return: where values of dims are kept that are valid here, innermost first"""
        return [p._store for p in self.ancestors() if p.is_root or p.new_control_flow_ctx is not None]

    def assign_parent(self, parent: Layer, suggested_name: str | None = None) -> None:
        """
        Moves it to another place.

        :param parent: where it goes
        :param suggested_name: default: the name that it has
        """
        if self.parent is not None and self.name is not None:
            del self.parent.children[self.name]
        self.name = parent._free_name(suggested_name or self.name or "unnamed")
        self.parent = parent
        parent.children[self.name] = self

    def extend_reserved_names(self, names: set[str]) -> None:
        """These names cannot be those of new layers in here."""
        self._reserved_names |= names

    def _free_name(self, suggested: str) -> str:
        taken = self._reserved_names | set(self.children)
        name, number = suggested, 0
        while name in taken:
            name, number = f"{suggested}_{number}", number + 1
        return name

    def get_child(self, name: str) -> Layer:
        """:return: the place of this name in here; a new one if there is none"""
        return self.children[name] if name in self.children else self._add_child(name)

    def get_new_child(self, suggested_name: str) -> Layer:
        """:return: a new place in here; if the name is taken, with a number behind it"""
        return Layer(parent=self, suggested_name=suggested_name)

    def _add_child(self, name: str) -> Layer:
        child = Layer(parent=None, virtual=False)
        child.is_subnet, child._reserved_names = False, set()
        child.name, child.parent = name, self
        self.children[name] = child
        return child

    def get_child_with_tensor(self, name: str, *, data: Tensor[Any]) -> Layer:
        """:return: the place of this name, which has a tensor; if it is new, with this template"""
        child = self.get_child(name)
        if child.tensor is None:
            child.virtual = True
            child.set_tensor(data.copy_template(name))
        return child

    def get_child_tensor(self, name: str, *, data: Tensor[Any]) -> Tensor[Any]:
        """:return: the output of the place of this name; if it is new, with this template"""
        tensor = self.get_child_with_tensor(name, data=data).tensor
        assert tensor is not None
        return tensor

    def set_tensor(self, tensor: Tensor[Any]) -> None:
        """Makes this place the raw tensor of `tensor`, which is what it puts out. The tensor can be changed later."""
        tensor._raw_tensor = self
        self.tensor = tensor.copy()

    def move_tensor_here(self, tensor: Tensor[Any]) -> None:
        """
        Moves a layer to this place, which has none yet.

        :param tensor: its output. No other tensor has the same layer
        """
        old = tensor.raw_tensor
        assert isinstance(old, Layer)
        assert self.layer_dict is None
        assert self.tensor is None
        self.layer_dict, old.layer_dict = old.layer_dict, None
        self.virtual, self.children = old.virtual, {**self.children, **old.children}
        for child in old.children.values():
            child.parent = self
        if old.parent is not None and old.name is not None:
            del old.parent.children[old.name]
        self.set_tensor(tensor)

    # Names.

    def get_abs_name_ctx_list(self) -> list[Layer]:
        """:return: the places from the root to this one"""
        return list(self.ancestors())[::-1]

    def get_abs_name(self, *, join_str: str = "/") -> str:
        """:return: names from the root on; "" for the root"""
        return join_str.join(place.name or "?" for place in self.get_abs_name_ctx_list()[1:])

    def get_abs_name_repr(self) -> str:
        """:return: the same for people"""
        return repr(self.get_abs_name()) if self.parent is not None else "the root"

    def get_name_in_ctx(self, ctx: Layer, *, middle_prefix: str = "", shorten_subnet: bool = True) -> str:
        """
        :param ctx: a network, or a layer in it
        :param middle_prefix: comes behind all "base:"
        :param shorten_subnet: a network which has an output is named alone, without "/output"
        :return: how options of layers in this network name this layer
        :raises UserError: if it cannot be named from there
        """
        inside: Layer | None = ctx.network
        own = [place for place in self.ancestors() if place.is_subnet and place is not self]
        ups = 0
        while inside is not None and inside not in own:
            inside, ups = inside.network_around, ups + 1
        if inside is None:
            raise UserError(
                f"layer {self.get_abs_name()!r}: is part of another net dict.\n"
                "  Tensors and parameters belong to the net dict in which they were made first."
            )
        path: list[str] = []
        for place in self.ancestors():
            if place is inside:
                break
            if place is not self and not place.can_access_children:
                raise UserError(
                    f"layer {self.get_abs_name()!r}: cannot be used outside of {place.get_abs_name()!r}.\n"
                    "  What a loop or condition returns can be used."
                )
            path.insert(0, place.name or "?")
        if shorten_subnet and len(path) > 1 and path[-1] == "output":
            path.pop()
        return "base:" * ups + middle_prefix + "/".join(path)

    # What depends on what.

    def get_recent_tensor(self, *, only_same_control_flow: bool = False) -> Tensor[Any] | None:
        """
        :param only_same_control_flow: not those inside of loops and branches in here
        :return: output of the layer that was made last in here; None if there is none
        """
        for child in reversed(list(self.children.values())):
            if only_same_control_flow and child.new_control_flow_ctx is not None:
                continue
            if child.tensor is not None and child.layer_dict is not None:
                return child.tensor
            found = child.get_recent_tensor(only_same_control_flow=only_same_control_flow)
            if found is not None:
                return found
        return None

    def get_tensor_dependencies(self, *, _extra_layer_dict: Mapping[str, Any] | None = None) -> list[Layer]:
        """:return: the layers that this one needs, by its options"""
        found: list[Layer] = []
        for options in (self.layer_dict, _extra_layer_dict):
            found += layers_in(options)
        if self.virtual and self.parent is not None and self.parent.layer_dict is not None:
            found.append(self.parent)
        return list(dict.fromkeys([*found, *self.layer_extra_dependencies]))

    # The net dict.

    def make_net(self) -> Net:
        """:return: the network in here, to be an option of a layer"""
        return Net(name_ctx=self)

    def make_default_output(self, ref: Tensor[Any]) -> Tensor[Any]:
        """
        :param ref: a tensor
        :return: the same, as output of the layer "output" of this network
        """
        assert self.is_subnet, f"{self} is no network"
        if "output" in self.children:
            if ref.raw_tensor is self.children["output"]:
                return ref
            raise UserError(f"{self.get_abs_name_repr()}: there is a default output already.")
        child = self._add_child("output")
        child.layer_dict = {"class": "copy", "from": ref}
        out = ref.copy_template("output")
        child.set_tensor(out)
        ref.raw_tensor.usages.append(child)
        return out

    def make_all_sub_networks_and_optimize(self) -> None:
        """In here, subnetworks with just one layer become this layer."""
        for child in list(self.children.values()):
            child.make_all_sub_networks_and_optimize()
        for child in list(self.children.values()):
            if not child.children and child.layer_dict is not None:
                child.optimize_move_up()

    def optimize_move_up(self) -> None:
        """If this is all that there is in a subnetwork, it takes its place."""
        parent = self.parent
        while parent is not None and parent.is_call_of_module() and list(parent.children.values()) == [self]:
            around, name = parent.parent, parent.name
            assert around is not None
            assert name is not None
            del around.children[name]
            del parent.children[self.name or ""]
            self.name, self.parent = name, around
            around.children[name] = self
            parent = around

    def is_call_of_module(self) -> bool:
        """:return: whether this is a subnetwork alone for the sake of names"""
        return self.is_subnet and not self.is_root and self.new_control_flow_ctx is None and self.layer_dict is None

    def get_returnn_config(self, *, root_module: Module) -> ReturnnConfigSerializer:
        """
        :param root_module: the model. Its parameters have names, by its attributes
        :return: what makes the text of a config
        """
        return ReturnnConfigSerializer(self, root_module=root_module)


def layers_in(value: Any) -> list[Layer]:
    """:return: all layers that stand somewhere in the value; not those inside of networks"""
    if isinstance(value, Layer):
        return [value]
    if isinstance(value, Tensor):
        raw = value.raw_tensor
        return [raw] if isinstance(raw, Layer) else []
    if isinstance(value, Mapping):
        return [layer for entry in value.values() for layer in layers_in(entry)]
    if isinstance(value, (list, tuple)):
        return [layer for entry in value for layer in layers_in(entry)]
    return []
