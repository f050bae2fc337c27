"""Parameters of a model by name, as checkpoints have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

import returnn.frontend as rf
from returnn.engine.frontend.preload import check_fit
from returnn.util.errors import ConfigError
from returnn.util.files.checkpoint_names import same_but_for_dots


def model_parameters(model: Any) -> dict[str, torch.Tensor]:
    """
    :param model: what `get_model` returned
    :return: parameters, and what else is saved, by name
    :raises ConfigError: if it is no module
    """
    if isinstance(model, rf.Module):
        return {name: param.raw_tensor for name, param in model.named_parameters()}
    if isinstance(model, torch.nn.Module):
        values = dict(model.named_parameters())
        buffers = model.state_dict()
        return {**values, **{name: value for name, value in buffers.items() if name not in values}}
    raise ConfigError(
        f"option 'get_model': the function returned a {type(model).__name__}.\n"
        "  It has to return a model: an rf.Module or a torch.nn.Module."
    )


def load_parameters(
    model: Any,
    parameters: Mapping[str, torch.Tensor],
    content: Mapping[str, Any],
    *,
    filename: str,
    leave_out: set[str],
    ignore_missing: bool,
) -> None:
    """
    :param model: what `get_model` returned
    :param parameters: of the model, by name
    :param content: of a checkpoint
    :param filename: of the checkpoint
    :param leave_out: names of parameters that have their values already
    :param ignore_missing: whether the checkpoint may have fewer of them
    :raises CheckpointError: if the checkpoint does not fit
    """
    values = content.get("model", content)
    in_model = {there: name for name, there in same_but_for_dots(parameters, values).items()}
    values = {in_model.get(name, name): value for name, value in values.items()}
    own = dict(model.named_parameters()) if isinstance(model, rf.Module) else {}
    check_fit(
        parameters,
        values,
        filename=filename,
        leave_out=leave_out,
        ignore_missing=ignore_missing,
        non_critical={name for name, param in own.items() if param.non_critical_for_restore},
        other_names=lambda name: _is_another_name(model, name),
    )
    set_parameters(parameters, {name: value for name, value in values.items() if name not in leave_out})


def set_parameters(parameters: Mapping[str, torch.Tensor], values: Mapping[str, torch.Tensor]) -> None:
    """
    :param parameters: get the values, in place
    :param values: of the same shapes, by name; other names do not count
    """
    with torch.no_grad():
        for name, parameter in parameters.items():
            if name in values:
                parameter.copy_(values[name])


def _is_another_name(model: Any, name: str) -> bool:
    """:return: whether it is one of a parameter that several modules share"""
    value = model
    for part in name.split("."):
        value = getattr(value, part, None)
    return isinstance(value, (rf.Parameter, torch.nn.Parameter))
