"""
Parametrizations: a module sees a function of a parameter in place of the parameter.

    rf.register_parametrization(linear, "weight", lambda weight: weight * mask)

The module's code does not change; `linear.weight` is computed anew each time. The parameter keeps its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.frontend._own_class import delete_member, set_member
from returnn.frontend.module import Module
from returnn.frontend.parameter import Parameter
from returnn.tensor import Tensor
from returnn.util.errors import UserError, nearest_hint

_ATTRIBUTE = "_parametrizations"  # in the module: name of parameter -> functions


def register_parametrization(
    module: Module,
    param_name: str,
    parametrization: Callable[..., Tensor],
    *,
    keep_existing_param: bool = True,
) -> Module:
    """
    :param module: has the parameter
    :param param_name: name of the attribute
    :param parametrization: function or module: parameter -> what the module sees in its place. Several of them follow
        one another, in the order of their registration. If it is a module, its parameters become those of `module`.
    :param keep_existing_param: otherwise the parameter goes, and the parametrization is called without it
    :return: the module
    :raises UserError: if there is no such parameter
    """
    functions = module.__dict__.setdefault(_ATTRIBUTE, {})
    if param_name not in functions:
        _check_param(module, param_name)
        functions[param_name] = []
        set_member(module, param_name, _make_property(param_name))
    if not keep_existing_param:
        module.__dict__.pop(param_name, None)
    functions[param_name].append(parametrization)
    if isinstance(parametrization, Module):
        setattr(module, f"{param_name}_parametrization{len(functions[param_name])}", parametrization)
    return module


def remove_parametrization(module: Module, param_name: str) -> Module:
    """
    :return: the module, which sees the parameter itself again
    :raises UserError: if there is no parametrization, or the parameter was not kept
    """
    if not is_parametrized(module, param_name):
        raise UserError(f"{module}: the parameter {param_name!r} has no parametrization.")
    if param_name not in module.__dict__:
        raise UserError(f"{module}: the parameter {param_name!r} was not kept, so its parametrization has to stay.")
    functions = module.__dict__[_ATTRIBUTE].pop(param_name)
    for i, function in enumerate(functions):
        if isinstance(function, Module):
            delattr(module, f"{param_name}_parametrization{i + 1}")
    delete_member(module, param_name)
    if not module.__dict__[_ATTRIBUTE]:
        del module.__dict__[_ATTRIBUTE]
    return module


def is_parametrized(module: Module, param_name: str | None = None) -> bool:
    """:return: whether the parameter has a parametrization; without a name, whether any has"""
    functions = module.__dict__.get(_ATTRIBUTE, {})
    return bool(functions) if param_name is None else param_name in functions


def _make_property(param_name: str) -> property:
    def get(module: Module) -> Any:
        functions = module.__dict__[_ATTRIBUTE][param_name]
        values: tuple[Any, ...] = (module.__dict__[param_name],) if param_name in module.__dict__ else ()
        for function in functions:
            values = (function(*values),)
        return values[0]

    def put(module: Module, value: Any) -> None:
        module.__dict__[param_name] = value

    return property(get, put)


def _check_param(module: Module, param_name: str) -> None:
    params = dict(module.named_parameters(recurse=False))
    if param_name not in params:
        raise UserError(f"{module}: there is no parameter {param_name!r}.\n  {nearest_hint(param_name, params)}")
    assert isinstance(params[param_name], Parameter)


__all__ = ["is_parametrized", "register_parametrization", "remove_parametrization"]
