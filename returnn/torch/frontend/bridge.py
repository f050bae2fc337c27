"""Modules of the frontend as modules of PyTorch, and the reverse."""

from __future__ import annotations

from typing import Any

import torch

import returnn.frontend as rf


class RFModuleAsPTModule(torch.nn.Module):
    """
    A module of the frontend. It has the same parameters and sub modules, under the same names.

    Tools of PyTorch see it as one of its own: `state_dict`, `train`, hooks, `DistributedDataParallel`.
    """

    def __init__(self, rf_module: rf.Module, *, _made: dict[int, RFModuleAsPTModule] | None = None) -> None:
        """:param rf_module: its parameters are those of PyTorch"""
        super().__init__()
        made = {} if _made is None else _made
        made[id(rf_module)] = self
        object.__setattr__(self, "rf_module", rf_module)
        for name, value in vars(rf_module).items():
            if isinstance(value, rf.Parameter):
                self.register_parameter(name, value.raw_tensor)
            elif isinstance(value, rf.Module):
                other = made.get(id(value)) or RFModuleAsPTModule(value, _made=made)
                self.add_module(name, other)

    def _get_name(self) -> str:
        return type(self.rf_module).__name__

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """:return: what the module of the frontend returns"""
        return self.rf_module(*args, **kwargs)


class PTModuleAsRFModule(rf.Module):
    """A module of PyTorch, as part of one of the frontend. It works on raw tensors."""

    def __init__(self, pt_module: torch.nn.Module) -> None:
        """:param pt_module: its parameters become those of this module, under the same names"""
        super().__init__()
        object.__setattr__(self, "pt_module", pt_module)
        for name, param in pt_module.named_parameters(recurse=False):
            setattr(self, name, _as_parameter(param))
        for name, child in pt_module.named_children():
            setattr(self, name, PTModuleAsRFModule(child))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """:return: what the module of PyTorch returns"""
        return self.pt_module(*args, **kwargs)


def rf_module_to_pt_module(rf_module: rf.Module) -> RFModuleAsPTModule:
    """
    :param rf_module: module of the frontend, on PyTorch
    :return: the same as module of PyTorch
    """
    return RFModuleAsPTModule(rf_module)


def pt_module_to_rf_module(pt_module: torch.nn.Module) -> rf.Module:
    """
    :param pt_module: module of PyTorch
    :return: the same as module of the frontend
    """
    return pt_module.rf_module if isinstance(pt_module, RFModuleAsPTModule) else PTModuleAsRFModule(pt_module)


def wrapped_module_to_rf_module(module: torch.nn.Module | rf.Module) -> rf.Module:
    """
    :param module: what one of these functions has returned
    :return: the same as module of the frontend
    """
    return module if isinstance(module, rf.Module) else pt_module_to_rf_module(module)


def _as_parameter(raw: torch.nn.Parameter) -> rf.Parameter:
    dims = [rf.Dim(size, name=f"axis{i}") for i, size in enumerate(raw.shape)]
    return rf.Parameter(dims, str(raw.dtype).removeprefix("torch."), trainable=raw.requires_grad, raw_tensor=raw)


__all__ = [
    "RFModuleAsPTModule",
    "pt_module_to_rf_module",
    "rf_module_to_pt_module",
    "wrapped_module_to_rf_module",
]
