"""
Option `torch_compile`: `torch.compile` makes kernels of what `train_step` and `forward_step` do.

What it cannot look through (a graph break) runs as it does otherwise, so results are the same, up to rounding. Random
numbers are those of eager code: a seed means the same with and without the option. The first steps take longer, and so
do those with new sizes, until sizes are variables of the kernels ("dynamic", which is on unless the option says so).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from returnn.config import Config
from returnn.tensor.plans import plans
from returnn.util.errors import ConfigError, check_known

_OPTIONS = ("backend", "mode", "dynamic", "fullgraph", "options")
_BACKEND = "inductor"


def compiler_of_config(config: Config, device: torch.device) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    :param config: options
    :param device: where steps are computed
    :return: makes a function that does the same as a given one, compiled if the config wants it
    :raises ConfigError: if an option or backend is not known, or there is no compiler
    """
    wanted = config.options.torch_compile
    if not wanted:
        return lambda function: function
    options: dict[str, Any] = {"backend": _BACKEND, "dynamic": True}
    if isinstance(wanted, Mapping):
        for name in wanted:
            check_known("option", name, _OPTIONS, where="option 'torch_compile'")
        options.update(wanted)
    plans.are_used = False  # it would have to guard each of them
    if isinstance(options["backend"], str):
        backends = torch.compiler.list_backends(exclude_tags=())
        check_known("backend", options["backend"], backends, where="option 'torch_compile'")
    if not options.get("fullgraph"):
        importlib.import_module("torch._dynamo.config").suppress_errors = True  # what cannot be traced runs as it is
    if options["backend"] == _BACKEND:
        _check_compiler(device)
        importlib.import_module("torch._inductor.config").fallback_random = True
    return lambda function: torch.compile(function, **options)


def without_compiling() -> AbstractContextManager[Any]:
    """:return: context in which compiled functions run as they are written, for hooks on modules"""
    return torch.compiler.set_stance("force_eager")


def _check_compiler(device: torch.device) -> None:
    """:raises ConfigError: if kernels cannot be compiled for the device"""
    reason = _missing_compiler(device)
    if reason:
        raise ConfigError(
            f"option 'torch_compile': kernels for the device {str(device)!r} cannot be compiled: {reason}.\n"
            "  Install it, or set torch_compile = {'backend': 'aot_eager'}, which needs none, or leave the option out."
        )


def _missing_compiler(device: torch.device) -> str | None:
    """:return: what is missing, for people; None if nothing is"""
    if device.type == "cuda":
        return None if importlib.import_module("torch.utils._triton").has_triton() else "there is no triton"
    builder = importlib.import_module("torch._inductor.cpp_builder")  # takes a second, so it is not always imported
    try:
        builder.get_cpp_compiler()
    except importlib.import_module("torch._inductor.exc").InvalidCxxCompiler:
        return "there is no C++ compiler (g++, or the one that CXX names)"
    return None
