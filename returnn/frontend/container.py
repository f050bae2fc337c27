"""Modules that hold other modules, or parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

from returnn.frontend.module import Functional, Module
from returnn.frontend.parameter import Parameter
from returnn.tensor import Tensor

M = TypeVar("M", bound=Module)
ModuleOrFunction = Module | Callable[..., Any]


class ModuleList(Module, Generic[M]):
    """A list of modules. Their names are their numbers, or keys."""

    def __init__(
        self, *modules: ModuleOrFunction | Iterable[ModuleOrFunction] | Mapping[str, ModuleOrFunction]
    ) -> None:
        """:param modules: modules or functions; or one list, or one dict of them"""
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for key, module in modules[0].items():
                setattr(self, key, _as_module(module))
            return
        if len(modules) == 1 and isinstance(modules[0], Iterable):
            modules = tuple(modules[0])  # type: ignore[arg-type]
        self.extend(modules)  # type: ignore[arg-type]

    def _entries(self) -> dict[str, M]:
        return {key: value for key, value in vars(self).items() if isinstance(value, Module)}  # type: ignore[misc]

    def append(self, module: ModuleOrFunction) -> ModuleList[M]:
        """Adds one at the end. :return: self"""
        setattr(self, str(len(self)), _as_module(module))
        return self

    def extend(self, modules: Iterable[ModuleOrFunction]) -> ModuleList[M]:
        """Adds several at the end. :return: self"""
        for module in modules:
            self.append(module)
        return self

    def items(self) -> Iterable[tuple[str, M]]:
        """:return: the modules with their names"""
        return self._entries().items()

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[M]:
        return iter(self._entries().values())

    @overload
    def __getitem__(self, index: slice) -> ModuleList[M]: ...

    @overload
    def __getitem__(self, index: int | str) -> M: ...

    def __getitem__(self, index: int | str | slice) -> ModuleList[M] | M:
        entries = self._entries()
        if isinstance(index, str):
            return entries[index]
        if isinstance(index, slice):
            return type(self)(dict(list(entries.items())[index]))
        return list(entries.values())[index]

    def __setitem__(self, index: int | str, module: ModuleOrFunction) -> None:
        key = index if isinstance(index, str) else list(self._entries())[index]
        setattr(self, key, _as_module(module))

    def __delitem__(self, index: int | str | slice) -> None:
        entries = self._entries()
        keys = [index] if isinstance(index, str) else list(entries)[index]
        removed = [keys] if isinstance(keys, str) else keys
        for key in entries:
            delattr(self, key)
        rest = [(key, module) for key, module in entries.items() if key not in removed]
        is_numbered = all(key.isdigit() for key, _ in rest)
        for i, (key, module) in enumerate(rest):  # numbers have no gaps
            setattr(self, str(i) if is_numbered else key, module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a ModuleList cannot be called, as its modules have no order of calls. See rf.Sequential.")


class Sequential(ModuleList[Module]):
    """Modules in a row: each gets what the one before returns."""

    def __call__(self, inp: Any, *, collected_outputs: dict[str, Tensor] | None = None, **kwargs: Any) -> Any:
        """
        :param inp: for the first module
        :param collected_outputs: gets the results of all modules, by their names
        :param kwargs: for all modules
        :return: what the last one returns
        """
        for name, module in self.items():
            inp = module(inp, **kwargs)
            if collected_outputs is not None:
                collected_outputs[name] = inp
        return inp


def sequential(source: Any, *modules: ModuleOrFunction) -> Any:
    """:return: what the last module returns; the first one gets `source`, each other what the one before returns"""
    return Sequential(*modules)(source)


class ParameterList(Module):
    """A list of parameters. Their names are their numbers."""

    def __init__(self, *parameters: Parameter | Iterable[Parameter]) -> None:
        """:param parameters: parameters; or one list of them"""
        super().__init__()
        if len(parameters) == 1 and isinstance(parameters[0], Iterable) and not isinstance(parameters[0], Tensor):
            parameters = tuple(parameters[0])
        self.extend(parameters)  # type: ignore[arg-type]

    def _entries(self) -> dict[str, Parameter]:
        return {key: value for key, value in vars(self).items() if isinstance(value, Parameter)}

    def append(self, parameter: Parameter) -> ParameterList:
        """Adds one at the end. :return: self"""
        setattr(self, str(len(self)), parameter)
        return self

    def extend(self, parameters: Iterable[Parameter]) -> ParameterList:
        """Adds several at the end. :return: self"""
        for parameter in parameters:
            self.append(parameter)
        return self

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._entries().values())

    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...

    @overload
    def __getitem__(self, index: int) -> Parameter: ...

    def __getitem__(self, index: int | slice) -> Parameter | ParameterList:
        values = list(self._entries().values())
        return ParameterList(values[index]) if isinstance(index, slice) else values[index]

    def __setitem__(self, index: int, parameter: Parameter) -> None:
        setattr(self, list(self._entries())[index], parameter)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a ParameterList cannot be called: it only holds parameters.")


def _as_module(value: ModuleOrFunction) -> Module:
    if isinstance(value, Module):
        return value
    if callable(value):
        return Functional(value)
    raise TypeError(f"expected a module or a function, got {value!r}.")


__all__ = ["ModuleList", "ParameterList", "Sequential", "sequential"]
