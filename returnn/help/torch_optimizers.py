"""
The optimizers of `torch.optim`, as far as help needs them: importing PyTorch takes seconds, or it is not there.

A test holds that these are the options and defaults that PyTorch has.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from returnn.torch.optim.own_options import OwnOptions

_ADAM = {"betas": (0.9, 0.999), "eps": 1e-8}
_HOW = {"foreach": None, "maximize": False, "capturable": False, "differentiable": False}
_SUMMARIES_AND_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "adadelta": (
        'Zeiler (2012), "ADADELTA: An Adaptive Learning Rate Method".',
        {"rho": 0.9, "eps": 1e-6, "weight_decay": 0, **_HOW},
    ),
    "adafactor": (
        "Adam without running mean of gradients, and with one number per row and column, to save memory.",
        {
            "beta2_decay": -0.8,
            "eps": (None, 0.001),
            "d": 1.0,
            "weight_decay": 0.0,
            "foreach": None,
            "maximize": False,
        },
    ),
    "adagrad": (
        "Divides by the root of the sum of all squared gradients.",
        {
            "lr_decay": 0,
            "weight_decay": 0,
            "initial_accumulator_value": 0,
            "eps": 1e-10,
            "foreach": None,
            "maximize": False,
            "differentiable": False,
            "fused": None,
        },
    ),
    "adam": (
        'Kingma and Ba (2015), "Adam: A Method for Stochastic Optimization".',
        {**_ADAM, "weight_decay": 0, "amsgrad": False, **_HOW, "fused": None, "decoupled_weight_decay": False},
    ),
    "adamax": ("Adam with the infinity norm.", {**_ADAM, "weight_decay": 0, **_HOW}),
    "adamw": (
        "Adam with decoupled weight decay, which is on by default.",
        {**_ADAM, "weight_decay": 0.01, "amsgrad": False, **_HOW, "fused": None},
    ),
    "asgd": (
        "Gradient descent that also keeps the mean of the parameters, which nothing here reads.",
        {"lambd": 0.0001, "alpha": 0.75, "t0": 1000000.0, "weight_decay": 0, **_HOW},
    ),
    "muon": (
        "Momentum whose step is made orthogonal, for matrices alone: `param_groups_custom` has to select them.",
        {
            "weight_decay": 0.1,
            "momentum": 0.95,
            "nesterov": True,
            "ns_coefficients": (3.4445, -4.775, 2.0315),
            "eps": 1e-7,
            "ns_steps": 5,
            "adjust_lr_fn": None,
        },
    ),
    "nadam": (
        "Adam with Nesterov momentum.",
        {**_ADAM, "weight_decay": 0, "momentum_decay": 0.004, "decoupled_weight_decay": False, **_HOW},
    ),
    "radam": (
        "Adam whose first steps are smaller, as long as the variance of the gradients is not known well.",
        {**_ADAM, "weight_decay": 0, "decoupled_weight_decay": False, **_HOW},
    ),
    "rmsprop": (
        "Divides by the root of the running mean of squared gradients.",
        {"alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0, "centered": False, **_HOW},
    ),
    "rprop": (
        "Steps from the signs of gradients alone, for large batches.",
        {"etas": (0.5, 1.2), "step_sizes": (1e-6, 50), **_HOW},
    ),
    "sgd": (
        "`var -= learning_rate * grad`, with `momentum` if it is set.",
        {
            "momentum": 0,
            "dampening": 0,
            "weight_decay": 0,
            "nesterov": False,
            "maximize": False,
            "foreach": None,
            "differentiable": False,
            "fused": None,
        },
    ),
    "sparseadam": (
        "Adam for sparse gradients alone, as `torch.nn.Embedding(sparse=True)` has them.",
        {**_ADAM, "maximize": False},
    ),
}
_MEANINGS = {
    "adjust_lr_fn": "how the step follows the shape of the matrix: 'original' (None), or 'match_rms_adamw'",
    "alpha": "share of the former value in the running mean of squares; of `asgd`: power of the fall of the step",
    "amsgrad": "step sizes never grow: the largest running mean of squares counts",
    "beta2_decay": "power of the step by which the share of new squared gradients falls",
    "betas": "shares of the former values in the running means of the gradients, and of their squares",
    "capturable": "can be part of a CUDA graph",
    "centered": "divide by the standard deviation instead of the root of the mean of squares",
    "d": "largest root mean square of an update",
    "dampening": "share of the gradient that does not go into the momentum",
    "decoupled_weight_decay": "weight decay as of `adamw`",
    "differentiable": "gradients can go through the update",
    "eps": "added to the denominator; `epsilon` is another name of it. `optimizer_epsilon` does not count here",
    "etas": "factors of the step size where the sign of the gradient has changed, and where not",
    "foreach": "several parameters at once; None: on GPUs",
    "fused": "the whole update is one kernel",
    "initial_accumulator_value": "of the sum of squared gradients",
    "lambd": "the fall of the step",
    "lr_decay": "how the learning rate falls with the number of updates",
    "maximize": "go up the gradient",
    "momentum": "share of the former step in the next one",
    "momentum_decay": "of the schedule of the momentum",
    "nesterov": "look ahead by `momentum`",
    "ns_coefficients": "of the iteration that makes the step orthogonal",
    "ns_steps": "number of iterations that make the step orthogonal",
    "rho": "share of the former value in the running means",
    "step_sizes": "smallest and largest size of a step",
    "t0": "number of the update from which on the mean is taken",
    "weight_decay": (
        "factor of the parameters that is added to the gradients; with decoupled weight decay, "
        "`var -= learning_rate * weight_decay * var` instead. If it is set, biases, embeddings and normalizations get "
        "none (`weight_decay_modules_blacklist`); the default is for all parameters"
    ),
}


@functools.cache
def torch_optimizers() -> Mapping[str, type]:
    """:return: classes with the documentation and the options of those of `torch.optim`, by the names of a config"""
    return {name: _outline(name, text, options) for name, (text, options) in _SUMMARIES_AND_OPTIONS.items()}


def _outline(name: str, text: str, options: Mapping[str, Any]) -> type:
    def init(*args: Any, **kwargs: Any) -> None:
        """Has its arguments and documentation from below."""

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(option, kind, default=default) for option, default in options.items()]
    more = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    vars(init)["__signature__"] = inspect.Signature([*parameters, more])
    init.__doc__ = "\n".join(f":param {option}: {_MEANINGS[option]}" for option in options)
    return type(name, (OwnOptions,), {"__doc__": text, "__init__": init})
