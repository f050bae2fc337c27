"""The task `check`: whether the optimizer of a config can have the parameters of its model."""

from __future__ import annotations

from typing import Any

import torch

import returnn.frontend as rf
from returnn.config import Config
from returnn.torch.optim.optimizer_choice import choose_optimizer
from returnn.util.errors import UserError


def check_optimizer_of_model(config: Config, model: Any) -> None:
    """
    Makes the optimizer of parameters without memory.

    :param config: its option `optimizer`
    :param model: what `get_model` returned, on templates. An `rf.Module` is no more usable on templates afterwards
    :raises UserError: if a pattern fits to no parameter, or the class does not take a parameter
    """
    choice = choose_optimizer(config.options.optimizer)
    parameters = {name: raw for name, raw in _raw_parameters(model).items() if raw.requires_grad}
    if not parameters:
        return
    try:
        choice.create(parameters, model, config.options.learning_rate)
    except UserError:
        raise
    except Exception:  # noqa: BLE001  code of the user may need values, and options such as `fused` a device
        return


def _raw_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    if isinstance(model, torch.nn.Module):
        return dict(model.named_parameters())
    if not isinstance(model, rf.Module):
        return {}
    parameters = {}
    for name, param in model.named_parameters():
        raw = torch.empty([dim.dimension or 0 for dim in param.dims], dtype=getattr(torch, param.dtype), device="meta")
        parameters[name] = torch.nn.Parameter(raw, requires_grad=bool(param.trainable))
        param.replace_raw(parameters[name], param.dtype)
    return parameters
