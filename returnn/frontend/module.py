"""
Modules: objects with parameters.

    class FeedForward(rf.Module):
        def __init__(self, dim: Dim, hidden: Dim):
            super().__init__()
            self.layer_norm = rf.LayerNorm(dim)
            self.linear_in = rf.Linear(dim, hidden)
            self.linear_out = rf.Linear(hidden, dim)

        def __call__(self, x: Tensor) -> Tensor:
            return x + self.linear_out(rf.relu(self.linear_in(self.layer_norm(x))))

Options go to `__init__`, which makes the parameters; what changes from call to call (other tensors, spatial dims) goes
to `__call__`. Each call uses the same parameters. A module finds its sub modules and parameters among its attributes,
and the attributes give the parameters their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from returnn.frontend._owner import set_owner
from returnn.frontend.hooks import Hook, RemovableHandle, setup_post_hook_on_method
from returnn.frontend.parameter import Parameter
from returnn.frontend.state import State
from returnn.tensor import Dim
from returnn.util.errors import UserError

M = TypeVar("M", bound="Module")


class Module:
    """An object with parameters. See the head of this module."""

    def __init__(self) -> None:
        """Derived classes take their options here, and make parameters and sub modules."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The computation. Derived classes define it."""
        raise TypeError(f"{type(self).__name__} defines no __call__.")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, (Module, Parameter)):
            set_owner(value, self, name)
            if isinstance(value, Parameter) and value.name == "parameter":
                value.name = name

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name, value in state.items():  # a copy owns its own sub modules
            if isinstance(value, (Module, Parameter)):
                set_owner(value, self, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State | None:
        """
        :param batch_dims: dims of the state beside its own
        :return: what the first call takes as `state`, if the module is recurrent: here, the states of the sub modules
            which have one, by their names; None if there is none
        """
        state = State()
        for name, module in self.named_children():
            child_state = module.default_initial_state(batch_dims=batch_dims)
            if child_state:
                state[name] = child_state
        return state or None

    def get_default_name(self) -> str:
        """:return: name where no attribute gives it one: that of the class, in snake case"""
        name = type(self).__name__
        starts = [i for i in range(1, len(name)) if name[i].isupper() and not name[i - 1].isupper()]
        parts = [name[i:j] for i, j in zip([0, *starts], [*starts, len(name)], strict=True)]
        return "_".join(parts).lower().strip("_")

    def get_deep(self, target: str) -> Any:
        """
        :param target: such as "encoder.layers.0.weight"; "" for the module itself
        :raises AttributeError: if there is no such attribute
        """
        value: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(value, name):
                raise AttributeError(f"{self}: there is no {target!r}: {value} has no {name!r}.")
            value = getattr(value, name)
        return value

    def set_deep(self, target: str, value: Any) -> None:
        """
        :param target: such as "encoder.layers.0.weight"
        :param value: of the attribute
        """
        *path, name = target.split(".")
        setattr(self.get_deep(".".join(path)), name, value)

    def children(self) -> Iterator[Module]:
        """:return: the modules among its attributes"""
        return self.modules(recurse=False, include_self=False)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """:return: the modules among its attributes, with their names"""
        return self.named_modules(recurse=False, include_self=False)

    def modules(self, *, recurse: bool = True, include_self: bool = True) -> Iterator[Module]:
        """:return: see `named_modules`"""
        for _, module in self.named_modules(recurse=recurse, include_self=include_self):
            yield module

    def named_modules(
        self,
        *,
        recurse: bool = True,
        include_self: bool = True,
        memo: set[int] | None = None,
        prefix: str = "",
    ) -> Iterator[tuple[str, Module]]:
        """
        :param recurse: also sub modules of sub modules
        :param include_self: also the module itself, under the name `prefix`
        :param memo: ids of modules that were there already, and are left out; grows
        :param prefix: of the names
        :return: each module once, with its name, such as "encoder.layers.0"
        """
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        if include_self:
            yield prefix, self
        for name, value in list(vars(self).items()):
            if not isinstance(value, Module) or id(value) in memo:
                continue
            path = f"{prefix}.{name}" if prefix else name
            if recurse:
                yield from value.named_modules(memo=memo, prefix=path)
            else:
                memo.add(id(value))
                yield path, value

    def named_parameters(self, *, recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """
        :param recurse: also those of sub modules
        :return: each parameter once, with its name, such as "encoder.layers.0.weight"
        """
        visited: set[int] = set()
        modules = self.named_modules() if recurse else [("", self)]
        for path, module in modules:
            for name, value in vars(module).items():
                if isinstance(value, Parameter) and id(value) not in visited:
                    visited.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def parameters(self, *, recurse: bool = True) -> Iterator[Parameter]:
        """:return: see `named_parameters`"""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    @property
    def has_parameters(self) -> bool:
        """Whether there is any parameter, also in sub modules."""
        return any(True for _ in self.parameters())

    def apply(self: M, fn: Callable[[Module], None]) -> M:
        """
        :param fn: is called for all sub modules, and then for the module itself
        :return: the module
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *, device: str | None = None, dtype: str | None = None) -> None:
        """
        Moves all parameters, in place. An integer parameter keeps its dtype.

        :param device: such as "cpu"; None: leave it
        :param dtype: of floats; None: leave it
        """
        for param in self.parameters():
            is_float = param.dtype.startswith(("float", "bfloat"))
            param.to(device=device, dtype=dtype if is_float else None)

    def register_forward_hook(self, hook: Hook, *, prepend: bool = False) -> RemovableHandle:
        """
        :param hook: gets the module, its arguments and the result of `__call__`. It returns another result, or None
        :param prepend: whether it sees the result before the other hooks do
        :return: what removes the hook
        """
        return setup_post_hook_on_method(self, "__call__", hook, prepend=prepend)


class Functional(Module):
    """
    A function as module, so that it can stand beside modules, as in `rf.Sequential`, which does this itself.

    It should be a pure function, and no method of another module.
    """

    def __init__(self, func: Callable[..., Any], *, attribs: dict[str, Any] | None = None) -> None:
        """
        :param func: the function
        :param attribs: attributes of the module, such as parameters which the function uses
        """
        super().__init__()
        if not callable(func):
            raise UserError(f"Functional: expected a function, got {func!r}.")
        self.func = func
        for name, value in (attribs or {}).items():
            if name == "func":
                raise UserError("Functional: an attribute cannot be named 'func', which is the function itself.")
            setattr(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """:return: what the function returns"""
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Functional {self.func.__qualname__}>" if hasattr(self.func, "__qualname__") else "<Functional>"

    def get_default_name(self) -> str:
        """:return: name of the function"""
        name = getattr(self.func, "__qualname__", type(self.func).__name__)
        return str(name).replace(".<locals>", "").replace("<lambda>", "lambda")


__all__ = ["Functional", "Module"]
