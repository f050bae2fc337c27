"""Where in a model values stop being finite."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from returnn.tensor import Tensor
from returnn.torch.engine.module_outputs import hooks_on_outputs
from returnn.util.python.nested import iter_nested


def first_non_finite_module(model: Any, run: Callable[[], Any]) -> str | None:
    """
    :param model: module of the frontend or of PyTorch
    :param run: computes the step once more
    :return: path of the first module that returns a value which is not finite, as text for people; None if all are
        finite. Inner modules return first
    """
    found: list[str] = []

    def note(path: str, module: Any, result: Any) -> None:
        if not found and not _is_finite(result):
            found.append(f"{path or 'the model itself'!r} ({type(module).__name__})")

    with torch.no_grad(), hooks_on_outputs(model, note):
        run()
    return found[0] if found else None


def non_finite_parameters(parameters: dict[str, torch.Tensor]) -> dict[str, int]:
    """:return: name -> how many values are NaN; or infinite, in parameters that are trained"""
    return non_finite_values(parameters, trained={name for name, value in parameters.items() if value.requires_grad})


def non_finite_values(values: Mapping[str, torch.Tensor], *, trained: Collection[str]) -> dict[str, int]:
    """
    :param values: of parameters, by name
    :param trained: names of those that are trained
    :return: see `non_finite_parameters`
    """
    counts = {}
    for name, value in values.items():
        if torch.is_floating_point(value):
            wrong = ~torch.isfinite(value) if name in trained else torch.isnan(value)
            counts[name] = int(wrong.sum())
    return {name: count for name, count in counts.items() if count}


def _is_finite(result: Any) -> bool:
    raws = (value.raw_tensor if isinstance(value, Tensor) else value for value in iter_nested(result))
    floats = (raw for raw in raws if isinstance(raw, torch.Tensor) and torch.is_floating_point(raw))
    return all(bool(torch.isfinite(raw).all()) for raw in floats)
