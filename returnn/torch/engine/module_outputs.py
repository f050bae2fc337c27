"""What the modules of a model return."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import returnn.frontend as rf


@contextlib.contextmanager
def hooks_on_outputs(model: Any, note: Callable[[str, Any, Any], None]) -> Iterator[None]:
    """
    :param model: module of the frontend or of PyTorch
    :param note: called inside of the `with` block with path, module and what it returns. Inner modules return first
    """
    handles = []
    for path, module in model.named_modules():
        if isinstance(module, rf.Module):

            def hook(module: Any, args: Any, kwargs: Any, result: Any, path: str = path) -> None:
                note(path, module, result)
        else:

            def hook(module: Any, args: Any, result: Any, path: str = path) -> None:
                note(path, module, result)

        handles.append(module.register_forward_hook(hook))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
