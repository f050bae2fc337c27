"""
Mixed precision, option `torch_amp`: "bfloat16", "float16", or a dict with "dtype". Parameters stay as they are; what
costs most is computed in the shorter float. In float16, gradients are scaled so that they are not rounded to 0
(`grad_scaler`: None or False is no scaling, a dict has options of `torch.amp.GradScaler`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.run.mixed_precision import amp_dtype
from returnn.util.errors import ConfigError


@contextlib.contextmanager
def mixed_precision(config: Config, model: Any, device: torch.device) -> Iterator[None]:
    """The context of a step. Operations of the frontend know what to compute in which dtype; else, PyTorch does."""
    dtype = amp_dtype(config.options.torch_amp, name="torch_amp")
    if dtype is None:
        yield
    elif isinstance(model, rf.Module):
        with rf.set_amp_policy_ctx(dtype):
            yield
    else:
        with torch.autocast(device_type=device.type, dtype=getattr(torch, dtype)):
            yield


def make_grad_scaler(config: Config, device: torch.device) -> torch.amp.GradScaler | None:
    """
    :param config: its options `grad_scaler` and `torch_amp`
    :param device: of the gradients
    :return: None if gradients are not scaled
    :raises ConfigError: if there is no such option of a scaler
    """
    option = config.options.grad_scaler
    if option is None and not config.has("grad_scaler"):
        option = amp_dtype(config.options.torch_amp, name="torch_amp") == "float16"
    if option is None or option is False:
        return None
    try:
        return torch.amp.GradScaler(device.type, **(option if isinstance(option, Mapping) else {}))
    except TypeError as exc:
        raise ConfigError(f"option 'grad_scaler': {exc}.") from exc
