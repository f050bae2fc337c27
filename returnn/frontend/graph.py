"""The graph of operations, where the backend has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from returnn.frontend._backend import get_backend_of
from returnn.tensor import Tensor


def get_tensor_dependencies(x: Tensor) -> Sequence[Tensor]:
    """:return: what the operation that made x took as input; nothing where the backend does not know"""
    return get_backend_of(x).get_tensor_dependencies(x)


def get_tensor_consumers(x: Tensor) -> Sequence[Tensor]:
    """:return: results of operations which take x as input; nothing where the backend does not know"""
    return get_backend_of(x).get_tensor_consumers(x)


def walk_tensor_consumers(
    seed: Tensor | Sequence[Tensor],
    *,
    filter_outputs: Callable[[Tensor], bool] | None = None,
    ending_condition: Callable[[Tensor], bool] | None = None,
) -> list[Tensor]:
    """
    Everything that depends on some tensors, nearest first.

    :param seed: where to begin
    :param filter_outputs: what to return; default: everything
    :param ending_condition: where it is true, the search ends, and this tensor is the last one
    :return: the tensors, each once, without the seed
    """
    todo = [seed] if isinstance(seed, Tensor) else list(seed)
    visited = {id(x.raw_tensor) for x in todo}
    outputs: list[Tensor] = []
    while todo:
        for consumer in get_tensor_consumers(todo.pop(0)):
            if id(consumer.raw_tensor) in visited:
                continue
            visited.add(id(consumer.raw_tensor))
            todo.append(consumer)
            if filter_outputs is None or filter_outputs(consumer):
                outputs.append(consumer)
            if ending_condition is not None and ending_condition(consumer):
                return outputs
    return outputs
