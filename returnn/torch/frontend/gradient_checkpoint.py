"""
Gradient checkpoints: what is computed inside of a scope is not kept for the gradient, but computed again
(Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").

`torch.utils.checkpoint` does so for a function. For a scope, each operation inside is noted. What PyTorch would keep
for the gradient and was computed inside is replaced by a note; when the gradient needs it, the operations run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from returnn.util.python.nested import map_nested

_View = tuple[Any, ...]  # identifies a tensor: storage, and how it looks at it


@dataclass(frozen=True)
class _Computed:
    """Stands for a tensor: an output of an operation inside of the scope."""

    operation: int
    output: int


@dataclass
class _Operation:
    """One operation inside of the scope."""

    function: Callable[..., Any]
    args: Any  # with `_Computed` for what came from inside
    kwargs: Any
    random_state: list[tuple[torch.Generator, torch.Tensor]]  # before it, if it uses random values
    versions: list[tuple[torch.Tensor, int]]  # of the tensors from outside, which count how often they were changed

    def check_unchanged(self) -> None:
        """:raises RuntimeError: if what it was computed from was changed in place since then"""
        if any(x._version != version for x, version in self.versions):
            raise RuntimeError(
                f"gradient_checkpoint_scope: an operand of {self.function} was changed in place after it was used.\n"
                "  The gradient needs it as it was. Compute the gradient first, or leave this operation outside."
            )


@dataclass
class _Entry:
    """Where a tensor came from. The weak reference keeps the identity of its storage from being given away again."""

    storage: StorageWeakRef
    computed: _Computed


@dataclass
class _Record:
    """All operations of one scope."""

    operations: list[_Operation] = field(default_factory=list)
    entries: dict[_View, _Entry] = field(default_factory=dict)
    wanted: set[_Computed] = field(default_factory=set)  # what gradients need
    values: dict[_Computed, torch.Tensor] = field(default_factory=dict)  # computed again, and not fetched yet

    def find(self, x: torch.Tensor) -> _Computed | None:
        """:return: how the tensor was computed; None if not inside of the scope"""
        entry = self.entries.get(_view_of(x))
        return None if entry is None or entry.storage.expired() else entry.computed

    def add(self, operation: _Operation, result: Any) -> None:
        """Notes an operation and its results."""
        number = len(self.operations)
        self.operations.append(operation)
        for i, x in enumerate(_tensors_in(result)):
            self.entries[_view_of(x)] = _Entry(StorageWeakRef(x.untyped_storage()), _Computed(number, i))

    def forget(self, x: torch.Tensor) -> None:
        """Notes that the values of a tensor changed in place, so that it cannot be computed again."""
        storage = x.untyped_storage()._cdata
        for view in [view for view in self.entries if view[0] == storage]:
            del self.entries[view]

    def fetch(self, computed: _Computed) -> torch.Tensor:
        """:return: the tensor, computed again"""
        if computed not in self.values:
            self._replay()
        return self.values.pop(computed)

    def _replay(self) -> None:
        """Runs all operations that are needed again."""
        needed = self._needed_operations()
        outputs: dict[_Computed, torch.Tensor] = {}

        def value_of(x: Any) -> Any:
            return outputs[x] if isinstance(x, _Computed) else x

        with torch.no_grad():
            for number in sorted(needed):
                operation = self.operations[number]
                operation.check_unchanged()
                args, kwargs = map_nested(value_of, operation.args), map_nested(value_of, operation.kwargs)
                result = _run_with_state(operation, args, kwargs)
                outputs.update({_Computed(number, i): x for i, x in enumerate(_tensors_in(result))})
        self.values = {computed: outputs[computed] for computed in self.wanted}

    def _needed_operations(self) -> set[int]:
        needed: set[int] = set()
        todo = [computed.operation for computed in self.wanted]
        while todo:
            number = todo.pop()
            if number not in needed:
                needed.add(number)
                operation = self.operations[number]
                map_nested(
                    lambda x: todo.append(x.operation) if isinstance(x, _Computed) else None,
                    [operation.args, operation.kwargs],
                )
        return needed


class _Recorder(TorchDispatchMode):
    """Notes the operations that run."""

    def __init__(self, record: _Record) -> None:
        super().__init__()
        self._record = record

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """:return: what the operation returns"""
        kwargs = kwargs or {}
        record = self._record
        changed = _changed_in_place(func, args, kwargs)
        noted_args, noted_kwargs = (map_nested(self._noted, x) for x in (args, kwargs))
        state = _random_states(kwargs) if torch.Tag.nondeterministic_seeded in func.tags else []
        result = func(*args, **kwargs)
        if changed:
            for x in changed:
                record.forget(x)
        else:
            versions = [(x, x._version) for x in _tensors_in([noted_args, noted_kwargs])]
            record.add(_Operation(func, noted_args, noted_kwargs, state, versions), result)
        return result

    def _noted(self, x: Any) -> Any:
        return (self._record.find(x) or x) if isinstance(x, torch.Tensor) else x


class gradient_checkpoint_scope:
    """Context manager. See the head of this module."""

    def __init__(self) -> None:
        self._record = _Record()
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self._recorder = _Recorder(self._record)

    def __enter__(self) -> None:
        self._hooks.__enter__()
        self._recorder.__enter__()

    def __exit__(self, *exc_info: Any) -> None:
        self._recorder.__exit__(*exc_info)
        self._hooks.__exit__(*exc_info)
        self._record.entries.clear()

    def _pack(self, x: torch.Tensor) -> torch.Tensor | _Computed:
        computed = self._record.find(x)
        if computed is None:
            return x
        self._record.wanted.add(computed)
        return computed

    def _unpack(self, x: torch.Tensor | _Computed) -> torch.Tensor:
        return self._record.fetch(x) if isinstance(x, _Computed) else x


def _view_of(x: torch.Tensor) -> _View:
    return x.untyped_storage()._cdata, x.storage_offset(), tuple(x.shape), x.stride(), x.dtype


def _tensors_in(result: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    map_nested(lambda x: found.append(x) if isinstance(x, torch.Tensor) else None, [result])
    return found


def _changed_in_place(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """:return: the tensors that the operation changes"""
    changed = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            changed += _tensors_in(args[i] if i < len(args) else kwargs.get(argument.name))
    return changed


def _random_states(kwargs: Any) -> list[tuple[torch.Generator, torch.Tensor]]:
    generator = kwargs.get("generator")
    if generator is not None:
        return [(generator, generator.get_state())]
    generators = [torch.default_generator]
    if torch.cuda.is_available():
        generators.append(torch.cuda.default_generators[torch.cuda.current_device()])
    return [(generator, generator.get_state()) for generator in generators]


def _run_with_state(operation: _Operation, args: Any, kwargs: Any) -> Any:
    """:return: the result, with the random values that it had; the generators go on as if it had not run"""
    before = [(generator, generator.get_state()) for generator, _ in operation.random_state]
    for generator, state in operation.random_state:
        generator.set_state(state)
    try:
        return operation.function(*args, **kwargs)
    finally:
        for generator, state in before:
            generator.set_state(state)
