"""Modules of `torch.nn`."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.frontend.conversions._assign import assign, require


def import_params_torch_linear_to_rf(model_pt: Any, model_rf: rf.Linear) -> None:
    """
    :param model_pt: `torch.nn.Linear`
    :param model_rf: gets its parameters
    """
    in_dim, out_dim = model_rf.weight.dims
    assign(model_rf.weight, model_pt.weight, [out_dim, in_dim], what="the weight of Linear")
    _assign_bias(model_pt, model_rf, "Linear")


def import_params_torch_conv1d_to_rf(model_pt: Any, model_rf: rf.Conv1d) -> None:
    """
    :param model_pt: `torch.nn.Conv1d`
    :param model_rf: gets its parameters
    """
    filter_dim, in_dim, out_dim = model_rf.filter.dims
    assign(model_rf.filter, model_pt.weight, [out_dim, in_dim, filter_dim], what="the weight of Conv1d")
    _assign_bias(model_pt, model_rf, "Conv1d")


def import_params_torch_layer_norm_to_rf(model_pt: Any, model_rf: rf.LayerNorm) -> None:
    """
    :param model_pt: `torch.nn.LayerNorm`
    :param model_rf: gets its parameters and its `eps`
    """
    assign(model_rf.scale, model_pt.weight, model_rf.scale.dims, what="the weight of LayerNorm")
    _assign_bias(model_pt, model_rf, "LayerNorm")
    model_rf.eps = model_pt.eps


def _assign_bias(model_pt: Any, model_rf: Any, name: str) -> None:
    require(
        (model_pt.bias is None) == (model_rf.bias is None),
        f"{name} has {'no' if model_pt.bias is None else 'a'} bias, the module {model_rf} has "
        f"{'none' if model_rf.bias is None else 'one'}.\n  Make it with with_bias={model_pt.bias is not None}.",
    )
    if model_rf.bias is not None:
        assign(model_rf.bias, model_pt.bias, model_rf.bias.dims, what=f"the bias of {name}")


__all__ = [
    "import_params_torch_conv1d_to_rf",
    "import_params_torch_layer_norm_to_rf",
    "import_params_torch_linear_to_rf",
]
