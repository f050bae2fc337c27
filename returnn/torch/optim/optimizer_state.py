"""
The state of an optimizer, as a checkpoint has it: `optimizer`, its `state_dict`, and `param_names`.

PyTorch numbers parameters by their order in the groups, and the groups depend on the config: on which parameters get
weight decay, for example. With the names, a state finds its parameters whatever the groups are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted, some_of


def state_of_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, Any]:
    """
    :param optimizer: which has the parameters
    :param parameters: by name
    :return: for a checkpoint
    """
    return {"optimizer": optimizer.state_dict(), "param_names": _names_in_groups(optimizer, parameters)}


def load_state_of_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter], state: Mapping[str, Any]
) -> None:
    """
    :param optimizer: gets the state. Options of its groups stay those of the config
    :param parameters: by name
    :param state: what `state_of_optimizer` returned; without `param_names`, the order counts
    :raises ConfigError: if it is of another optimizer or model
    """
    saved = state.get("optimizer", state)  # the latter: as PyTorch itself has it
    if "param_groups" not in saved:
        raise _error(f"it has {some_of(sorted(map(str, saved)), 3)}, and no 'param_groups'")
    _check_class(optimizer, saved["param_groups"])
    own = _names_in_groups(optimizer, parameters)
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    names = list(state.get("param_names") or ())
    own_parameters = dict(zip(own, (p for group in optimizer.param_groups for p in group["params"]), strict=True))
    is_of_own = len(numbers) == len(own) and (not names or sorted(names) == sorted(own))
    for order in filter(None, [names, own] if is_of_own else []):
        by_name = {name: saved["state"][n] for name, n in zip(order, numbers, strict=True) if n in saved["state"]}
        if all(_fits(values, own_parameters[name]) for name, values in by_name.items()):
            _load(optimizer, own, by_name)
            return
    raise _error(_difference(names, own, len(numbers)))


def _load(optimizer: torch.optim.Optimizer, names: Sequence[str], by_name: Mapping[str, Any]) -> None:
    new = optimizer.state_dict()
    new["state"] = {number: by_name[name] for number, name in enumerate(names) if name in by_name}
    try:
        optimizer.load_state_dict(new)
    except (ValueError, KeyError) as exc:
        raise _error(str(exc)) from exc


def _names_in_groups(optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter]) -> list[str]:
    """:return: as PyTorch numbers them; a number where it has no name"""
    names = {id(parameter): name for name, parameter in parameters.items()}
    in_groups = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [names.get(id(parameter), f"#{number}") for number, parameter in enumerate(in_groups)]


def _check_class(optimizer: torch.optim.Optimizer, groups: Sequence[Mapping[str, Any]]) -> None:
    """:raises ConfigError: if it has options that the saved one has not, and the other way round"""
    own, saved = ({key for group in of for key in group} for of in (optimizer.param_groups, groups))
    only_own, only_saved = sorted((own - saved) & set(optimizer.defaults)), sorted(saved - own)
    if only_own and only_saved:
        raise _error(f"that one has {some_of(only_saved, 3)}, and no {some_of(only_own, 3)}")


def _fits(values: Mapping[str, Any], parameter: torch.Tensor) -> bool:
    """:return: whether all tensors are numbers, or for each entry of the parameter, or of some of its axes"""
    tensors = [value for value in values.values() if isinstance(value, torch.Tensor) and value.dim()]
    return all(
        value.dim() == parameter.dim()
        and all(size in (1, wanted) for size, wanted in zip(value.shape, parameter.shape, strict=True))
        for value in tensors
    )


def _difference(names: Sequence[str], own: Sequence[str], num_saved: int) -> str:
    if only_one := sorted(set(names) ^ set(own)) if names else []:
        return f"only one of them has {some_of(only_one, 3)}"
    if num_saved != len(own):
        return f"it has {counted(num_saved, 'parameter')}, the model {len(own)}"
    return "its values have other shapes"


def _error(why: str) -> ConfigError:
    return ConfigError(
        f"option 'optimizer': the state in the checkpoint is of another optimizer or model: {why}.\n"
        "  To begin with a new state, set 'import_model_train_epoch1', in place of going on."
    )
